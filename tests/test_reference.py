"""The oracle itself: finite differences, known values, Keras in float64."""

import numpy as np
import pytest

from fused_rnn import reference

# A central difference with step e errs by e^2/6 of the third derivative plus
# eps/e by rounding: e = eps^(1/3) leaves about 4e-11 of the function's scale.
STEP = np.finfo(np.float64).eps ** (1 / 3)
DIFFERENCE_TOLERANCE = 1e-8


def numeric_gradient(loss, value):
    """Central differences of a scalar loss() over every element of value."""
    gradient = np.zeros_like(value)
    for index in np.ndindex(*value.shape):
        kept = value[index]
        value[index] = kept + STEP
        above = loss()
        value[index] = kept - STEP
        below = loss()
        value[index] = kept
        gradient[index] = (above - below) / (2 * STEP)
    return gradient


def check_gradients(loss, inputs, gradients):
    for name, value in inputs.items():
        np.testing.assert_allclose(
            gradients[name], numeric_gradient(loss, value),
            rtol=0, atol=DIFFERENCE_TOLERANCE, err_msg=name,
        )


def draw(rng, *shape):
    # Away from zero, where relu and elu have their kink.
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.1, 0.9, shape)


def cell_inputs(rng, batch=3, inputs=2, units=4, reset_after=True, bias=True):
    values = {
        "x": draw(rng, batch, inputs),
        "h_prev": draw(rng, batch, units),
        "kernel": draw(rng, inputs, 3 * units),
        "recurrent_kernel": draw(rng, units, 3 * units),
    }
    if bias:
        shape = (2, 3 * units) if reset_after else (3 * units,)
        values["bias"] = draw(rng, *shape)
    return values


def test_block_cell_gradient_of_all_outputs():
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


def test_block_cell_is_the_reset_before_cell():
    rng = np.random.default_rng(2)
    values = cell_inputs(rng, reset_after=False)
    k_z, k_r, k_c = np.split(values["kernel"], 3, axis=1)
    r_z, r_r, r_c = np.split(values["recurrent_kernel"], 3, axis=1)
    b_z, b_r, b_c = np.split(values["bias"], 3)
    block = reference.gru_block_cell(
        values["x"], values["h_prev"],
        np.block([[k_r, k_z], [r_r, r_z]]), np.concatenate([k_c, r_c]),
        np.concatenate([b_r, b_z]), b_c,
    )
    cell = reference.gru_cell(**values, reset_after=False)
    for left, right in zip(block, (cell.r, cell.z, cell.c, cell.h)):
        np.testing.assert_allclose(left, right, rtol=1e-14)


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dropout", [False, True])
def test_cell_gradient(reset_after, bias, dropout):
    rng = np.random.default_rng(3)
    inputs = cell_inputs(rng, reset_after=reset_after, bias=bias)
    options = dict(
        reset_after=reset_after,
        recurrent_dropout_mask=(
            rng.integers(0, 2, (3, 3, 4)) / 0.5 if dropout else None
        ),
    )
    arriving = {name: draw(rng, 3, 4) for name in ("z", "r", "c", "h")}

    def loss():
        cell = reference.gru_cell(**inputs, **options)
        return sum(np.sum(d * getattr(cell, n)) for n, d in arriving.items())

    gradients = reference.gru_cell_grad(
        **inputs, **options, **{"d_" + n: d for n, d in arriving.items()}
    )
    check_gradients(loss, inputs, gradients)


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("name", sorted(reference.ACTIVATIONS))
@pytest.mark.parametrize("place", ["activation", "recurrent_activation"])
def test_cell_gradient_of_activation(reset_after, name, place):
    rng = np.random.default_rng(4)
    inputs = cell_inputs(rng, reset_after=reset_after)
    options = {"reset_after": reset_after, place: name}
    d_h = draw(rng, 3, 4)

    def loss():
        return np.sum(d_h * reference.gru_cell(**inputs, **options).h)

    gradients = reference.gru_cell_grad(**inputs, **options, d_h=d_h)
    check_gradients(loss, inputs, gradients)


