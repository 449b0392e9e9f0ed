"""The layers and cells as Keras layers: places, files, fallbacks."""

import re
import warnings

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
from helpers_keras import (  # noqa: E402
    BATCH,
    HOLES,
    INPUTS,
    LAYERS,
    STEPS,
    UNITS,
    assert_same,
    data,
    states_of,
)
from helpers_reference import CASES  # noqa: E402


def same_weights(fused, stock):
    """Builds both by a call, then copies the weights as they are."""
    fused.set_weights([
        np.random.default_rng(i).uniform(-0.6, 0.6, w.shape)
        for i, w in enumerate(fused.get_weights())
    ])
    stock.set_weights(fused.get_weights())


def both(name):
    """Our class and Keras' of that name."""
    return getattr(fused_rnn, name), getattr(keras.layers, name)


# What only some of the layers take.
OWN_OPTIONS = {
    "GRU": dict(reset_after=False, recurrent_activation="hard_sigmoid"),
    "LSTM": dict(unit_forget_bias=False, recurrent_activation="hard_sigmoid"),
    "SimpleRNN": dict(),
}


@pytest.mark.parametrize("name", LAYERS)
def test_is_a_keras_layer(name):
    fused, stock = both(name)
    layer = fused(UNITS)
    assert isinstance(layer, stock)
    assert layer.fallback_reason is None
    assert not layer.supports_jit
    options = dict(
        units=UNITS, activation="relu", use_bias=False,
        kernel_initializer="he_normal", dropout=0.1, recurrent_dropout=0.2,
        seed=3, kernel_regularizer="l2", recurrent_constraint="max_norm",
        return_sequences=True, return_state=True, go_backwards=True,
        stateful=True, unroll=True, zero_output_for_mask=True, name="g",
        dtype="mixed_bfloat16", **OWN_OPTIONS[name],
    )
    ours = fused(**options).get_config()
    assert ours == stock(**options).get_config()
    assert fused.from_config(ours).get_config() == ours
    fused, stock = both(name + "Cell")
    cell = fused(UNITS, activation="elu", **OWN_OPTIONS[name])
    assert isinstance(cell, stock) and cell.fallback_reason is None
    assert cell.get_config().keys() == stock(UNITS).get_config().keys()
    again = fused.from_config(cell.get_config())
    assert again.get_config() == cell.get_config()


# Every place that a layer can stand in, as a model of the layer's class.
def bidirectional(rnn, merge="concat"):
    inputs = keras.Input((None, INPUTS))
    x = keras.layers.Masking()(inputs)
    return keras.Model(
        inputs,
        keras.layers.Bidirectional(
            rnn(UNITS, return_sequences=True), merge_mode=merge
        )(x),
    )


def encoder_decoder(rnn):
    source, target = keras.Input((None, INPUTS)), keras.Input((None, INPUTS))
    _, *states = rnn(UNITS, return_state=True)(
        keras.layers.Masking()(source)
    )
    decoded = rnn(UNITS, return_sequences=True)(target, initial_state=states)
    return keras.Model([source, target], [decoded, *states])


def time_distributed(rnn):
    inputs = keras.Input((2, None, INPUTS))
    return keras.Model(
        inputs, keras.layers.TimeDistributed(rnn(UNITS))(inputs)
    )


def embedding(rnn):
    return keras.Sequential([
        keras.layers.Embedding(9, INPUTS, mask_zero=True),
        rnn(UNITS, return_sequences=True), rnn(UNITS),
    ])


def shared(rnn):
    layer = rnn(UNITS)
    a, b = keras.Input((None, INPUTS)), keras.Input((STEPS, INPUTS))
    return keras.Model([a, b], [layer(a), layer(b)])


def fixed_batch(rnn):
    inputs = keras.Input(batch_shape=(BATCH, STEPS, INPUTS))
    return keras.Model(inputs, rnn(UNITS, unroll=True)(inputs))


class Subclassed(keras.Model):
    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn(UNITS)

    def call(self, x):
        return self.rnn(x)


