"""The sequence op: values and gradients against the oracle, bit for bit."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from bounds_gru import BoundedGru
from helpers import (
    DTYPES,
    SEQUENCE_SHAPES,
    draw,
    gru_arguments,
)

import fused_rnn
from fused_rnn import _library, reference

_ops = _library.load()

DIFFERENTIABLE = ("x", "h0", "kernel", "recurrent_kernel", "bias")
FLAGS = ("go_backwards", "time_major", "zero_output_for_mask")


def time_major(array):
    return np.swapaxes(array, 0, 1)


def run(values, d_outputs, d_state, *, return_sequences=True, **options):
    """outputs, state, gradients by name; layout as the options say."""
    values = dict(values)
    tensors = {
        name: tf.constant(values[name])
        for name in DIFFERENTIABLE if values[name] is not None
    }
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        outputs, state = fused_rnn.gru(
            **{**values, **tensors}, return_sequences=return_sequences,
            **options,
        )
    gradients = tape.gradient(
        [outputs, state], tensors,
        [tf.constant(d_outputs), tf.constant(d_state)],
    )
    return (
        outputs.numpy(), state.numpy(),
        {name: gradient.numpy() for name, gradient in gradients.items()},
    )


def check_float64(values, *, flags, reset_after, **options):
    """Values and all gradients to 1e-12 of the largest value, or of 1."""
    rng = np.random.default_rng(9)
    batch, steps, _ = values["x"].shape
    units = values["recurrent_kernel"].shape[0]
    d_outputs = rng.standard_normal((batch, steps, units))
    d_state = rng.standard_normal((batch, units))
    options["reset_after"] = reset_after
    same = {
        name: flags[name] for name in ("go_backwards", "zero_output_for_mask")
    }
    expected = reference.gru(**values, **options, **same)
    d_expected = reference.gru_grad(
        **values, d_outputs=d_outputs, d_state=d_state, **options, **same
    )
    turned = dict(values)
    swap = time_major if flags["time_major"] else np.asarray
    turned["x"] = swap(values["x"])
    outputs, state, gradients = run(
        turned, swap(d_outputs), d_state, **options, **flags
    )
    gradients["x"] = swap(gradients["x"])
    actual = {"outputs": swap(outputs), "state": state, **gradients}
    expected = {"outputs": expected[0], "state": expected[1], **d_expected}
    for name, value in actual.items():
        assert value.shape == expected[name].shape, name
        largest = np.max(np.abs(expected[name]), initial=1.0)
        np.testing.assert_allclose(
            value, expected[name], rtol=0, atol=1e-12 * largest, err_msg=name
        )


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_oracle_options(reset_after, mask):
    """Each combination of layouts and of arguments that may be absent."""
    for h0, bias, dropout, *flags in itertools.product([False, True], repeat=6):
        values = gru_arguments(
            0, 3, 4, 2, 5, np.float64, reset_after=reset_after, h0=h0,
            bias=bias, mask=mask, dropout=dropout,
        )
        check_float64(
            values, flags=dict(zip(FLAGS, flags)), reset_after=reset_after
        )


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("recurrent", [True, False])
@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_oracle_activations(name, recurrent, reset_after):
    values = gru_arguments(
        1, 9, 4, 3, 18, np.float64, reset_after=reset_after, mask=True
    )
    which = "recurrent_activation" if recurrent else "activation"
    check_float64(
        values, flags=dict.fromkeys(FLAGS, False), reset_after=reset_after,
        **{which: name},
    )


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SEQUENCE_SHAPES)
def test_oracle_shapes(shape, dtype, reset_after):
    batch, steps, inputs, units = SEQUENCE_SHAPES[shape]
    # Masks and dropout on every other shape: all paths, half the time.
    extra = list(SEQUENCE_SHAPES).index(shape) % 2 == 1
    values = gru_arguments(
        2, batch, steps, inputs, units, DTYPES[dtype], reset_after=reset_after,
        mask=extra, dropout=extra,
    )
    rng = np.random.default_rng(3)
    d_outputs = draw(rng, (batch, steps, units), DTYPES[dtype])
    d_state = draw(rng, (batch, units), DTYPES[dtype])
    bounds = BoundedGru(DTYPES[dtype], **values, reset_after=reset_after)
    d_bounds = bounds.gradients(d_outputs, d_state)
    expected, expected_state = reference.gru(**values, reset_after=reset_after)
    d_expected = reference.gru_grad(
        **values, d_outputs=d_outputs, d_state=d_state, reset_after=reset_after
    )
    outputs, state, gradients = run(
        values, d_outputs, d_state, reset_after=reset_after
    )
    assert outputs.shape == expected.shape and outputs.dtype == DTYPES[dtype]
    for t, bound in enumerate(bounds.outputs):
        bound.check(outputs[:, t], expected[:, t], f"outputs {t}")
    bounds.state.check(state, expected_state, "state")
    for name, gradient in gradients.items():
        if name in d_bounds:
            d_bounds[name].check(gradient, d_expected[name], name)
        else:  # No step, no gradient.
            assert steps == 0
            np.testing.assert_array_equal(gradient, np.zeros_like(values[name]))


@pytest.mark.parametrize("reset_after, go_backwards, bias, expected", [
    (True, False, True, [0.52172886, 0.63716595, 0.39384964]),
    (True, True, True, [0.24406259, 0.611516, 0.39288084]),
    (False, False, True, [0.51447756, 0.6426879, 0.40208288]),
    (True, False, False, [0.49988456, 0.64701196, 0.41033586]),
])
def test_known_last_states_of_keras_tests(
    reset_after, go_backwards, bias, expected
):
    """Values of Keras' own published tests, recomputed in float64."""
    x = np.arange(72.0).reshape(3, 6, 4)
    shape = (2, 9) if reset_after else (9,)
    _, state = fused_rnn.gru(
        x, None, np.full((4, 9), 0.01), np.full((3, 9), 0.02),
        np.full(shape, 0.03) if bias else None,
        reset_after=reset_after, go_backwards=go_backwards,
    )
    # Given to eight digits.
    np.testing.assert_allclose(
        state, np.tile(np.array(expected)[:, None], 3), rtol=0, atol=5e-9
    )


