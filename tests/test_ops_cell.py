"""The block cells' ops: values, shapes, takeover."""

import json

import numpy as np
import pytest
import tensorflow as tf
from bounds import Bounded, unit_roundoff
from bounds_block import bounds_of, grad_bounds_of
from helpers import CELL_SHAPES, DTYPES, run_python
from helpers_block import BLOCK_CELLS, each_block_cell

import fused_rnn


def sample(cell, shape, dtype="float32", seed=0):
    """Inputs by name, and the gradients that come in, for a named shape."""
    batch, inputs, units = CELL_SHAPES.get(shape, shape)
    return (
        cell.arguments(seed, batch, inputs, units, DTYPES[dtype]),
        cell.gradients(seed + 1, batch, units, DTYPES[dtype]),
    )


def numpy(tensors):
    return [tensor.numpy() for tensor in tensors]


def grad_values(cell, inputs, outputs, incoming):
    """The arguments of ``cell.grad``."""
    kept = [getattr(outputs, name) for name in cell.kept]
    return [
        *inputs.values(), *kept,
        *[incoming[name] for name in (*cell.arriving, *cell.gates)],
    ]


@each_block_cell
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CELL_SHAPES)
def test_oracle_values(cell, shape, dtype):
    inputs, _ = sample(cell, shape, dtype)
    actual = cell.fused(*inputs.values())
    expected = cell.reference(inputs)
    bounds = bounds_of(cell, DTYPES[dtype], inputs)
    for name, bound in zip(cell.outputs, bounds, strict=True):
        bound.check(getattr(actual, name), getattr(expected, name), name)


@each_block_cell
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CELL_SHAPES)
def test_oracle_gradients(cell, shape, dtype):
    inputs, incoming = sample(cell, shape, dtype)
    expected = cell.reference_grad(inputs, incoming)
    bounds = grad_bounds_of(cell, DTYPES[dtype], inputs, incoming)

    tensors = [tf.constant(value) for value in inputs.values()]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        outputs = cell.fused(*tensors)
    gradients = tape.gradient(
        outputs, tensors, [tf.constant(value) for value in incoming.values()]
    )
    for name, gradient in zip(cell.inputs, gradients):
        bounds[name].check(gradient, expected[name], name)

    actual = cell.grad(*grad_values(cell, inputs, outputs, incoming))
    for name, gradient in zip(cell.grad_outputs, actual, strict=True):
        bounds[name].check(gradient, expected[name], name)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CELL_SHAPES)
def test_oracle_weight_gradients(cell, shape, dtype):
    """The weights' gradients of gate gradients that the test makes up."""
    cell = BLOCK_CELLS[cell]
    inputs, incoming = sample(cell, shape, dtype)
    inputs.update(incoming)
    x, h_prev = inputs["x"], inputs["h_prev"]

    def exact(value):
        return Bounded(value.astype(np.float64), x.dtype)

    def side_by_side(*names):
        return np.concatenate([inputs[name] for name in names], axis=1)

    if cell.cell == "gru":
        d_gates, d_c_bar = side_by_side("d_h", "d_u"), inputs["d_c"]
        r = inputs["d_r"]
        actual = cell.weight_grad(x, h_prev, r, d_c_bar, d_gates)
        # The product of state and gate rounds once.
        products = [(exact(h_prev), d_gates), (exact(h_prev) * exact(r), d_c_bar)]
    else:
        d_gates = side_by_side("d_i", "d_ci", "d_f", "d_o")
        actual = cell.weight_grad(x, h_prev, d_gates)
        products = [(exact(h_prev), d_gates)]
    ones = np.ones((1, len(x)))
    size = x.shape[1]
    weights, biases = actual[: len(products)], actual[len(products):]
    for (state, d_bar), d_w, d_b in zip(products, weights, biases, strict=True):
        for name, left, value in (
            ("of x", exact(x), d_w[:size]), ("of h", state, d_w[size:]),
            ("bias", exact(ones.T), d_b[None]),
        ):
            bound = (left.T @ exact(d_bar)).stored()
            bound.check(value, bound.value, name)


