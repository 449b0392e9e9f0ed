"""The oracle itself: finite differences, known values, masks, errors."""

import numpy as np
import pytest
from helpers_reference import CASES, MASKS, check_gradients, draw

from fused_rnn import reference

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dropout", [False, True])
def test_cell_gradient(case, bias, dropout):
    rng = np.random.default_rng(3)
    inputs = case.cell_inputs(rng, bias=bias)
    options = dict(
        **case.options,
        recurrent_dropout_mask=(
            rng.integers(0, 2, (case.gates, 3, 4)) / 0.5 if dropout else None
        ),
    )
    arriving = {
        name: draw(rng, 3, 4) for name in {*case.values, *case.states}
    }

    def loss():
        cell = case.cell(**inputs, **options)
        return sum(np.sum(d * getattr(cell, n)) for n, d in arriving.items())

    gradients = case.cell_grad(
        **inputs, **options, **{"d_" + n: d for n, d in arriving.items()}
    )
    check_gradients(loss, inputs, gradients)
    if bias:
        d_bias = np.concatenate([gradients[n].sum(0) for n in case.bars])
        np.testing.assert_allclose(
            np.atleast_2d(gradients["bias"])[0], d_bias, rtol=1e-14
        )
    else:
        assert gradients["bias"] is None


@pytest.mark.parametrize(
    "case, place",
    [
        pytest.param(case, place, id=f"{name}-{place}")
        for name, case in CASES.items() for place in case.activations
    ],
)
@pytest.mark.parametrize("name", sorted(reference.ACTIVATIONS))
def test_cell_gradient_of_activation(case, place, name):
    rng = np.random.default_rng(4)
    inputs = case.cell_inputs(rng)
    options = {**case.options, place: name}
    d_h = draw(rng, 3, 4)

    def loss():
        return np.sum(d_h * case.cell(**inputs, **options).h)

    gradients = case.cell_grad(**inputs, **options, d_h=d_h)
    check_gradients(loss, inputs, gradients)


@every_case
@pytest.mark.parametrize("mask", sorted(MASKS))
@pytest.mark.parametrize("go_backwards", [False, True])
@pytest.mark.parametrize("zero_output_for_mask", [False, True])
def test_sequence_gradient(case, mask, go_backwards, zero_output_for_mask):
    rng = np.random.default_rng(5)
    batch, steps, units = 3, 4, 3
    inputs = case.sequence_inputs(rng, batch, steps, 2, units)
    options = dict(
        **case.options, mask=MASKS[mask], go_backwards=go_backwards,
        zero_output_for_mask=zero_output_for_mask,
        recurrent_dropout_mask=rng.uniform(0, 2, (case.gates, batch, units)),
    )
    d_outputs = draw(rng, batch, steps, units)
    d_states = [draw(rng, batch, units) for _ in case.states]
    d_cache = {n: draw(rng, batch, steps, units) for n in case.values}
    valid = np.ones((batch, steps)) if mask == "none" else MASKS[mask]
    valid = np.array(valid, float)[:, :: -1 if go_backwards else 1, None]

    def loss():
        outputs, *states, cache = case.sequence(
            **inputs, **options, return_cache=True
        )
        total = np.sum(outputs * d_outputs)
        total += sum(np.sum(s * d) for s, d in zip(states, d_states))
        # What the gates hold at masked steps is no function of anything.
        return total + sum(
            np.sum(valid * d * cache[n]) for n, d in d_cache.items()
        )

    arriving = dict(zip(case.d_states, d_states))
    if d_cache:
        arriving["d_cache"] = d_cache
    gradients = case.sequence_grad(
        **inputs, **options, **arriving, d_outputs=d_outputs
    )
    check_gradients(loss, inputs, gradients)
    for name in case.bars:
        assert gradients[name].shape == (batch, steps, units)
        assert not np.any(gradients[name] * (1 - valid))


@every_case
def test_nothing_arrives(case):
    values = case.sequence_inputs(np.random.default_rng(6))
    values.update({state + "0": None for state in case.states})
    gradients = case.sequence_grad(**values, **case.options)
    assert not any(np.any(g) for g in gradients.values())


