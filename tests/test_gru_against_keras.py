"""The sequence op against keras.layers.GRU, and random calls of all kinds."""

import collections

import keras
import numpy as np
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from helpers import gru_arguments

import fused_rnn
from fused_rnn import reference

GENERATED = dict(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def keras_cases(draw):
    return dict(
        batch=draw(st.integers(1, 5)),
        steps=draw(st.integers(1, 5)),
        inputs=draw(st.integers(1, 4)),
        units=draw(st.integers(1, 20)),
        reset_after=draw(st.booleans()),
        use_bias=draw(st.booleans()),
        return_sequences=draw(st.booleans()),
        go_backwards=draw(st.booleans()),
        zero_output_for_mask=draw(st.booleans()),
        masked=draw(st.booleans()),
        h0=draw(st.booleans()),
        activation=draw(st.sampled_from(list(reference.ACTIVATIONS))),
        recurrent_activation=draw(
            st.sampled_from(["sigmoid", "hard_sigmoid", "tanh"])
        ),
        seed=draw(st.integers(0, 2**20)),
    )


@settings(max_examples=60, **GENERATED)
@given(keras_cases())
def test_equals_keras(case):
    """Values and all gradients, in float64."""
    values = gru_arguments(
        case["seed"], case["batch"], case["steps"], case["inputs"],
        case["units"], np.float64, reset_after=case["reset_after"],
        bias=case["use_bias"], mask=case["masked"],
    )
    layer = keras.layers.GRU(
        case["units"], dtype="float64", use_cudnn=False, return_state=True,
        **{
            name: case[name] for name in (
                "activation", "recurrent_activation", "use_bias",
                "reset_after", "return_sequences", "go_backwards",
            )
        },
    )
    # An attribute that keras.layers.RNN reads, and GRU's constructor lacks.
    layer.zero_output_for_mask = case["zero_output_for_mask"]
    layer.build(values["x"].shape)
    weights = [values["kernel"], values["recurrent_kernel"]]
    if case["use_bias"]:
        weights.append(values["bias"])
    layer.set_weights(weights)
    x, h0 = tf.constant(values["x"]), tf.constant(values["h0"])
    if not case["h0"]:
        h0 = tf.zeros_like(h0)

    with tf.GradientTape() as tape:
        tape.watch([x, h0])
        expected = layer(x, mask=values["mask"], initial_state=h0)
        loss = sum(tf.reduce_sum(tf.sin(value)) for value in expected)
    wanted = [x, h0, *[v.value for v in layer.trainable_variables]]
    d_expected = tape.gradient(loss, wanted)

    tensors = [tf.constant(weight) for weight in weights]
    if not case["use_bias"]:
        tensors.append(None)
    watched = [x, h0, *[t for t in tensors if t is not None]]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        actual = fused_rnn.gru(
            x, h0 if case["h0"] else None, *tensors, mask=values["mask"],
            **{
                name: case[name] for name in (
                    "activation", "recurrent_activation", "reset_after",
                    "return_sequences", "go_backwards", "zero_output_for_mask",
                )
            },
        )
        loss = sum(tf.reduce_sum(tf.sin(value)) for value in actual)
    gradients = tape.gradient(loss, watched)
    for a, e in zip(actual, expected):
        np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)
    for a, e, tensor in zip(gradients, d_expected, watched):
        if tensor is h0 and not case["h0"]:
            assert a is None
            continue
        largest = np.max(np.abs(e), initial=1.0)
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-11 * largest)


# How many calls of each outcome the test below has made.
outcomes = collections.Counter()


def shapes_called_for(values, options):
    """The shape of each argument by what x and the recurrent kernel say."""
    batch, steps, inputs = values["x"].shape
    units = values["recurrent_kernel"].shape[0]
    return {
        "x": (batch, steps, inputs),
        "h0": (batch, units),
        "kernel": (inputs, 3 * units),
        "recurrent_kernel": (units, 3 * units),
        "bias": (2, 3 * units) if options["reset_after"] else (3 * units,),
        "mask": (batch, steps),
        "recurrent_dropout_mask": (3, batch, units),
    }


def is_consistent(values, options):
    if values["x"].ndim != 3:
        return False
    return all(
        values[name] is None or values[name].shape == shape
        for name, shape in shapes_called_for(values, options).items()
    )


@st.composite
def calls(draw):
    """Arguments of fused_rnn.gru; every other time with something wrong."""
    size = st.integers(0, 4)
    reset_after = draw(st.booleans())
    values = gru_arguments(
        draw(st.integers(0, 2**20)), draw(size), draw(size), draw(size),
        draw(st.integers(0, 17)),
        draw(st.sampled_from([np.float32, np.float64])),
        reset_after=reset_after,
        **{
            name: draw(st.booleans())
            for name in ("h0", "bias", "mask", "dropout")
        },
    )
    options = dict(
        reset_after=reset_after,
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
    return values, options


@settings(max_examples=2000, **GENERATED)
@given(calls())
def test_any_call_is_right_or_refused(call):
    values, options = call
    # A wrong size may be right after all where other arguments are absent.
    consistent = is_consistent(values, options)
    tensors = {
        name: value if value is None else tf.constant(value)
        for name, value in values.items()
    }
    watched = {
        name: tensors[name]
        for name in ("x", "h0", "kernel", "recurrent_kernel", "bias")
        if tensors[name] is not None
    }
    try:
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs, state = fused_rnn.gru(**tensors, **options)
        gradients = tape.gradient([outputs, state], watched)
    except tf.errors.InvalidArgumentError as error:
        assert not consistent, error
        assert "must have shape" in str(error)
        outcomes["refused"] += 1
        return
    assert consistent
    outcomes["right"] += 1
    expected = dict(
        zip(("outputs", "state"), reference.gru(**values, **options)),
        **reference.gru_grad(
            **values, **options, d_outputs=np.ones(outputs.shape),
            d_state=np.ones(state.shape),
        ),
    )
    # Sums of at most 20 terms and 4 steps: 2^10 roundings are plenty.
    eps = np.finfo(values["x"].dtype).eps
    for name, actual in dict(gradients, outputs=outputs, state=state).items():
        assert actual.shape == expected[name].shape
        largest = np.max(np.abs(expected[name]), initial=1.0)
        np.testing.assert_allclose(
            actual, expected[name], rtol=0, atol=2**10 * eps * largest,
            err_msg=name,
        )


def test_both_outcomes_were_common():
    """The generator above must not decay into one kind of call."""
    if outcomes:
        assert min(outcomes["right"], outcomes["refused"]) > 500
