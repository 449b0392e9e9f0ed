"""Our layers against Keras' own: values, gradients, training."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
from helpers_keras import (  # noqa: E402
    EPS,
    as_float64,
    assert_close,
    tolerance,
)
from helpers_reference import CASES  # noqa: E402

ACTIVATIONS = [
    "tanh", "sigmoid", "relu", "linear", "hard_sigmoid", "softsign", "elu",
]
# Where the slope jumps, rounding in half precision decides which side it is.
SMOOTH = ["tanh", "sigmoid", "linear", "softsign", "elu"]


def draw(rng, *shape):
    return rng.uniform(-1, 1, shape)


def pair(case, units, inputs, batch=None, **options):
    """Keras' layer and ours with the same weights, random biases included."""
    # Unrolled, Keras does not reverse the mask that zeroes its outputs, and
    # where it tries cuDNN first it fails on several input masks.
    without = dict(unroll=False)
    if case.keras != "SimpleRNN":
        without["use_cudnn"] = False
    stock = getattr(keras.layers, case.keras)(
        units, **{**case.options, **options, **without}
    )
    fused = getattr(fused_rnn, case.keras)(units, **case.options, **options)
    assert fused.fallback_reason is None
    rng = np.random.default_rng(0)
    for layer in (stock, fused):
        layer.build((batch, None, inputs))
    for ours, theirs in zip(
        fused.trainable_weights, stock.trainable_weights, strict=True
    ):
        assert ours.path.split("/")[-2:] == theirs.path.split("/")[-2:]
        value = 0.7 * draw(rng, *ours.shape)
        ours.assign(value)
        theirs.assign(value)
    return stock, fused


def draw_states(case, rng, *shape):
    return {name + "0": draw(rng, *shape) for name in case.states}


def results(
    layer, x, states=None, mask=None, training=False, function=False
):
    """Everything that the layer returns, and every gradient, by name."""
    variables = {
        name: tf.Variable(tf.cast(value, layer.compute_dtype))
        for name, value in {"x": x, **(states or {})}.items()
    }
    x, *state_variables = variables.values()

    def run():
        with tf.GradientTape() as tape:
            outputs = layer(
                x, initial_state=state_variables or None, mask=mask,
                training=training,
            )
            outputs = keras.tree.flatten(outputs)
            # Weights that differ tell every output from every other.
            loss = tf.add_n([
                tf.reduce_sum(
                    tf.cast(o, "float64")
                    * tf.cos(tf.reshape(
                        tf.range(tf.size(o), delta=1, dtype="float64") + i,
                        tf.shape(o),
                    ))
                )
                for i, o in enumerate(outputs)
            ])
        gradients = tape.gradient(
            loss,
            {**variables,
             **{v.name: v.value for v in layer.trainable_variables}},
            unconnected_gradients="zero",
        )
        return {
            **{f"output {i}": o for i, o in enumerate(outputs)},
            **{f"gradient of {n}": g for n, g in gradients.items()},
        }

    return (tf.function(run) if function else run)()


def assert_same(actual, expected, policy, terms, steps):
    assert list(actual) == list(expected)
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype, name
        assert_close(actual[name], value, policy, terms, steps, name)


@st.composite
def cases(draw_):
    case = CASES[draw_(st.sampled_from(sorted(CASES)))]
    policy = draw_(st.sampled_from(["float64"] * 4 + sorted(EPS)))
    names = ACTIVATIONS if policy == "float64" else SMOOTH
    batch, steps = draw_(st.integers(1, 4)), draw_(st.integers(1, 5))
    flag = st.booleans()
    gated = dict(
        implementation=draw_(st.sampled_from([1, 2])),
        unit_forget_bias=draw_(flag),
    )
    if case.keras != "LSTM":
        del gated["unit_forget_bias"]
    return dict(
        case=case,
        policy=policy,
        batch=batch,
        steps=steps,
        inputs=draw_(st.integers(1, 4)),
        units=draw_(st.integers(1, 5)),
        mask=draw_(st.none() | st.lists(
            st.lists(flag, min_size=steps, max_size=steps),
            min_size=batch, max_size=batch,
        )),
        state=draw_(flag),
        function=draw_(flag),
        options=dict(
            use_bias=draw_(flag),
            return_sequences=draw_(flag),
            return_state=draw_(flag),
            go_backwards=draw_(flag),
            zero_output_for_mask=draw_(flag),
            unroll=draw_(flag),
            **case.activation_options(
                draw_(st.sampled_from(names)), draw_(st.sampled_from(names))
            ),
            **(gated if case.gates > 1 else {}),
            # Orthogonal matrices cannot be drawn in bfloat16.
            recurrent_initializer="glorot_uniform",
        ),
    )


