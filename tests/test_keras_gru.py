"""fused_rnn.GRU against keras.layers.GRU: values, gradients, training."""

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

ACTIVATIONS = [
    "tanh", "sigmoid", "relu", "linear", "hard_sigmoid", "softsign", "elu",
]
# Where the slope jumps, rounding in half precision decides which side it is.
SMOOTH = ["tanh", "sigmoid", "linear", "softsign", "elu"]


def draw(rng, *shape):
    return rng.uniform(-1, 1, shape)


def pair(units, inputs, batch=None, **options):
    """Keras' layer and ours with the same weights, random biases included."""
    # Unrolled, Keras does not reverse the mask that zeroes its outputs, and
    # where it tries cuDNN first it fails on three input masks.
    stock = keras.layers.GRU(
        units, **{**options, "unroll": False, "use_cudnn": False}
    )
    fused = fused_rnn.GRU(units, **options)
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


def results(layer, x, h0=None, mask=None, training=False, function=False):
    """Everything that the layer returns, and every gradient, by name."""
    x = tf.Variable(tf.cast(x, layer.compute_dtype))
    if h0 is not None:
        h0 = tf.Variable(tf.cast(h0, layer.compute_dtype))

    def run():
        with tf.GradientTape() as tape:
            outputs = layer(
                x, initial_state=h0, mask=mask, training=training
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
        variables = {"x": x} if h0 is None else {"x": x, "h0": h0}
        variables.update(
            (v.name, v.value) for v in layer.trainable_variables
        )
        gradients = tape.gradient(
            loss, variables, unconnected_gradients="zero"
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
    policy = draw_(st.sampled_from(["float64"] * 4 + sorted(EPS)))
    names = ACTIVATIONS if policy == "float64" else SMOOTH
    batch, steps = draw_(st.integers(1, 4)), draw_(st.integers(1, 5))
    flag = st.booleans()
    return dict(
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
            reset_after=draw_(flag),
            use_bias=draw_(flag),
            return_sequences=draw_(flag),
            return_state=draw_(flag),
            go_backwards=draw_(flag),
            zero_output_for_mask=draw_(flag),
            unroll=draw_(flag),
            activation=draw_(st.sampled_from(names)),
            recurrent_activation=draw_(st.sampled_from(names)),
            implementation=draw_(st.sampled_from([1, 2])),
            # Orthogonal matrices cannot be drawn in bfloat16.
            recurrent_initializer="glorot_uniform",
        ),
    )


@settings(
    max_examples=40, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(cases())
def test_equals_keras(case):
    rng = np.random.default_rng(1)
    stock, fused = pair(
        case["units"], case["inputs"], dtype=case["policy"],
        **case["options"],
    )
    x = draw(rng, case["batch"], case["steps"], case["inputs"])
    h0 = draw(rng, case["batch"], case["units"]) if case["state"] else None
    mask = None if case["mask"] is None else np.array(case["mask"])
    ours, theirs = (
        results(layer, x, h0, mask, function=case["function"])
        for layer in (fused, stock)
    )
    assert_same(
        ours, theirs, case["policy"], case["inputs"] + case["units"],
        case["steps"],
    )


# Both draw from generators with the same seed, so that equal values mean equal
# masks, drawn in the same order and kept for all steps.
@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("options", [
    dict(dropout=0.4), dict(dropout=0.4, implementation=1),
    dict(recurrent_dropout=0.3), dict(dropout=0.4, recurrent_dropout=0.3),
    dict(dropout=1.0),
], ids=str)
def test_dropout_draws_the_masks_of_keras(options, reset_after):
    stock, fused = pair(
        4, 3, dtype="float64", seed=5, reset_after=reset_after,
        return_sequences=True, **options,
    )
    x = draw(np.random.default_rng(2), 3, 5, 3)
    plain = results(fused, x)
    assert_same(plain, results(stock, x), "float64", 7, 5)
    ours, theirs = (results(lay, x, training=True) for lay in (fused, stock))
    assert_same(ours, theirs, "float64", 7, 5)
    again = results(fused, x, training=True)
    for name in ("output 0", "gradient of kernel"):
        moved = np.abs(ours[name] - plain[name]).max()
        redrawn = np.abs(ours[name] - again[name]).max()
        if options == dict(dropout=1.0):  # which Keras takes as none
            assert moved == redrawn == 0
        else:
            assert moved > 0.01 and redrawn > 0.01


@pytest.mark.parametrize("reset_after", [False, True])
def test_training_follows_keras(reset_after):
    """The same losses and weights over ten optimiser steps of fit."""
    units, inputs, steps = 6, 4, 5
    models = []
    for layer in pair(
        units, inputs, dtype="float64", reset_after=reset_after,
        return_sequences=True,
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
            run_eagerly=not isinstance(layer, fused_rnn.GRU),
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


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("go_backwards", [False, True])
def test_masked_steps_reach_nothing(reset_after, go_backwards):
    """Keras' own loop turns a NaN in the padding into NaN gradients."""
    _, fused = pair(
        4, 3, reset_after=reset_after, go_backwards=go_backwards,
        return_sequences=True, return_state=True,
    )
    rng = np.random.default_rng(4)
    x, h0 = draw(rng, 3, 5, 3), draw(rng, 3, 4)
    mask = np.array(
        [[1, 1, 0, 1, 0], [0, 0, 1, 0, 1], [0, 0, 0, 0, 0]], bool
    )
    clean = results(fused, x, h0, mask)
    for poison in (np.nan, np.inf, -np.inf):
        poisoned = np.where(mask[..., None], x, poison)
        for name, value in results(fused, poisoned, h0, mask).items():
            np.testing.assert_array_equal(value, clean[name], name)
    assert not np.any(clean["gradient of x"].numpy()[~mask])
    # The row that is masked everywhere: no output, and the state it had.
    assert not np.any(clean["output 0"][2])
    np.testing.assert_array_equal(
        clean["output 1"][2], np.float32(h0[2])
    )


def test_a_row_does_not_know_its_neighbours():
    """Alone, in a batch, and next to an empty row: the same bits."""
    _, fused = pair(20, 7, return_sequences=True, return_state=True)
    rng = np.random.default_rng(5)
    x = draw(rng, 9, 6, 7)
    mask = rng.integers(0, 2, (9, 6)).astype(bool)
    mask[3] = False
    whole = results(fused, x, mask=mask)
    for row in (2, 3, 8):
        one = slice(row, row + 1)
        alone = results(fused, x[one], mask=mask[one])
        pair_ = results(fused, x[[row, 3]], mask=mask[[row, 3]])
        for name in ("output 0", "output 1"):
            np.testing.assert_array_equal(alone[name], whole[name][one])
            np.testing.assert_array_equal(pair_[name][:1], whole[name][one])


# From Keras' own published tests, recomputed in float64: x = 0..71 as (3, 6,
# 4), three units, kernel 0.01, recurrent kernel 0.02, bias 0.03 everywhere.
@pytest.mark.parametrize("options, expected", [
    (dict(), [0.52172886, 0.63716595, 0.39384964]),
    (dict(go_backwards=True), [0.24406259, 0.611516, 0.39288084]),
    (dict(reset_after=False), [0.51447756, 0.6426879, 0.40208288]),
    (dict(use_bias=False), [0.49988456, 0.64701196, 0.41033586]),
], ids=str)
@pytest.mark.parametrize("policy", ["float32", "float64"])
def test_golden_values(options, expected, policy):
    layer = fused_rnn.GRU(3, dtype=policy, **options)
    layer.build((3, 6, 4))
    layer.set_weights([
        np.full(variable.shape, value)
        for variable, value in zip(layer.weights, (0.01, 0.02, 0.03))
    ])
    x = np.arange(72, dtype=layer.compute_dtype).reshape(3, 6, 4)
    # The published values have eight digits; the inputs go up to 71.
    np.testing.assert_allclose(
        as_float64(layer(x)), np.repeat(np.array(expected)[:, None], 3, 1),
        rtol=0, atol=5e-9 + 71 * tolerance(policy, 7, 1),
    )
