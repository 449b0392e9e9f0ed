"""The sequence ops against Keras' layers, and random calls of all kinds."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import first_states, rnn_arguments
from helpers_rnn import (
    CELLS,
    differentiable,
    each_cell,
    fused,
    in_order,
    oracle,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fused_rnn import reference

GENERATED = dict(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def keras_cases(draw):
    cell = CELLS[draw(st.sampled_from(list(CELLS)))]
    return cell, dict(
        batch=draw(st.integers(1, 5)),
        steps=draw(st.integers(1, 5)),
        inputs=draw(st.integers(1, 4)),
        units=draw(st.integers(1, 20)),
        use_bias=draw(st.booleans()),
        return_sequences=draw(st.booleans()),
        go_backwards=draw(st.booleans()),
        zero_output_for_mask=draw(st.booleans()),
        masked=draw(st.booleans()),
        first_states=draw(st.booleans()),
        activation=draw(st.sampled_from(list(reference.ACTIVATIONS))),
        recurrent_activation=draw(
            st.sampled_from(["sigmoid", "hard_sigmoid", "tanh"])
        ),
        seed=draw(st.integers(0, 2**20)),
    )


def keras_layer(cell, case, values):
    """Keras' own, with these weights."""
    options = dict(cell.options)
    if cell.keras != "SimpleRNN":
        options["use_cudnn"] = False
    names = (*cell.activations, "use_bias", "return_sequences", "go_backwards")
    layer = getattr(keras.layers, cell.keras)(
        case["units"], dtype="float64", return_state=True, **options,
        **{name: case[name] for name in names},
    )
    # An attribute that keras.layers.RNN reads, and the constructors lack.
    layer.zero_output_for_mask = case["zero_output_for_mask"]
    layer.build(values["x"].shape)
    weights = [values[n] for n in ("kernel", "recurrent_kernel", "bias")]
    layer.set_weights([weight for weight in weights if weight is not None])
    return layer


@settings(max_examples=150, **GENERATED)
@given(keras_cases())
def test_equals_keras(drawn):
    """Values and all gradients, in float64."""
    cell, case = drawn
    values = rnn_arguments(
        cell, case["seed"], case["batch"], case["steps"], case["inputs"],
        case["units"], np.float64, mask=case["masked"],
        absent=() if case["use_bias"] else ("bias",),
    )
    layer = keras_layer(cell, case, values)
    x = tf.constant(values["x"])
    states = [tf.constant(values[name]) for name in first_states(cell)]
    if not case["first_states"]:
        states = [tf.zeros_like(state) for state in states]

    with tf.GradientTape() as tape:
        tape.watch([x, *states])
        expected = layer(x, mask=values["mask"], initial_state=states)
        loss = sum(tf.reduce_sum(tf.sin(value)) for value in expected)
    variables = [v.value for v in layer.trainable_variables]
    wanted = [x, *variables] + states * case["first_states"]
    d_expected = tape.gradient(loss, wanted)

    weights = [tf.constant(variable) for variable in variables]
    watched = [x, *weights] + states * case["first_states"]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        actual = fused(cell)(
            x,
            *(states if case["first_states"] else [None] * len(states)),
            *weights, mask=values["mask"], **cell.options,
            **{
                name: case[name] for name in (
                    *cell.activations, "return_sequences", "go_backwards",
                    "zero_output_for_mask",
                )
            },
        )
        loss = sum(tf.reduce_sum(tf.sin(value)) for value in actual)
    gradients = tape.gradient(loss, watched)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)
    for a, e in zip(gradients, d_expected, strict=True):
        largest = np.max(np.abs(e), initial=1.0)
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-11 * largest)


# How many calls of each outcome the test below has made, by cell.
outcomes = collections.Counter()


def shapes_called_for(cell, values):
    """The shape of each argument by what x and the recurrent kernel say."""
    batch, steps, inputs = values["x"].shape
    units = values["recurrent_kernel"].shape[0]
    columns = cell.gates * units
    dropout = values["recurrent_dropout_mask"]
    shared = dropout is not None and dropout.shape[0] == 1
    return {
        "x": (batch, steps, inputs),
        **dict.fromkeys(first_states(cell), (batch, units)),
        "kernel": (inputs, columns),
        "recurrent_kernel": (units, columns),
        "bias": cell.bias_shape(units),
        "mask": (batch, steps),
        "recurrent_dropout_mask": (1 if shared else cell.gates, batch, units),
    }


def is_consistent(cell, values):
    if values["x"].ndim != 3:
        return False
    return all(
        values[name] is None or values[name].shape == shape
        for name, shape in shapes_called_for(cell, values).items()
    )


@st.composite
def calls(draw):
    """Arguments of a function; every other time with something wrong."""
    cell = CELLS[draw(st.sampled_from(list(CELLS)))]
    size = st.integers(0, 4)
    values = rnn_arguments(
        cell, draw(st.integers(0, 2**20)), draw(size), draw(size), draw(size),
        draw(st.integers(0, 17)),
        draw(st.sampled_from([np.float32, np.float64])),
        absent=[
            name for name in (*first_states(cell), "bias")
            if draw(st.booleans())
        ],
        mask=draw(st.booleans()),
        dropout=draw(st.sampled_from([False, True, "shared"])),
    )
    options = dict(
        go_backwards=draw(st.booleans()),
        zero_output_for_mask=draw(st.booleans()),
        activation=draw(st.sampled_from(list(reference.ACTIVATIONS))),
    )
    if draw(st.booleans()):
        present = [name for name, value in values.items() if value is not None]
        wrong = draw(st.sampled_from(present))
        shape = list(values[wrong].shape)
        if draw(st.booleans()):
            shape[draw(st.integers(0, len(shape) - 1))] += 1
        else:
            shape.append(1)
        values[wrong] = np.ones(shape, values[wrong].dtype)
    return cell, values, options


@settings(max_examples=3000, **GENERATED)
@given(calls())
def test_any_call_is_right_or_refused(call):
    cell, values, options = call
    # A wrong size may be right after all where other arguments are absent.
    consistent = is_consistent(cell, values)
    tensors = {
        name: value if value is None else tf.constant(value)
        for name, value in values.items()
    }
    watched = {
        name: tensors[name]
        for name in differentiable(cell) if tensors[name] is not None
    }
    try:
        with tf.GradientTape() as tape:
            tape.watch(watched)
            results = fused(cell)(**tensors, **cell.options, **options)
        gradients = tape.gradient(list(results), watched)
    except tf.errors.InvalidArgumentError as error:
        assert not consistent, error
        assert "must have shape" in str(error)
        outcomes[cell.name, "refused"] += 1
        return
    assert consistent
    outcomes[cell.name, "right"] += 1
    ones = [np.ones(result.shape) for result in results]
    expected, d_expected = oracle(cell, values, ones, **options)
    # Sums of at most 20 terms and 4 steps: 2^10 roundings are plenty.
    eps = np.finfo(values["x"].dtype).eps
    for actual, wanted in (
        (in_order(cell, results), expected), (gradients, d_expected)
    ):
        for name, value in actual.items():
            assert value.shape == wanted[name].shape
            largest = np.max(np.abs(wanted[name]), initial=1.0)
            np.testing.assert_allclose(
                value, wanted[name], rtol=0, atol=2**10 * eps * largest,
                err_msg=name,
            )


@each_cell
@pytest.mark.parametrize("outcome", ["right", "refused"])
def test_both_outcomes_were_common(outcome, cell):
    """The generator above must not decay into one kind of call."""
    if outcomes:
        assert outcomes[cell.name, outcome] > 250