@settings(
    max_examples=90, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(cases())
def test_equals_keras(drawn):
    rng = np.random.default_rng(1)
    case, batch, units = drawn["case"], drawn["batch"], drawn["units"]
    stock, fused = pair(
        case, units, drawn["inputs"], dtype=drawn["policy"],
        **drawn["options"],
    )
    x = draw(rng, batch, drawn["steps"], drawn["inputs"])
    states = draw_states(case, rng, batch, units) if drawn["state"] else None
    mask = None if drawn["mask"] is None else np.array(drawn["mask"])
    ours, theirs = (
        results(layer, x, states, mask, function=drawn["function"])
        for layer in (fused, stock)
    )
    assert_same(
        ours, theirs, drawn["policy"], drawn["inputs"] + units, drawn["steps"]
    )


# Both draw from generators with the same seed, so that equal values mean equal
# masks, drawn in the same order and kept for all steps.
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("options", [
    dict(dropout=0.4), dict(dropout=0.4, implementation=1),
    dict(recurrent_dropout=0.3), dict(dropout=0.4, recurrent_dropout=0.3),
    dict(dropout=1.0), dict(recurrent_dropout=1.0),
], ids=str)
def test_dropout_draws_the_masks_of_keras(case, options):
    case = CASES[case]
    if case.gates == 1:
        options = {k: v for k, v in options.items() if k != "implementation"}
    stock, fused = pair(
        case, 4, 3, dtype="float64", seed=5, return_sequences=True, **options
    )
    x = draw(np.random.default_rng(2), 3, 5, 3)
    plain = results(fused, x)
    assert_same(plain, results(stock, x), "float64", 7, 5)
    ours, theirs = (results(lay, x, training=True) for lay in (fused, stock))
    assert_same(ours, theirs, "float64", 7, 5)
    again = results(fused, x, training=True)
    everything = 1.0 in (fused.dropout, fused.recurrent_dropout)
    for name in ("output 0", "gradient of kernel"):
        moved = np.abs(ours[name] - plain[name]).max()
        redrawn = np.abs(ours[name] - again[name]).max()
        # A rate of 1 is none to Keras' GRU and LSTM, and all to its SimpleRNN.
        assert (moved > 0.01) == (not everything or case.gates == 1)
        assert (redrawn > 0.01) == (not everything)


@pytest.mark.parametrize("case", CASES)
def test_training_follows_keras(case):
    """The same losses and weights over ten optimiser steps of fit."""
    units, inputs, steps = 6, 4, 5
    models = []
    for layer in pair(
        CASES[case], units, inputs, dtype="float64", return_sequences=True
    ):
        model = keras.Sequential([
            keras.Input((None, inputs)),
            keras.layers.Masking(),
            layer,
            keras.layers.Dense(2, kernel_initializer="ones", dtype="float64"),
        ])
        model.compile(
            keras.optimizers.SGD(0.05, momentum=0.9, clipnorm=1.0), "mse",
            # A graph of Keras' loop and its gradient takes seconds to trace.
            run_eagerly=not hasattr(layer, "fallback_reason"),
        )
        models.append(model)
    rng = np.random.default_rng(3)
    x, y = draw(rng, 20, steps, inputs), draw(rng, 20, steps, 2)
    x[::3, 2:] = 0
    stock, fused = (
        (
            model.fit(
                x, y, 4, epochs=2, shuffle=False, verbose=0
            ).history["loss"],
            model.predict(x, 4, verbose=0),
            model.evaluate(x, y, 4, verbose=0),
            *model.layers[1].get_weights(),
        )
        for model in models
    )
    assert stock[0][1] < stock[0][0]
    for ours, theirs in zip(fused, stock, strict=True):
        # Ten steps, each with the error of one gradient.
        np.testing.assert_allclose(
            ours, theirs, rtol=0,
            atol=10 * tolerance("float64", units + inputs, steps, theirs),
        )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("go_backwards", [False, True])
def test_masked_steps_reach_nothing(case, go_backwards):
    """Keras' own loop turns a NaN in the padding into NaN gradients."""
    case = CASES[case]
    _, fused = pair(
        case, 4, 3, go_backwards=go_backwards, return_sequences=True,
        return_state=True,
    )
    rng = np.random.default_rng(4)
    x, states = draw(rng, 3, 5, 3), draw_states(case, rng, 3, 4)
    mask = np.array(
        [[1, 1, 0, 1, 0], [0, 0, 1, 0, 1], [0, 0, 0, 0, 0]], bool
    )
    clean = results(fused, x, states, mask)
    for poison in (np.nan, np.inf, -np.inf):
        poisoned = np.where(mask[..., None], x, poison)
        for name, value in results(fused, poisoned, states, mask).items():
            np.testing.assert_array_equal(value, clean[name], name)
    assert not np.any(clean["gradient of x"].numpy()[~mask])
    # The row that is masked everywhere: no output, and the state it had.
    assert not np.any(clean["output 0"][2])
    for i, state in enumerate(states.values(), 1):
        np.testing.assert_array_equal(
            clean[f"output {i}"][2], np.float32(state[2])
        )


@pytest.mark.parametrize("case", CASES)
def test_a_row_does_not_know_its_neighbours(case):
    """Alone, in a batch, and next to an empty row: the same bits."""
    case = CASES[case]
    _, fused = pair(case, 20, 7, return_sequences=True, return_state=True)
    rng = np.random.default_rng(5)
    x = draw(rng, 9, 6, 7)
    mask = rng.integers(0, 2, (9, 6)).astype(bool)
    mask[3] = False
    whole = results(fused, x, mask=mask)
    for row in (2, 3, 8):
        one = slice(row, row + 1)
        alone = results(fused, x[one], mask=mask[one])
        pair_ = results(fused, x[[row, 3]], mask=mask[[row, 3]])
        for name in (f"output {i}" for i in range(len(case.states) + 1)):
            np.testing.assert_array_equal(alone[name], whole[name][one])
            np.testing.assert_array_equal(pair_[name][:1], whole[name][one])


# From Keras' own published tests, recomputed in float64: x counts up, kernel
# 0.01, recurrent kernel 0.02, bias 0.03 everywhere; a new LSTM's forget bias 1.
@pytest.mark.parametrize("layer, options, expected", [
    ("GRU", dict(), [0.52172886, 0.63716595, 0.39384964]),
    ("GRU", dict(go_backwards=True), [0.24406259, 0.611516, 0.39288084]),
    ("GRU", dict(reset_after=False), [0.51447756, 0.6426879, 0.40208288]),
    ("GRU", dict(use_bias=False), [0.49988456, 0.64701196, 0.41033586]),
    ("LSTM", dict(), [0.62886867, 0.86899145, 0.94607728]),
    ("LSTM", dict(go_backwards=True), [0.35622157, 0.74789526, 0.88727258]),
    ("LSTM", dict(unit_forget_bias=False),
     [0.57019703, 0.86619146, 0.94596217]),
    ("LSTM", dict(use_bias=False), [0.5498692, 0.86226791, 0.94439352]),
    ("SimpleRNN", dict(), [0.40543206, 0.73605342]),
    ("SimpleRNN", dict(go_backwards=True), [0.11144731, 0.55288882]),
], ids=str)
@pytest.mark.parametrize("policy", ["float32", "float64"])
def test_golden_values(layer, options, expected, policy):
    batch, steps, units = (2, 3, 4) if layer == "SimpleRNN" else (3, 6, 3)
    layer = getattr(fused_rnn, layer)(units, dtype=policy, **options)
    layer.build((batch, steps, 4))
    layer.set_weights([
        np.where(initial == 1, 1, value)
        for initial, value in zip(layer.get_weights(), (0.01, 0.02, 0.03))
    ])
    x = np.arange(batch * steps * 4, dtype=layer.compute_dtype)
    # The published values have eight digits; the inputs go up to 71.
    np.testing.assert_allclose(
        as_float64(layer(x.reshape(batch, steps, 4))),
        np.repeat(np.array(expected)[:, None], units, 1),
        rtol=0, atol=5e-9 + 71 * tolerance(policy, 7, 1),
    )