# x = 0..71 as (3, 6, 4), three units, kernel 0.01, recurrent kernel 0.02,
# bias 0.03 everywhere; the last h of each row, all units equal. The GRU's are
# from Keras' own published tests, recomputed in float64 to eight digits; the
# others are what Keras 3.15 computes in float64.
GOLDEN = {
    "gru_after": ("gru_after", {}, True, [0.52172886, 0.63716595, 0.39384964]),
    "gru_after_backwards": (
        "gru_after", dict(go_backwards=True), True,
        [0.24406259, 0.611516, 0.39288084],
    ),
    "gru_before": (
        "gru_before", {}, True, [0.51447756, 0.6426879, 0.40208288]
    ),
    "gru_after_without_bias": (
        "gru_after", {}, False, [0.49988456, 0.64701196, 0.41033586]
    ),
    "lstm": ("lstm", {}, True, [0.57019703, 0.86619146, 0.94596217]),
    "lstm_backwards": (
        "lstm", dict(go_backwards=True), True,
        [0.18401728, 0.73848403, 0.8870111],
    ),
    "lstm_without_bias": (
        "lstm", {}, False, [0.5498692, 0.86226791, 0.94439352]
    ),
    "simple_rnn": (
        "simple_rnn", {}, True, [0.72990972, 0.95678619, 0.9935843]
    ),
    "simple_rnn_backwards": (
        "simple_rnn", dict(go_backwards=True), True,
        [0.1056971, 0.80090118, 0.9685685],
    ),
    "simple_rnn_without_bias": (
        "simple_rnn", {}, False, [0.7150322, 0.95415598, 0.99318848]
    ),
}


@pytest.mark.parametrize(
    "name, options, use_bias, expected", GOLDEN.values(), ids=GOLDEN
)
def test_golden_values(name, options, use_bias, expected):
    case = CASES[name]
    x = np.arange(72.0).reshape(3, 6, 4)
    columns = 3 * case.gates
    bias = np.full(case.bias_shape(3), 0.03) if use_bias else None
    outputs, state, *_ = case.sequence(
        x, *[None for _ in case.states], np.full((4, columns), 0.01),
        np.full((3, columns), 0.02), bias, **case.options, **options,
    )
    np.testing.assert_allclose(
        state, np.repeat(np.array(expected)[:, None], 3, axis=1), atol=5e-9
    )
    np.testing.assert_array_equal(outputs[:, -1], state)


@every_case
def test_masked_steps_reach_nothing(case):
    rng = np.random.default_rng(7)
    values = case.sequence_inputs(rng)
    mask = np.array(MASKS["holes"], bool)
    d_outputs = draw(rng, 3, 4, 4)

    def run(x):
        arguments = {**values, "x": x, **case.options, "mask": mask}
        return (
            case.sequence(**arguments),
            case.sequence_grad(**arguments, d_outputs=d_outputs),
        )

    results, gradients = run(values["x"])
    poisoned = values["x"].copy()
    poisoned[~mask] = [np.nan, np.inf]
    results_2, gradients_2 = run(poisoned)
    for left, right in zip(results, results_2):
        np.testing.assert_array_equal(left, right)
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(gradient, gradients_2[name], name)
    # The row that is masked everywhere.
    outputs, *states = results
    assert not outputs[2].any()
    for name, state in zip(case.states, states):
        np.testing.assert_array_equal(state[2], values[name + "0"][2])


@every_case
@pytest.mark.parametrize("steps, batch", [(0, 2), (3, 0)])
def test_empty(case, steps, batch):
    values = case.sequence_inputs(np.random.default_rng(9), batch, steps)
    outputs, *states = case.sequence(**values, **case.options)
    assert outputs.shape == (batch, steps, 4)
    for name, state in zip(case.states, states):
        np.testing.assert_array_equal(state, values[name + "0"])
    gradients = case.sequence_grad(**values, **case.options)
    for name, value in values.items():
        assert gradients[name].shape == value.shape
        assert not gradients[name].any()


@every_case
@pytest.mark.parametrize(
    "name, shape",
    [("bias", (3,)), ("recurrent_dropout_mask", (2, 3, 4)), ("mask", (3, 3))],
)
def test_shapes_must_fit(case, name, shape):
    values = case.sequence_inputs(np.random.default_rng(8))
    values[name] = np.ones(shape)
    with pytest.raises(ValueError, match=rf"{name}: expected shape \("):
        case.sequence(**values, **case.options)


def test_bias_shape_must_go_with_the_convention():
    values = CASES["gru_after"].cell_inputs(np.random.default_rng(8))
    with pytest.raises(ValueError, match=r"bias: expected shape \(12,\) with"):
        reference.gru_cell(**values, reset_after=False)
