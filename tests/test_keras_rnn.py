"""fused_rnn.RNN against keras.layers.RNN: cells alone and stacked."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
import helpers_keras  # noqa: E402
from helpers_keras import (  # noqa: E402
    BATCH,
    HOLES,
    INPUTS,
    LAYERS,
    STEPS,
    UNITS,
    data,
)


def assert_close(actual, expected, policy="float32"):
    keras.tree.assert_same_structure(actual, expected)
    for a, e in zip(keras.tree.flatten(actual), keras.tree.flatten(expected)):
        helpers_keras.assert_close(
            a, e, policy, INPUTS + UNITS, STEPS * UNITS
        )


def one(kind, **options):
    return getattr(keras.layers, kind + "Cell")(UNITS, **options)


def stack_of_one(kind, **options):
    return [one(kind, **options)]


def stack(kind, **options):
    """Of three kinds, one of them ours."""
    return keras.layers.StackedRNNCells(
        [
            one(kind, **options),
            fused_rnn.LSTMCell(2, **options),
            keras.layers.GRUCell(3, reset_after=False, **options),
            keras.layers.SimpleRNNCell(
                4, activation="relu", use_bias=False, **options
            ),
        ],
        dtype=options.get("dtype"),
    )


def states_for(layer):
    """Initial states in the structure of the layer's."""
    return [
        [data(n + i, (BATCH, n)) for i, n in enumerate(sizes)]
        if keras.tree.is_nested(sizes) else data(sizes, (BATCH, sizes))
        for sizes in layer.state_size
    ]


def pair(cells, kind="GRU", cell_options=None, **options):
    """Keras' layer and ours with the same weights, and cells of Keras."""
    built = []
    for rnn in (fused_rnn.RNN, keras.layers.RNN):
        layer = rnn(cells(kind, **(cell_options or {})), **options)
        layer.build((BATCH, STEPS, INPUTS))
        built.append(layer)
    fused, stock = built
    assert fused.fallback_reason is None and not fused.supports_jit
    for i, w in enumerate(fused.trainable_weights):
        w.assign(np.random.default_rng(i).uniform(-0.6, 0.6, w.shape))
    # With dropout there are also the states of generators, which are equal.
    stock.set_weights(fused.get_weights())
    return fused, stock


