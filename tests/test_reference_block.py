"""TensorFlow's block cells in the oracle: differences, and TensorFlow's ops."""

import numpy as np
import pytest
from helpers_reference import CASES, check_gradients, draw

from fused_rnn import reference


def test_gru_gradient_of_all_outputs():
    rng = np.random.default_rng(1)
    batch, size, units = 3, 2, 4
    inputs = {
        "x": draw(rng, batch, size),
        "h_prev": draw(rng, batch, units),
        "w_ru": draw(rng, size + units, 2 * units),
        "w_c": draw(rng, size + units, units),
        "b_ru": draw(rng, 2 * units),
        "b_c": draw(rng, units),
    }
    arriving = [draw(rng, batch, units) for _ in range(4)]

    def loss():
        outputs = reference.gru_block_cell(**inputs)
        return sum(np.sum(d * o) for d, o in zip(arriving, outputs))

    gradients = reference.gru_block_cell_grad(*inputs.values(), *arriving)
    check_gradients(loss, inputs, gradients)
    np.testing.assert_allclose(gradients["c_bar"].sum(0), gradients["b_c"])
    np.testing.assert_allclose(
        gradients["r_bar_u_bar"].sum(0), gradients["b_ru"]
    )


def test_gru_is_the_reset_before_cell():
    case = CASES["gru_before"]
    values = case.cell_inputs(np.random.default_rng(2))
    k_z, k_r, k_c = np.split(values["kernel"], 3, axis=1)
    r_z, r_r, r_c = np.split(values["recurrent_kernel"], 3, axis=1)
    b_z, b_r, b_c = np.split(values["bias"], 3)
    block = reference.gru_block_cell(
        values["x"], values["h_prev"],
        np.block([[k_r, k_z], [r_r, r_z]]), np.concatenate([k_c, r_c]),
        np.concatenate([b_r, b_z]), b_c,
    )
    cell = reference.gru_cell(**values, **case.options)
    for left, right in zip(block, (cell.r, cell.z, cell.c, cell.h)):
        np.testing.assert_allclose(left, right, rtol=1e-14)


OUTPUTS = reference.LstmBlockCellOutput._fields
options_of_lstm = pytest.mark.parametrize(
    "options",
    [
        dict(use_peephole=peephole, cell_clip=clip)
        for peephole in (False, True) for clip in (-1.0, 0.0, 0.3, 3.0)
    ],
    ids=str,
)


def lstm_inputs(rng, batch=3, size=2, units=4):
    return {
        "x": draw(rng, batch, size),
        "cs_prev": draw(rng, batch, units),
        "h_prev": draw(rng, batch, units),
        "w": draw(rng, size + units, 4 * units),
        **{name: draw(rng, units) for name in ("wci", "wcf", "wco")},
        "b": draw(rng, 4 * units),
    }


@options_of_lstm
@pytest.mark.parametrize("layout", ["LSTMBlockCell", "BlockLSTMV2"])
def test_lstm_gradient_of_all_outputs(options, layout):
    rng = np.random.default_rng(3)
    inputs = lstm_inputs(rng)
    options = dict(**options, layout=layout, forget_bias=0.5)
    arriving = {"d_" + name: draw(rng, 3, 4) for name in OUTPUTS}

    def loss():
        outputs = reference.lstm_block_cell(**inputs, **options)
        return sum(np.sum(d * o) for d, o in zip(arriving.values(), outputs))

    gradients = reference.lstm_block_cell_grad(
        **inputs, **options, **arriving
    )
    check_gradients(loss, inputs, gradients)
    np.testing.assert_allclose(gradients["gates_bar"].sum(0), gradients["b"])
    if options["cell_clip"] == 0.3:
        cs = np.abs(reference.lstm_block_cell(**inputs, **options).cs)
        assert 0 < np.sum(cs == 0.3) < cs.size


def test_lstm_passes_nothing_on_where_it_clips():
    inputs = lstm_inputs(np.random.default_rng(4), batch=1, units=1)
    (limit,) = reference.lstm_block_cell(**inputs, cell_clip=0.0).cs[0]
    for clip, passes in ((abs(limit), False), (abs(limit) * 1.01, True)):
        gradients = reference.lstm_block_cell_grad(
            **inputs, cell_clip=clip, d_cs=np.ones((1, 1))
        )
        assert (gradients["cs_prev"] != 0).all() == passes