@each_block_cell
def test_gradient_without_gate_gradients_is_that_with_zeros(cell):
    inputs, incoming = sample(cell, "primes")
    outputs = cell.fused(*inputs.values())
    for name in cell.gates:
        incoming[name] = np.zeros_like(incoming[name])
    call = grad_values(cell, inputs, outputs, incoming)
    without = cell.grad(*call[: -len(cell.gates)])
    for a, b in zip(without, cell.grad(*call)):
        np.testing.assert_array_equal(a, b)


def test_gradient_op_of_tensorflow_is_that_of_the_library():
    cell = BLOCK_CELLS["gru"]
    inputs, incoming = sample(cell, "primes")
    outputs = cell.fused(*inputs.values())
    call = grad_values(cell, inputs, outputs, incoming)[: -len(cell.gates)]
    names = (*cell.inputs, *cell.kept, *cell.arriving)
    own = tf.raw_ops.GRUBlockCellGrad(**dict(zip(names, call)))
    for a, b in zip(cell.grad(*call), own):
        np.testing.assert_array_equal(a, b)


def test_known_last_state_of_keras_tests():
    """Values of Keras' own published tests, recomputed in float64."""
    x = np.arange(72.0).reshape(3, 6, 4)
    w_ru = np.concatenate([np.full((4, 6), 0.01), np.full((3, 6), 0.02)])
    w_c = w_ru[:, :3]
    h = np.zeros((3, 3))
    for t in range(6):
        h = fused_rnn.gru_block_cell(
            x[:, t], h, w_ru, w_c, np.full(6, 0.03), np.full(3, 0.03)
        ).h
    expected = np.array([0.51447756, 0.6426879, 0.40208288])
    # Given to eight digits.
    np.testing.assert_allclose(h, np.tile(expected[:, None], 3), atol=5e-9)


TENSORFLOW_KERNEL = """
    import json, sys
    import numpy as np, tensorflow as tf
    name, options, inputs, results = sys.argv[1:]
    with np.load(inputs) as file:
        inputs = dict(file)
    d_h = inputs.pop("d_h")
    outputs = getattr(tf.raw_ops, name)(**inputs, **json.loads(options))
    values = list(outputs)
    if name == "GRUBlockCell":
        r, u, c, h = outputs
        values += tf.raw_ops.GRUBlockCellGrad(
            **inputs, r=r, u=u, c=c, d_h=d_h)
    np.savez(results, *[value.numpy() for value in values])
"""


@pytest.mark.parametrize("cell, dtype", [
    (name, dtype) for name, cell in BLOCK_CELLS.items()
    for dtype in cell.dtypes
])
def test_same_as_tensorflows_own_kernel(cell, dtype, tmp_path):
    """Against a process that never imports the package."""
    cell = BLOCK_CELLS[cell]
    inputs, incoming = sample(cell, "primes", dtype)
    units = inputs["h_prev"].shape[1]
    absent = {} if cell.cell == "gru" else dict.fromkeys(
        ("wci", "wcf", "wco"), np.zeros(units, inputs["x"].dtype)
    )
    d_h = incoming["d_h"]
    np.savez(tmp_path / "inputs.npz", **{**absent, **inputs}, d_h=d_h)
    run_python(
        TENSORFLOW_KERNEL, cell.raw_name, json.dumps(cell.options),
        tmp_path / "inputs.npz", tmp_path / "out.npz",
    )
    with np.load(tmp_path / "out.npz") as file:
        theirs = list(file.values())
    ours = list(cell.raw(*inputs.values()))
    bounds = bounds_of(cell, DTYPES[dtype], inputs)
    # TensorFlow rounds every step of its computation to half.
    roundings = unit_roundoff(dtype) / unit_roundoff("float32")
    theirs_may = [
        roundings * bound.tolerance
        for bound in bounds_of(cell, DTYPES["float32"], inputs)
    ]
    ours_may = [bound.tolerance for bound in bounds]
    if cell.cell == "gru":
        ours += tf.raw_ops.GRUBlockCellGrad(
            **inputs, r=ours[0], u=ours[1], c=ours[2], d_h=d_h
        )
        zeros = dict.fromkeys(incoming, np.zeros_like(d_h))
        grads = grad_bounds_of(
            cell, DTYPES[dtype], inputs, {**zeros, "d_h": d_h}
        )
        tolerances = [grads[name].tolerance for name in cell.grad_outputs]
        ours_may += tolerances
        theirs_may += tolerances
    for our, their, a, b in zip(
        ours, theirs, ours_may, theirs_may, strict=True
    ):
        difference = np.abs(our.numpy().astype(np.float64) - their)
        assert (difference <= a + b).all()