PLACES = {
    "bidirectional": (bidirectional, lambda: data()),
    "bidirectional_sum": (lambda rnn: bidirectional(rnn, "sum"), data),
    "encoder_decoder": (encoder_decoder, lambda: [data(), data(1)]),
    "time_distributed": (
        time_distributed, lambda: data(2, (BATCH, 2, STEPS, INPUTS)),
    ),
    "embedding": (
        embedding,
        lambda: np.random.default_rng(3).integers(0, 9, (BATCH, STEPS)),
    ),
    "shared": (shared, lambda: [data(), data(4)]),
    "fixed_batch": (fixed_batch, data),
    "subclassed": (Subclassed, data),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("place", sorted(PLACES))
def test_places(place, name):
    build, inputs = PLACES[place]
    inputs = inputs()
    if place != "embedding":
        (inputs if isinstance(inputs, list) else [inputs])[0][1, 2:] = 0
    fused, stock = (build(layer) for layer in both(name))
    for model in (fused, stock):
        model(inputs)
    same_weights(fused, stock)
    expected = stock(inputs)
    assert_same(fused(inputs), expected)
    assert_same(fused.predict(inputs, verbose=0), expected)
    before = [w.copy() for w in fused.get_weights()]
    targets = keras.tree.map_structure(np.ones_like, expected)
    for model in (fused, stock):
        # A graph of Keras' loop and its gradient takes seconds to trace.
        model.compile(
            keras.optimizers.SGD(0.1), "mse", run_eagerly=model is stock
        )
        # One model has its batch size fixed.
        model.fit(inputs, targets, BATCH, epochs=2, verbose=0)
    for ours, theirs in zip(fused.get_weights(), stock.get_weights()):
        assert_same(ours, theirs)
    assert any(
        np.abs(w - b).max() > 1e-3 for w, b in zip(fused.get_weights(), before)
    )


@pytest.mark.parametrize("name", LAYERS)
def test_stateful(name):
    fused, stock = (layer(UNITS, stateful=True) for layer in both(name))
    for layer in (fused, stock):
        layer.build((BATCH, STEPS, INPUTS))
    same_weights(fused, stock)
    for layer in (fused, stock):
        layer.reset_state()
    first = fused(data(), mask=HOLES)
    assert_same(first, stock(data(), mask=HOLES))
    second = fused(data(), mask=HOLES)
    assert_same(second, stock(data(), mask=HOLES))
    assert np.abs(second - first).max() > 0.01
    for ours, theirs in zip(fused.states, stock.states, strict=True):
        assert_same(ours.value, theirs.value)
    fused.reset_state()
    np.testing.assert_array_equal(fused(data(), mask=HOLES), first)


@pytest.mark.parametrize("name", LAYERS)
def test_not_trainable(name):
    layer = getattr(fused_rnn, name)(UNITS, trainable=False)
    layer.build((None, None, INPUTS))
    assert not layer.trainable_variables and len(layer.weights) == 3


@pytest.mark.parametrize("name, options, reason", [
    ("GRU", dict(activation="gelu"), "activation gelu is not"),
    ("GRU", dict(activation=keras.layers.LeakyReLU()),
     "activation .*LeakyReLU.* is not one of"),
    ("LSTM", dict(recurrent_activation=lambda x: x + 0.0),
     "recurrent_activation <lambda> is not one of"),
    ("SimpleRNN", dict(activation="gelu"), "activation gelu is not"),
], ids=["gelu", "layer", "lambda", "simple"])
def test_fallback(name, options, reason):
    fused, stock = (layer(UNITS, **options) for layer in both(name))
    with pytest.warns(UserWarning, match=f"'{fused.name}' is not fused") as w:
        fused(data())
    stock(data())
    assert len([x for x in w if "not fused" in str(x.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fused(data())  # said already
    same_weights(fused, stock)
    np.testing.assert_array_equal(
        fused(data(), mask=HOLES), stock(data(), mask=HOLES)
    )
    assert re.search(reason, fused.fallback_reason)


def test_the_fallback_warning_points_at_the_callers_line():
    """Through Keras' own calls, wrappers, fit and AutoGraph."""
    def layer():
        return fused_rnn.GRU(2, activation="gelu")

    model = keras.Sequential([layer()])
    model.compile("sgd", "mse")
    calls = [
        lambda: layer()(data()),
        lambda: keras.layers.Bidirectional(layer())(data()),
        lambda: model.fit(data(), data(shape=(BATCH, 2)), verbose=0),
        lambda: tf.function(layer())(data()),
        lambda: fused_rnn.GRUCell(2, activation="gelu")(
            data()[:, 0], data(shape=(BATCH, 2))
        ),
    ]
    for call in calls:
        with pytest.warns(UserWarning, match="is not fused") as caught:
            call()
        places = {
            w.filename for w in caught if "not fused" in str(w.message)
        }
        assert places == {__file__}


def test_fallback_for_another_cell():
    class Cell(keras.layers.GRUCell):
        def call(self, inputs, states, training=False):
            return inputs, states

    layer = fused_rnn.GRU(INPUTS)
    layer.cell = Cell(INPUTS)
    assert layer.fallback_reason == "the cell is a Cell, not a GRUCell"
    with pytest.warns(UserWarning, match="not fused"):
        np.testing.assert_array_equal(layer(data()), data()[:, -1])
    # One that is fused elsewhere, too.
    layer = fused_rnn.GRU(INPUTS)
    layer.cell = keras.layers.SimpleRNNCell(INPUTS)
    assert "is a SimpleRNNCell, not a GRUCell" in layer.fallback_reason


@pytest.mark.parametrize("name", ["GRU", "LSTM"])
@pytest.mark.parametrize("options", [
    dict(recurrent_dropout=0.1), dict(dropout=0.1, implementation=1),
], ids=str)
def test_dropout_of_old_keras_is_left_to_it(name, options):
    layer = getattr(fused_rnn, name)(UNITS, **options)
    assert layer.fallback_reason is None
    del layer.cell.dropout_mask_count  # which Keras has since 3.8
    assert "3.8 and newer" in layer.fallback_reason
    layer = getattr(fused_rnn, name)(UNITS, dropout=0.1)
    assert layer.fallback_reason is None


@pytest.mark.parametrize("name", ["GRU", "LSTM"])
def test_use_cudnn_asks_for_keras(name):
    layer = getattr(fused_rnn, name)(UNITS, use_cudnn=True)
    assert "cuDNN" in layer.fallback_reason
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="cuDNN"):
        layer(data())
    layer = getattr(fused_rnn, name)(UNITS, use_cudnn=False)
    assert layer.fallback_reason is None


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("options", [
    dict(), dict(use_bias=False, activation="relu"),
    dict(dropout=0.4, recurrent_dropout=0.3, seed=5), dict(dtype="float64"),
], ids=str)
def test_cell(case, options):
    """In a stack, and in a loop of one's own."""
    case = CASES[case]
    fused, stock = (
        keras.layers.RNN(
            keras.layers.StackedRNNCells(
                [cell(n, **case.options, **options) for n in (UNITS, 2)],
                dtype=options.get("dtype"),
            ),
            return_sequences=True, return_state=True,
            dtype=options.get("dtype"),
        )
        for cell in both(case.keras + "Cell")
    )
    for layer in (fused, stock):
        layer(data())
        # Building has drawn masks.
        for cell in layer.cell.cells:
            cell.seed_generator.state.assign([7, 0])
    weights = iter([
        np.random.default_rng(i).uniform(-0.6, 0.6, w.shape)
        for i, w in enumerate(fused.trainable_weights)
    ])
    for ours, theirs in zip(fused.trainable_weights, stock.trainable_weights):
        ours.assign(next(weights))
        theirs.assign(ours)
    policy = options.get("dtype", "float32")
    for training in (False, True):
        assert_same(
            fused(data(), mask=HOLES, training=training),
            stock(data(), mask=HOLES, training=training), policy,
        )
    cells = fused.cell.cells[0], stock.cell.cells[0]
    x, *states = (
        keras.ops.cast(v, policy)
        for v in (data()[:, 0], *states_of(case.keras))
    )
    for cell in cells:
        cell.reset_dropout_mask()
        cell.reset_recurrent_dropout_mask()
    for training in (False, True, True):
        ours, theirs = (cell(x, states, training=training) for cell in cells)
        assert_same(ours, theirs, policy)
    if len(states) == 1:
        a, b = cells[0](x, *states)
        np.testing.assert_array_equal(a, cells[0](x, states)[0])
        np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("name", LAYERS)
def test_cell_fallback(name):
    fused, stock = (
        cell(UNITS, activation="gelu") for cell in both(name + "Cell")
    )
    x, states = data()[:, 0], states_of(name)
    with pytest.warns(UserWarning, match="not fused"):
        fused(x, states)
    stock(x, states)
    same_weights(fused, stock)
    np.testing.assert_array_equal(fused(x, states)[0], stock(x, states)[0])