@pytest.mark.parametrize("reset_after", [True, False])
def test_masked_steps_reach_nothing(reset_after):
    """NaN and infinities in the padding; a row of padding alone."""
    values = gru_arguments(
        4, 6, 5, 7, 19, np.float32, reset_after=reset_after, mask=True
    )
    values["mask"][2] = False
    values["mask"][3] = [True, True, False, False, False]
    rng = np.random.default_rng(5)
    d_outputs = draw(rng, (6, 5, 19), np.float32)
    d_state = draw(rng, (6, 19), np.float32)
    clean = run(values, d_outputs, d_state, reset_after=reset_after)
    masked = np.argwhere(~values["mask"])
    poisons = itertools.cycle((np.nan, np.inf, -np.inf))
    for (b, t), poison in zip(masked, poisons):
        values["x"][b, t] = poison
    dirty = run(values, d_outputs, d_state, reset_after=reset_after)
    for a, b in zip(clean[:2], dirty[:2]):
        np.testing.assert_array_equal(a, b)
    for name, gradient in clean[2].items():
        np.testing.assert_array_equal(gradient, dirty[2][name], name)
    assert not clean[2]["x"][~values["mask"]].any()
    np.testing.assert_array_equal(clean[0][2], np.zeros((5, 19)))
    np.testing.assert_array_equal(clean[1][2], values["h0"][2])