MASKS = {
    "none": None,
    "holes": [[1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]],
    "right_padded": [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]],
}


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("mask", sorted(MASKS))
@pytest.mark.parametrize("go_backwards", [False, True])
@pytest.mark.parametrize("zero_output_for_mask", [False, True])
def test_sequence_gradient(
    reset_after, mask, go_backwards, zero_output_for_mask
):
    rng = np.random.default_rng(5)
    batch, steps, size, units = 3, 4, 2, 3
    values = cell_inputs(rng, batch, size, units, reset_after)
    inputs = {
        "x": draw(rng, batch, steps, size), "h0": values.pop("h_prev"),
        **{k: v for k, v in values.items() if k != "x"},
    }
    options = dict(
        reset_after=reset_after, mask=MASKS[mask], go_backwards=go_backwards,
        zero_output_for_mask=zero_output_for_mask,
        recurrent_dropout_mask=rng.uniform(0, 2, (3, batch, units)),
    )
    d_outputs = draw(rng, batch, steps, units)
    d_state = draw(rng, batch, units)
    d_cache = {n: draw(rng, batch, steps, units) for n in ("z", "r", "c")}
    valid = np.ones((batch, steps)) if mask == "none" else MASKS[mask]
    valid = np.array(valid, float)[:, :: -1 if go_backwards else 1, None]

    def loss():
        outputs, state, cache = reference.gru(
            **inputs, **options, return_cache=True
        )
        total = np.sum(outputs * d_outputs) + np.sum(state * d_state)
        # What the gates hold at masked steps is no function of anything.
        return total + sum(
            np.sum(valid * d * cache[n]) for n, d in d_cache.items()
        )

    gradients = reference.gru_grad(
        **inputs, **options, d_outputs=d_outputs, d_state=d_state,
        d_cache=d_cache,
    )
    check_gradients(loss, inputs, gradients)
    assert not np.any(gradients["z_bar"] * (1 - valid))


def test_nothing_arrives():
    rng = np.random.default_rng(6)
    values = cell_inputs(rng)
    x = draw(rng, 3, 5, 2)
    gradients = reference.gru_grad(
        x, None, values["kernel"], values["recurrent_kernel"], values["bias"],
        reset_after=True,
    )
    assert not any(np.any(g) for g in gradients.values())


# From Keras' own published tests, recomputed in float64 to eight digits:
# x = 0..71 as (3, 6, 4), three units, kernel 0.01, recurrent kernel 0.02,
# bias 0.03 everywhere; the last state of each row, all units equal.
GOLDEN = [
    (dict(reset_after=True), True, [0.52172886, 0.63716595, 0.39384964]),
    (dict(reset_after=True, go_backwards=True), True,
     [0.24406259, 0.611516, 0.39288084]),
    (dict(reset_after=False), True, [0.51447756, 0.6426879, 0.40208288]),
    (dict(reset_after=True), False, [0.49988456, 0.64701196, 0.41033586]),
]


@pytest.mark.parametrize("options, use_bias, expected", GOLDEN)
def test_golden_values(options, use_bias, expected):
    x = np.arange(72.0).reshape(3, 6, 4)
    bias_shape = (2, 9) if options["reset_after"] else (9,)
    bias = np.full(bias_shape, 0.03) if use_bias else None
    outputs, state = reference.gru(
        x, None, np.full((4, 9), 0.01), np.full((3, 9), 0.02), bias, **options
    )
    np.testing.assert_allclose(
        state, np.repeat(np.array(expected)[:, None], 3, axis=1), atol=5e-9
    )
    np.testing.assert_array_equal(outputs[:, -1], state)