def test_lstm_is_the_lstm_cell():
    case = CASES["lstm"]
    values = case.cell_inputs(np.random.default_rng(5))
    cell = case.cell(**values)
    block = reference.lstm_block_cell(
        values["x"], values["c_prev"], values["h_prev"],
        np.concatenate([values["kernel"], values["recurrent_kernel"]]),
        *[np.full(4, np.nan)] * 3, values["bias"], forget_bias=0.0,
        cell_clip=0.0, layout="BlockLSTMV2",
    )
    expected = (cell.i, cell.c, cell.f, cell.o, cell.g)
    for left, right in zip(block, expected):
        np.testing.assert_allclose(left, right, rtol=1e-14)
    np.testing.assert_allclose(block.h, cell.h, rtol=1e-14)


@options_of_lstm
@pytest.mark.parametrize("steps", [0, 2, 3])
def test_block_lstm_gradient(options, steps):
    rng = np.random.default_rng(6)
    inputs = {**lstm_inputs(rng), "x": draw(rng, 3, 3, 2)}
    arriving = {name: draw(rng, 3, 3, 4) for name in OUTPUTS}

    def loss():
        outputs = reference.block_lstm(steps, **inputs, **options)
        return sum(np.sum(d * o) for d, o in zip(arriving.values(), outputs))

    gradients = reference.block_lstm_grad(
        steps, **inputs, **options, d_outputs=arriving
    )
    check_gradients(loss, inputs, gradients)


def as_float32(inputs):
    return {name: a.astype(np.float32) for name, a in inputs.items()}


# Of the norm of what is summed: at most ten terms below 1, and the functions.
FLOAT32_TOLERANCE = 32 * np.finfo(np.float32).eps


@options_of_lstm
@pytest.mark.parametrize("forget_bias", [0.0, 1.0])
def test_lstm_equals_tensorflow(options, forget_bias):
    tf = pytest.importorskip("tensorflow")
    inputs = as_float32(lstm_inputs(np.random.default_rng(7)))
    options = dict(**options, forget_bias=forget_bias)
    expected = tf.raw_ops.LSTMBlockCell(**inputs, **options)
    ours = reference.lstm_block_cell(**inputs, **options)
    for name, left, right in zip(OUTPUTS, ours, expected):
        np.testing.assert_allclose(
            left, right, rtol=0, atol=FLOAT32_TOLERANCE, err_msg=name
        )


@options_of_lstm
@pytest.mark.parametrize("steps", [0, 3, 5])
def test_block_lstm_equals_tensorflow(options, steps):
    tf = pytest.importorskip("tensorflow")
    rng = np.random.default_rng(8)
    inputs = as_float32({**lstm_inputs(rng), "x": draw(rng, 5, 3, 2)})
    expected = tf.raw_ops.BlockLSTMV2(
        seq_len_max=tf.constant(steps, tf.int64), **inputs, **options
    )
    ours = reference.block_lstm(steps, **inputs, **options)
    for name, left, right in zip(OUTPUTS, ours, expected):
        # Past the last step TensorFlow defines these two alone.
        defined = slice(None if name in ("cs", "h") else steps)
        np.testing.assert_allclose(
            left[defined], right[defined], rtol=0,
            atol=5 * FLOAT32_TOLERANCE, err_msg=name,
        )


@pytest.mark.parametrize("use_peephole", [False, True])
def test_lstm_gradient_equals_tensorflow_without_clipping(use_peephole):
    tf = pytest.importorskip("tensorflow")
    rng = np.random.default_rng(9)
    inputs = as_float32(lstm_inputs(rng))
    d_cs, d_h = draw(rng, 3, 4), draw(rng, 3, 4)
    outputs = tf.raw_ops.LSTMBlockCell(**inputs, use_peephole=use_peephole)
    cs_prev_grad, dicfo, *peepholes = tf.raw_ops.LSTMBlockCellGrad(
        **inputs, **dict(zip(OUTPUTS[:-1], outputs)),
        cs_grad=d_cs.astype(np.float32), h_grad=d_h.astype(np.float32),
        use_peephole=use_peephole,
    )
    ours = reference.lstm_block_cell_grad(
        **inputs, d_cs=d_cs, d_h=d_h, use_peephole=use_peephole
    )
    expected = {"cs_prev": cs_prev_grad, "gates_bar": dicfo}
    if use_peephole:  # Otherwise TensorFlow leaves them uninitialised.
        expected.update(zip(("wci", "wcf", "wco"), peepholes))
    for name, gradient in expected.items():
        np.testing.assert_allclose(
            ours[name], gradient, rtol=0, atol=FLOAT32_TOLERANCE, err_msg=name
        )