@each_block_cell
def test_takes_over_tensorflows_op(cell):
    """Only this library's kernels name both shapes when sizes disagree."""
    for dtype in cell.dtypes:
        inputs, _ = sample(cell, "primes", dtype)
        name = cell.inputs[-1]
        inputs[name] = inputs[name][1:]
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=f"{name} must have"
        ):
            cell.raw(*inputs.values())


@each_block_cell
@pytest.mark.parametrize("shape", ["serving", "split", "wide"])
def test_forwarded_buffers_give_the_same_bits(cell, shape):
    """States and x that nobody else holds are overwritten in place."""
    inputs, incoming = sample(cell, shape)
    fixed = len(cell.weights)

    @tf.function
    def forwarded(*values):
        # Fresh tensors of the graph whose only use is the op.
        one = tf.constant(1.0)
        return cell.fused(
            *[value * one for value in values[:-fixed]], *values[-fixed:]
        )

    @tf.function
    def grad_forwarded(*values):
        one = tf.constant(1.0)
        return cell.grad(*[
            value if name in cell.weights else value * one
            for name, value in zip(cell.grad_names(), values)
        ])

    tensors = [tf.constant(value) for value in inputs.values()]
    plain = cell.fused(*tensors)
    for a, b in zip(plain, forwarded(*tensors)):
        np.testing.assert_array_equal(a, b)
    values = grad_values(
        cell, dict(zip(inputs, tensors)), plain,
        {name: tf.constant(value) for name, value in incoming.items()},
    )[: -len(cell.gates)]
    for a, b in zip(cell.grad(*values), grad_forwarded(*values)):
        np.testing.assert_array_equal(a, b)
    for tensor, value in zip(tensors, inputs.values()):
        np.testing.assert_array_equal(tensor, value)


@each_block_cell
def test_misaligned_rows(cell):
    """Rows that start anywhere, as in memory that others allocated."""
    inputs, _ = sample(cell, "primes")
    shifted = []
    for value in inputs.values():
        buffer = np.empty(value.size + 1, value.dtype)
        buffer[1:] = value.ravel()
        view = buffer[1:].reshape(value.shape)
        shifted.append(
            tf.experimental.dlpack.from_dlpack(view.__dlpack__())
        )
    for a, b in zip(cell.fused(*shifted), cell.fused(*inputs.values())):
        np.testing.assert_array_equal(a, b)


@each_block_cell
def test_nan_stays_in_its_row(cell):
    inputs, _ = sample(cell, "row_block_and_one")
    clean = numpy(cell.fused(*inputs.values()))
    inputs["x"][4, 2] = np.nan
    dirty = numpy(cell.fused(*inputs.values()))
    for a, b in zip(clean, dirty):
        assert np.isnan(b[4]).all()
        np.testing.assert_array_equal(np.delete(a, 4, 0), np.delete(b, 4, 0))