def test_masked_steps_reach_nothing():
    rng = np.random.default_rng(7)
    values = cell_inputs(rng, batch=3)
    mask = np.array(MASKS["holes"], bool)
    x = draw(rng, 3, 4, 2)
    weights = [values[n] for n in ("kernel", "recurrent_kernel", "bias")]
    d_outputs = draw(rng, 3, 4, 4)

    def run(x):
        forward = reference.gru(
            x, values["h_prev"], *weights, reset_after=True, mask=mask
        )
        backward = reference.gru_grad(
            x, values["h_prev"], *weights, reset_after=True, mask=mask,
            d_outputs=d_outputs,
        )
        return forward, backward

    (outputs, state), gradients = run(x)
    poisoned = x.copy()
    poisoned[~mask] = [np.nan, np.inf]
    (outputs_2, state_2), gradients_2 = run(poisoned)
    np.testing.assert_array_equal(outputs, outputs_2)
    np.testing.assert_array_equal(state, state_2)
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(gradient, gradients_2[name], name)
    # The row that is masked everywhere.
    assert not outputs[2].any()
    np.testing.assert_array_equal(state[2], values["h_prev"][2])


def test_bias_shape_must_go_with_the_convention():
    values = cell_inputs(np.random.default_rng(8), reset_after=True)
    with pytest.raises(ValueError, match=r"bias: expected shape \(12,\)"):
        reference.gru_cell(**values, reset_after=False)


@pytest.mark.parametrize("steps, batch", [(0, 2), (3, 0)])
def test_empty(steps, batch):
    values = cell_inputs(np.random.default_rng(9), batch=batch)
    weights = [values[n] for n in ("kernel", "recurrent_kernel", "bias")]
    outputs, state = reference.gru(
        np.zeros((batch, steps, 2)), values["h_prev"], *weights,
        reset_after=True,
    )
    assert outputs.shape == (batch, steps, 4)
    np.testing.assert_array_equal(state, values["h_prev"])


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("mask", sorted(MASKS))
@pytest.mark.parametrize("go_backwards", [False, True])
@pytest.mark.parametrize(
    "activation, recurrent_activation",
    [("tanh", "sigmoid"), ("relu", "hard_sigmoid"), ("softsign", "elu"),
     ("linear", "tanh")],
)
def test_equals_keras(
    reset_after, mask, go_backwards, activation, recurrent_activation
):
    """Forward and gradients of Keras' own loop in float64."""
    tf = pytest.importorskip("tensorflow")
    keras = pytest.importorskip("keras")
    rng = np.random.default_rng(10)
    batch, steps, size, units = 3, 4, 2, 5
    layer = keras.layers.GRU(
        units, reset_after=reset_after, go_backwards=go_backwards,
        activation=activation, recurrent_activation=recurrent_activation,
        return_sequences=True, return_state=True, use_cudnn=False,
        dtype="float64",
    )
    layer.build((batch, steps, size))
    values = cell_inputs(rng, batch, size, units, reset_after)
    names = ("kernel", "recurrent_kernel", "bias")
    layer.set_weights([values[n] for n in names])
    x = tf.Variable(draw(rng, batch, steps, size))
    h0 = tf.Variable(values["h_prev"])
    d_outputs = draw(rng, batch, steps, units)
    d_state = draw(rng, batch, units)
    keras_mask = None if MASKS[mask] is None else np.array(MASKS[mask], bool)
    with tf.GradientTape() as tape:
        outputs, state = layer(x, initial_state=h0, mask=keras_mask)
        loss = tf.reduce_sum(outputs * d_outputs)
        loss += tf.reduce_sum(state * d_state)
    variables = [x, h0] + [v.value for v in layer.trainable_variables]
    expected = tape.gradient(loss, variables)

    options = dict(
        reset_after=reset_after, mask=keras_mask, go_backwards=go_backwards,
        activation=activation, recurrent_activation=recurrent_activation,
    )
    weights = [values[n] for n in names]
    our_outputs, our_state = reference.gru(
        x.numpy(), h0.numpy(), *weights, **options
    )
    np.testing.assert_allclose(our_outputs, outputs, rtol=0, atol=1e-13)
    np.testing.assert_allclose(our_state, state, rtol=0, atol=1e-13)
    gradients = reference.gru_grad(
        x.numpy(), h0.numpy(), *weights, **options, d_outputs=d_outputs,
        d_state=d_state,
    )
    for name, gradient in zip(("x", "h0") + names, expected):
        np.testing.assert_allclose(
            gradients[name], gradient, rtol=0, atol=1e-12, err_msg=name
        )