def results(layer, x, training=False, **arguments):
    variables = [tf.Variable(x), *layer.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(variables[0])
        outputs = layer(variables[0], training=training, **arguments)
        loss = tf.add_n([
            tf.reduce_sum(tf.sin(tf.cast(o, "float64") + i))
            for i, o in enumerate(keras.tree.flatten(outputs))
        ])
    gradients = tape.gradient(
        loss, [variables[0]] + [v.value for v in variables[1:]]
    )
    return outputs, gradients


@pytest.mark.parametrize("cells, kind", [
    *((one, kind) for kind in LAYERS), (stack_of_one, "GRU"),
    (stack_of_one, "LSTM"), (stack, "GRU"),
])
@pytest.mark.parametrize("options", [
    dict(return_sequences=True, return_state=True),
    dict(return_state=True, go_backwards=True),
    dict(return_sequences=True, go_backwards=True, zero_output_for_mask=True),
], ids=["forward", "last_backward", "backward_zero"])
@pytest.mark.parametrize("mask", [None, HOLES], ids=["unmasked", "holes"])
def test_equals_keras(cells, kind, options, mask):
    fused, stock = pair(cells, kind, **options)
    states = None
    # Keras itself cannot mask a stack of one cell that starts by itself, nor
    # one of an LSTM.
    if cells is stack_of_one and kind == "LSTM":
        mask = None
    if options.get("return_state") or cells is stack_of_one:
        states = states_for(stock)
    arguments = dict(mask=mask, initial_state=states)
    assert_close(results(fused, data(), **arguments),
                 results(stock, data(), **arguments))
    function = tf.function(lambda x: fused(x, **arguments))
    np.testing.assert_array_equal(
        keras.tree.flatten(function(data()))[0],
        keras.tree.flatten(fused(data(), **arguments))[0],
    )


def test_a_list_of_one_lstm_is_masked_as_the_layer_is():
    """Keras' own fails on it."""
    layer, _ = pair(stack_of_one, "LSTM", return_sequences=True)
    whole = fused_rnn.LSTM(UNITS, return_sequences=True)
    whole.build((BATCH, STEPS, INPUTS))
    whole.set_weights(layer.get_weights())
    np.testing.assert_array_equal(
        layer(data(), mask=HOLES), whole(data(), mask=HOLES)
    )


@pytest.mark.parametrize("cell_options, training", [
    (dict(dtype="float64"), False),
    (dict(dtype="mixed_bfloat16"), False),
    (dict(dropout=0.4, recurrent_dropout=0.3, seed=5), True),
], ids=["float64", "mixed_bfloat16", "dropout"])
def test_cell_options(cell_options, training):
    dtype = cell_options.get("dtype", "float32")
    fused, stock = pair(
        stack, cell_options=cell_options, dtype=dtype, return_sequences=True
    )
    assert fused.compute_dtype == stock.compute_dtype
    assert_close(
        fused(data(), mask=HOLES, training=training),
        stock(data(), mask=HOLES, training=training), dtype,
    )


@pytest.mark.parametrize("cells", [one, stack])
def test_stateful(cells):
    fused, stock = pair(cells, "LSTM", stateful=True)
    for layer in (fused, stock):
        layer(data())
    assert_close(fused(data(1)), stock(data(1)))
    assert_close(
        *([v.value for v in keras.tree.flatten(layer.states)]
          for layer in (fused, stock))
    )


def test_no_steps():
    layer, _ = pair(stack, return_state=True, return_sequences=True)
    states = states_for(layer)
    outputs, *last = layer(
        data()[:, :0], initial_state=states, training=True
    )
    assert outputs.shape == (BATCH, 0, 4)
    for a, e in zip(
        keras.tree.flatten(last), keras.tree.flatten(states), strict=True
    ):
        np.testing.assert_array_equal(a, e)


def test_masked_steps_reach_nothing():
    fused, _ = pair(stack, return_sequences=True)
    bad = np.where(HOLES[..., None], data(), np.nan)
    outputs, gradients = results(fused, bad, mask=HOLES)
    clean, clean_gradients = results(fused, data(), mask=HOLES)
    np.testing.assert_array_equal(outputs, clean)
    for a, e in zip(gradients, clean_gradients):
        np.testing.assert_array_equal(a, e)


class OwnCell(fused_rnn.GRUCell):
    def call(self, inputs, states, training=False):
        return inputs + states[0], [inputs + states[0]]


def test_fallback():
    layer = fused_rnn.RNN([keras.layers.LSTMCell(INPUTS), OwnCell(INPUTS)])
    assert layer.fallback_reason == (
        "the cell is a OwnCell, not a GRUCell, LSTMCell or SimpleRNNCell"
    )
    with pytest.warns(UserWarning, match=f"'{layer.name}' is not fused"):
        layer(data())
    layer = fused_rnn.RNN(OwnCell(INPUTS))
    with pytest.warns(UserWarning, match="is not fused"):
        assert_close(layer(data()), data().sum(axis=1))
    layer = fused_rnn.RNN(keras.layers.GRUCell(2, dtype="float64"))
    assert "computes in float64, the layer in float32" in layer.fallback_reason


def test_config_and_errors():
    layer, stock = pair(one, go_backwards=True, unroll=True, name="my_rnn")
    assert layer.unroll
    assert isinstance(layer, keras.layers.RNN)
    again = fused_rnn.RNN.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert layer.get_config().keys() == stock.get_config().keys()
    for x in (data()[:, :, :2], data()[..., None]):
        with pytest.raises(Exception) as caught:
            layer(x)
        assert "my_rnn" in str(caught.value)
    with pytest.raises(ValueError, match="state_size"):
        fused_rnn.RNN(keras.layers.Dense(2))
