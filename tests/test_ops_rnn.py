"""The sequence ops: values and gradients against the oracle, bit for bit."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from checks_rnn import check_activation, check_options, check_shape
from helpers import DTYPES, SEQUENCE_SHAPES, first_states, rnn_arguments
from helpers_rnn import (
    differentiable,
    drawn_gradients,
    each_cell,
    fused,
    in_order,
    oracle,
    run,
)

import fused_rnn
from fused_rnn import _library, reference

_ops = _library.load()


@each_cell
@pytest.mark.parametrize("mask", [True, False])
def test_oracle_options(mask, cell):
    check_options(run, cell, mask)


@each_cell
@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_oracle_activations(name, cell):
    check_activation(run, cell, name)


@each_cell
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SEQUENCE_SHAPES)
def test_oracle_shapes(shape, dtype, cell):
    # Masks and dropout on every other shape: all paths, half the time.
    extra = list(SEQUENCE_SHAPES).index(shape) % 2 == 1
    check_shape([run], cell, shape, DTYPES[dtype], extra)


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


def assert_same_bits(actual, expected):
    for a, e in zip(actual, expected, strict=True):
        assert a.keys() == e.keys()
        for name in e:
            np.testing.assert_array_equal(a[name], e[name], name)


@each_cell
def test_masked_steps_reach_nothing(cell):
    """NaN and infinities in the padding; a row of padding alone."""
    values = rnn_arguments(cell, 4, 6, 5, 7, 19, np.float32, mask=True)
    values["mask"][2] = False
    values["mask"][3] = [True, True, False, False, False]
    incoming = drawn_gradients(cell, 5, values)
    clean = results, gradients = run(cell, values, incoming)
    masked = np.argwhere(~values["mask"])
    poisons = itertools.cycle((np.nan, np.inf, -np.inf))
    for (b, t), poison in zip(masked, poisons):
        values["x"][b, t] = poison
    assert_same_bits(run(cell, values, incoming), clean)
    assert not gradients["x"][~values["mask"]].any()
    np.testing.assert_array_equal(results["outputs"][2], np.zeros((5, 19)))
    for state, first, d_last in zip(
        cell.states, first_states(cell), incoming[1:]
    ):
        np.testing.assert_array_equal(results[state][2], values[first][2])
        np.testing.assert_array_equal(gradients[first][2], d_last[2])


@each_cell
def test_what_is_not_a_number_spreads_where_it_counts(cell):
    """From the step where it stands on, in its row alone."""
    values = rnn_arguments(cell, 4, 3, 5, 2, 19, np.float32)
    values["x"][1, 2, 0] = np.nan
    results = in_order(cell, fused(cell)(**values, **cell.options))
    nan = np.zeros((3, 5, 19), bool)
    nan[1, 2:] = True
    np.testing.assert_array_equal(np.isnan(results["outputs"]), nan)
    for state in cell.states:
        np.testing.assert_array_equal(np.isnan(results[state]), nan[:, -1])


@each_cell
@pytest.mark.parametrize("zero_output_for_mask", [True, False])
@pytest.mark.parametrize("go_backwards", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_last_output_alone(mask, go_backwards, zero_output_for_mask, cell):
    """What Keras calls the last output, and its gradient."""
    options = dict(
        go_backwards=go_backwards, zero_output_for_mask=zero_output_for_mask
    )
    values = rnn_arguments(cell, 6, 8, 3, 2, 5, np.float64, mask=mask)
    if mask:
        values["mask"][0] = False
    d_outputs, *d_states = drawn_gradients(cell, 7, values)
    d_outputs[:, :-1] = 0.0
    sequence, gradients = run(cell, values, [d_outputs, *d_states], **options)
    for training in (None, False):
        last, same = run(
            cell, values, [d_outputs[:, -1], *d_states],
            return_sequences=False, training=training, **options,
        )
        np.testing.assert_array_equal(
            last["outputs"], sequence["outputs"][:, -1]
        )
        for state in cell.states:
            np.testing.assert_array_equal(last[state], sequence[state])
        for name, gradient in gradients.items():
            np.testing.assert_allclose(
                same[name], gradient, rtol=0, atol=1e-13, err_msg=name
            )


@each_cell
def test_recomputed_gradients_are_the_same_bits(cell):
    """Kept or recomputed, inference or training, in a graph or not."""
    values = rnn_arguments(cell, 8, 9, 4, 3, 17, np.float32, mask=True)
    incoming = [np.ones_like(d) for d in drawn_gradients(cell, 0, values)]
    expected = run(cell, values, incoming, training=True)
    for kwargs in (
        dict(training=False), dict(training=True, recompute=True), dict()
    ):
        for function in (run, graph_run):
            assert_same_bits(
                function(cell, values, incoming, **kwargs), expected
            )


def graph_run(cell, values, incoming, **options):
    """As ``run``, in a graph, with the reserve overwritten in place."""
    names = [n for n in differentiable(cell) if values[n] is not None]
    others = {n: v for n, v in values.items() if n not in names}

    @tf.function
    def train(tensors, incoming):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            results = list(fused(cell)(
                **dict(zip(names, tensors)), **others, **cell.options,
                **options,
            ))
        return results, tape.gradient(results, tensors, incoming)

    results, gradients = train(
        [tf.constant(values[n]) for n in names],
        [tf.constant(d) for d in incoming],
    )
    return in_order(cell, results), dict(zip(names, gradients))


@each_cell
def test_inference_keeps_nothing(cell):
    values = rnn_arguments(cell, 0, 3, 4, 2, 5, np.float32)
    op = getattr(_ops, f"fused_rnn_{cell.name}")
    slots = {"gru": 20, "lstm": 20}.get(cell.name)
    kept = {"lstm": [5, slots], "gru": [slots]}.get(cell.name, [])

    def call(keep, return_sequences=True):
        options = dict(return_sequences=return_sequences, **cell.options)
        if kept:
            options["keep_reserve"] = keep
        elif keep:
            options["return_sequences"] = True
        lists = (*first_states(cell), "bias", "mask", "recurrent_dropout_mask")
        return op(
            **{
                name: value if name not in lists
                else [] if value is None else [value]
                for name, value in values.items()
            },
            **options,
        )

    def check_kept(results, steps):
        for value, columns in zip(results[1 + len(cell.states) :], kept):
            assert value.shape == [steps, 3, columns]

    full, *states = call(True)
    assert full.shape == [3, 4, 5]
    check_kept([full, *states], 4)
    outputs, *same = call(False)
    np.testing.assert_array_equal(outputs, full)
    check_kept([outputs, *same], 0)
    for a, b in zip(same[: len(cell.states)], states):
        np.testing.assert_array_equal(a, b)
    outputs, *same = call(False, return_sequences=False)
    assert outputs.shape == [3, 0, 5]
    for a, b in zip(same[: len(cell.states)], states):
        np.testing.assert_array_equal(a, b)
    with tf.Graph().as_default():
        outputs, *same = call(False, return_sequences=False)
        assert outputs.shape == [3, 0, 5]
        check_kept([outputs, *same], 0)


@each_cell
@pytest.mark.parametrize("units", [5, 67])
def test_a_batch_cut_in_two_gives_the_same_bits(units, cell):
    values = rnn_arguments(
        cell, 10, 11, 6, 4, units, np.float32, mask=True, dropout=True
    )
    incoming = drawn_gradients(cell, 11, values)
    firsts = first_states(cell)

    def part(rows):
        cut = dict(values)
        for name in ("x", *firsts, "mask"):
            cut[name] = values[name][rows]
        dropout = values["recurrent_dropout_mask"]
        cut["recurrent_dropout_mask"] = dropout[:, rows]
        results, gradients = run(cell, cut, [d[rows] for d in incoming])
        return [*results.values(), *(gradients[n] for n in ("x", *firsts))]

    whole = part(slice(None))
    halves = [part(slice(0, 4)), part(slice(4, 11))]
    for value, *parts in zip(whole, *halves):
        np.testing.assert_array_equal(value, np.concatenate(parts))


@each_cell
def test_one_dropout_mask_for_all_gates(cell):
    """The same bits as that mask once a gate."""
    values = rnn_arguments(
        cell, 13, 9, 4, 3, 35, np.float32, mask=True, dropout="shared"
    )
    incoming = drawn_gradients(cell, 14, values)
    actual = run(cell, values, incoming)
    values["recurrent_dropout_mask"] = np.repeat(
        values["recurrent_dropout_mask"], cell.gates, 0
    )
    assert_same_bits(actual, run(cell, values, incoming))


@each_cell
def test_ten_thousand_steps(cell):
    """Rounding does not pile up: these networks forget old errors."""
    steps, units = 10_000, 8
    values = rnn_arguments(cell, 12, 2, steps, 3, units, np.float32)
    # Singular values below 1: without gates nothing else would forget.
    norm = np.linalg.norm(values["recurrent_kernel"], 2)
    values["recurrent_kernel"] *= np.float32(0.9 / max(norm, 0.9))
    d_outputs, *d_states = (
        np.zeros_like(d) for d in drawn_gradients(cell, 0, values)
    )
    d_outputs[:, ::100] = 1.0
    incoming = [d_outputs, *(d + np.float32(1.0) for d in d_states)]
    expected, d_expected = oracle(cell, values, incoming)
    results, gradients = run(cell, values, incoming)
    # A step errs by some 20 roundings of values below 1 (dot products of 12
    # terms, three activations). What this network keeps of an old value is
    # below 0.95 of it a step, so that at most 1/(1 - 0.95) steps add up.
    error = np.abs(results["outputs"] - expected["outputs"])
    assert error.max() < 20 * 20 * 2.0**-24
    assert error[:, -1000:].max() < 2 * max(error[:, :1000].max(), 2.0**-24)
    for name, gradient in gradients.items():
        assert np.isfinite(gradient).all()
        # The same bound for each term; the sums over time add at most one
        # rounding a term.
        scale = np.abs(d_expected[name]).max()
        np.testing.assert_allclose(
            gradient, d_expected[name], rtol=0, atol=400 * 2.0**-24 * scale,
            err_msg=name,
        )