@pytest.mark.parametrize("zero_output_for_mask", [True, False])
@pytest.mark.parametrize("go_backwards", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_last_output_alone(mask, go_backwards, zero_output_for_mask):
    """What Keras calls the last output, and its gradient."""
    options = dict(
        go_backwards=go_backwards, zero_output_for_mask=zero_output_for_mask
    )
    values = gru_arguments(
        6, 8, 3, 2, 5, np.float64, reset_after=True, mask=mask
    )
    if mask:
        values["mask"][0] = False
    rng = np.random.default_rng(7)
    d_last, d_state = rng.standard_normal((2, 8, 5))
    d_outputs = np.zeros((8, 3, 5))
    d_outputs[:, -1] = d_last
    sequence, state, gradients = run(
        values, d_outputs, d_state, reset_after=True, **options
    )
    last, same_state, same = run(
        values, d_last, d_state, return_sequences=False, reset_after=True,
        **options,
    )
    np.testing.assert_array_equal(last, sequence[:, -1])
    np.testing.assert_array_equal(state, same_state)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(
            same[name], gradient, rtol=0, atol=1e-13, err_msg=name
        )


@pytest.mark.parametrize("reset_after", [True, False])
def test_recomputed_gradients_are_the_same_bits(reset_after):
    """Kept or recomputed, inference or training, in a graph or not."""
    values = gru_arguments(
        8, 9, 4, 3, 17, np.float32, reset_after=reset_after, mask=True
    )
    d_outputs, d_state = np.ones((9, 4, 17), "f"), np.ones((9, 17), "f")
    options = dict(reset_after=reset_after)
    expected = run(values, d_outputs, d_state, training=True, **options)
    for kwargs in (
        dict(training=False), dict(training=True, recompute=True), dict()
    ):
        for function in (run, graph_run):
            actual = function(values, d_outputs, d_state, **options, **kwargs)
            for a, b in zip(expected[:2], actual[:2]):
                np.testing.assert_array_equal(a, b)
            for name, gradient in expected[2].items():
                np.testing.assert_array_equal(gradient, actual[2][name], name)


def graph_run(values, d_outputs, d_state, **options):
    """As ``run``, in a graph, with the reserve overwritten in place."""
    names = [n for n in DIFFERENTIABLE if values[n] is not None]
    others = {n: v for n, v in values.items() if n not in names}

    @tf.function
    def train(tensors, d_outputs, d_state):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            outputs, state = fused_rnn.gru(
                **dict(zip(names, tensors)), **others, **options
            )
        return outputs, state, tape.gradient(
            [outputs, state], tensors, [d_outputs, d_state]
        )

    outputs, state, gradients = train(
        [tf.constant(values[n]) for n in names], d_outputs, d_state
    )
    return outputs, state, dict(zip(names, gradients))


def test_inference_keeps_nothing():
    values = gru_arguments(0, 3, 4, 2, 5, np.float32, reset_after=True)

    def call(**options):
        return _ops.fused_rnn_gru(
            x=values["x"], h0=[values["h0"]], kernel=values["kernel"],
            recurrent_kernel=values["recurrent_kernel"], bias=[values["bias"]],
            mask=[], recurrent_dropout_mask=[], **options,
        )

    full, state, reserve = call(keep_reserve=True)
    assert full.shape == [3, 4, 5] and reserve.shape == [4, 3, 20]
    outputs, same, reserve = call(keep_reserve=False)
    assert outputs.shape == [3, 4, 5] and reserve.shape == [0, 3, 20]
    np.testing.assert_array_equal(outputs, full)
    np.testing.assert_array_equal(same, state)
    outputs, same, _ = call(keep_reserve=False, return_sequences=False)
    assert outputs.shape == [3, 0, 5]
    np.testing.assert_array_equal(same, state)
    with tf.Graph().as_default():
        outputs, _, reserve = call(keep_reserve=False, return_sequences=False)
        assert outputs.shape == [3, 0, 5] and reserve.shape == [0, 3, 20]


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("units", [5, 67])
def test_a_batch_cut_in_two_gives_the_same_bits(units, reset_after):
    values = gru_arguments(
        10, 11, 6, 4, units, np.float32, reset_after=reset_after, mask=True,
        dropout=True,
    )
    rng = np.random.default_rng(11)
    d_outputs = draw(rng, (11, 6, units), np.float32)
    d_state = draw(rng, (11, units), np.float32)

    def part(rows):
        cut = dict(values)
        for name in ("x", "h0", "mask"):
            cut[name] = values[name][rows]
        dropout = values["recurrent_dropout_mask"]
        cut["recurrent_dropout_mask"] = dropout[:, rows]
        outputs, state, gradients = run(
            cut, d_outputs[rows], d_state[rows], reset_after=reset_after
        )
        return outputs, state, gradients["x"], gradients["h0"]

    whole = part(slice(None))
    halves = [part(slice(0, 4)), part(slice(4, 11))]
    for position, value in enumerate(whole):
        np.testing.assert_array_equal(
            value, np.concatenate([half[position] for half in halves])
        )


@pytest.mark.parametrize("reset_after", [True, False])
def test_ten_thousand_steps(reset_after):
    """Rounding does not pile up: gates below 1 forget old errors."""
    steps, units = 10_000, 8
    values = gru_arguments(
        12, 2, steps, 3, units, np.float32, reset_after=reset_after
    )
    d_outputs = np.zeros((2, steps, units), np.float32)
    d_outputs[:, ::100] = 1.0
    d_state = np.ones((2, units), np.float32)
    expected, _ = reference.gru(**values, reset_after=reset_after)
    outputs, _, gradients = run(
        values, d_outputs, d_state, reset_after=reset_after
    )
    # A step errs by some 20 roundings of values below 1 (dot products of 12
    # terms, three activations). This network's gates are below 0.95, so that
    # at most 1/(1 - 0.95) steps add up.
    error = np.abs(outputs - expected)
    assert error.max() < 20 * 20 * 2.0**-24
    assert error[:, -1000:].max() < 2 * max(error[:, :1000].max(), 2.0**-24)
    d_expected = reference.gru_grad(
        **values, d_outputs=d_outputs, d_state=d_state, reset_after=reset_after
    )
    for name, gradient in gradients.items():
        assert np.isfinite(gradient).all()
        # The same bound for each term; the sums over time add at most one
        # rounding a term.
        scale = np.abs(d_expected[name]).max()
        np.testing.assert_allclose(
            gradient, d_expected[name], rtol=0, atol=400 * 2.0**-24 * scale,
            err_msg=name,
        )