def test_saturated_gates_of_gru():
    """Values whose exponentials overflow or vanish."""
    ones = np.ones((1, 1), np.float32)
    for size in (1e3, 1e30, np.inf):
        for sign in (1, -1):
            w_ru = np.full((2, 2), sign * size, np.float32)
            w_c = np.full((2, 1), sign * size, np.float32)
            r, u, c, h = numpy(
                fused_rnn.gru_block_cell(
                    ones, 0 * ones + 0.5, w_ru, w_c, np.zeros(2, np.float32),
                    np.zeros(1, np.float32),
                )
            )
            gate = 1.0 if sign > 0 else 0.0
            assert (r, u) == (gate, gate)
            # 0 * inf in the reset state is not a number, and stays visible.
            if np.isfinite(size) or sign > 0:
                assert c == sign
                assert h == gate * 0.5 + (1 - gate) * c


def test_saturated_gates_of_lstm():
    one = np.ones((1, 1), np.float32)
    for size in (1e3, 1e30, np.inf):
        for sign in (1, -1):
            i, cs, f, o, ci, co, h = numpy(fused_rnn.lstm_block_cell(
                one, 0.5 * one, one, np.full((2, 4), sign * size, np.float32),
                np.zeros(4, np.float32), cell_clip=0.0,
            ))
            gate = 1.0 if sign > 0 else 0.0
            assert (i, f, o, ci) == (gate, gate, gate, sign)
            assert cs == gate * 1.5
            np.testing.assert_allclose(co, np.tanh(gate * 1.5), rtol=2.0**-22)
            assert h == gate * co


def test_cell_clip():
    """Nothing at or below zero, NaN included; the bound of the element type."""
    cell = BLOCK_CELLS["lstm"]
    values = cell.arguments(0, 3, 4, 5, np.float32)
    values["cs_prev"] *= 8
    free = fused_rnn.lstm_block_cell(**values, cell_clip=0.0)
    for clip in (-1.0, np.nan, np.inf, 1e30):
        other = fused_rnn.lstm_block_cell(**values, cell_clip=clip)
        for a, b in zip(free, other):
            np.testing.assert_array_equal(a, b)
    assert np.abs(free.cs).max() > 3.1
    by_default = fused_rnn.lstm_block_cell(**values)
    np.testing.assert_array_equal(
        by_default.cs, np.clip(free.cs, -3.0, 3.0)
    )
    # 3.1 is no half: what is cut off equals its rounded value, and no gradient
    # passes there.
    values = {
        name: tf.constant(value, tf.float16) for name, value in values.items()
    }
    with tf.GradientTape() as tape:
        tape.watch(values["b"])
        clipped = fused_rnn.lstm_block_cell(**values, cell_clip=3.1).cs
    gradient = tape.gradient(clipped, values["b"])
    bound = np.float16(3.1)
    at_bound = np.abs(clipped) == bound
    assert np.abs(clipped).max() == bound and at_bound.any()
    columns = np.flatnonzero(at_bound.all(axis=0))
    assert columns.size > 0 or at_bound.sum() > 0
    for column in columns:
        assert (np.asarray(gradient).reshape(4, 5)[:, column] == 0).all()


def test_peepholes_of_the_function():
    """One that is missing counts as zeros; without them none is read."""
    cell = BLOCK_CELLS["lstm_peephole"]
    values = cell.arguments(0, 3, 4, 5, np.float32)
    names = ("wci", "wcf", "wco")
    peepholes = {name: values.pop(name) for name in names}
    without = fused_rnn.lstm_block_cell(**values)

    def assert_same(a, b):
        for left, right in zip(a, b, strict=True):
            np.testing.assert_array_equal(left, right)

    assert_same(without, fused_rnn.lstm_block_cell(
        **values, wci=np.full(7, np.nan, np.float32), use_peephole=False
    ))
    zeros = np.zeros(5, np.float32)
    assert_same(without, fused_rnn.lstm_block_cell(**values, use_peephole=True))
    for name in names:
        only = {name: peepholes[name]}
        others = {other: zeros for other in names if other != name}
        one = fused_rnn.lstm_block_cell(**values, **only)
        assert_same(
            one, fused_rnn.lstm_block_cell(**values, **only, **others)
        )
        assert not np.array_equal(one.h, without.h)
