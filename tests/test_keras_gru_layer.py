"""fused_rnn.GRU and GRUCell as Keras layers: places, files, errors."""

import re
import warnings

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
import helpers_keras  # noqa: E402
from helpers import run_python  # noqa: E402
from helpers_keras import (  # noqa: E402
    BATCH,
    HOLES,
    INPUTS,
    STEPS,
    UNITS,
    assert_same,
    data,
)


def same_weights(fused, stock):
    """Builds both by a call, then copies the weights as they are."""
    fused.set_weights([
        np.random.default_rng(i).uniform(-0.6, 0.6, w.shape)
        for i, w in enumerate(fused.get_weights())
    ])
    stock.set_weights(fused.get_weights())


def test_is_a_keras_gru():
    layer = fused_rnn.GRU(UNITS)
    assert isinstance(layer, keras.layers.GRU)
    assert isinstance(fused_rnn.GRUCell(UNITS), keras.layers.GRUCell)
    assert layer.fallback_reason is None
    assert not layer.supports_jit
    options = dict(
        units=UNITS, activation="relu", recurrent_activation="hard_sigmoid",
        use_bias=False, kernel_initializer="he_normal", dropout=0.1,
        recurrent_dropout=0.2, seed=3, kernel_regularizer="l2",
        recurrent_constraint="max_norm", return_sequences=True,
        return_state=True, go_backwards=True, stateful=True, unroll=True,
        zero_output_for_mask=True, reset_after=False, name="g",
        dtype="mixed_bfloat16",
    )
    ours = fused_rnn.GRU(**options).get_config()
    assert ours == keras.layers.GRU(**options).get_config()
    assert fused_rnn.GRU.from_config(ours).get_config() == ours
    cell = fused_rnn.GRUCell(UNITS, reset_after=False, activation="elu")
    assert (
        cell.get_config().keys()
        == keras.layers.GRUCell(UNITS).get_config().keys()
    )
    assert fused_rnn.GRUCell.from_config(
        cell.get_config()
    ).get_config() == cell.get_config()


# Every place that a GRU can stand in, as a model of the layer's class.
def bidirectional(gru, merge="concat"):
    inputs = keras.Input((None, INPUTS))
    x = keras.layers.Masking()(inputs)
    return keras.Model(
        inputs,
        keras.layers.Bidirectional(
            gru(UNITS, return_sequences=True), merge_mode=merge
        )(x),
    )


def encoder_decoder(gru):
    source, target = keras.Input((None, INPUTS)), keras.Input((None, INPUTS))
    _, state = gru(UNITS, return_state=True)(
        keras.layers.Masking()(source)
    )
    decoded = gru(UNITS, return_sequences=True)(target, initial_state=state)
    return keras.Model([source, target], [decoded, state])


def time_distributed(gru):
    inputs = keras.Input((2, None, INPUTS))
    return keras.Model(
        inputs, keras.layers.TimeDistributed(gru(UNITS))(inputs)
    )


def embedding(gru):
    return keras.Sequential([
        keras.layers.Embedding(9, INPUTS, mask_zero=True),
        gru(UNITS, return_sequences=True), gru(UNITS),
    ])


def shared(gru):
    layer = gru(UNITS)
    a, b = keras.Input((None, INPUTS)), keras.Input((STEPS, INPUTS))
    return keras.Model([a, b], [layer(a), layer(b)])


def fixed_batch(gru):
    inputs = keras.Input(batch_shape=(BATCH, STEPS, INPUTS))
    return keras.Model(inputs, gru(UNITS, unroll=True)(inputs))


class Subclassed(keras.Model):
    def __init__(self, gru):
        super().__init__()
        self.gru = gru(UNITS)

    def call(self, x):
        return self.gru(x)


PLACES = {
    "bidirectional": (bidirectional, lambda: data()),
    "bidirectional_sum": (lambda gru: bidirectional(gru, "sum"), data),
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


@pytest.mark.parametrize("place", sorted(PLACES))
def test_places(place):
    build, inputs = PLACES[place]
    inputs = inputs()
    if place != "embedding":
        (inputs if isinstance(inputs, list) else [inputs])[0][1, 2:] = 0
    fused, stock = build(fused_rnn.GRU), build(keras.layers.GRU)
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


def test_stateful():
    fused, stock = (
        gru(UNITS, stateful=True)
        for gru in (fused_rnn.GRU, keras.layers.GRU)
    )
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
    assert_same(fused.states[0].value, stock.states[0].value)
    fused.reset_state()
    np.testing.assert_array_equal(fused(data(), mask=HOLES), first)


def test_not_trainable():
    layer = fused_rnn.GRU(UNITS, trainable=False)
    layer.build((None, None, INPUTS))
    assert not layer.trainable_variables and len(layer.weights) == 3


@pytest.mark.parametrize("make, reason", [
    (lambda gru: gru(UNITS, activation="gelu"), "activation gelu is not"),
    (lambda gru: gru(UNITS, recurrent_activation=lambda x: x + 0.0),
     "recurrent_activation <lambda> is not one of"),
    (lambda gru: gru(UNITS, activation=keras.layers.LeakyReLU()),
     "activation .*LeakyReLU.* is not one of"),
], ids=["gelu", "lambda", "layer"])
def test_fallback(make, reason):
    fused, stock = make(fused_rnn.GRU), make(keras.layers.GRU)
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


@pytest.mark.parametrize("options", [
    dict(recurrent_dropout=0.1), dict(dropout=0.1, implementation=1),
], ids=str)
def test_dropout_of_old_keras_is_left_to_it(options):
    layer = fused_rnn.GRU(UNITS, **options)
    assert layer.fallback_reason is None
    del layer.cell.dropout_mask_count  # which Keras has since 3.8
    assert "3.8 and newer" in layer.fallback_reason
    layer = fused_rnn.GRU(UNITS, dropout=0.1)
    assert layer.fallback_reason is None


def test_use_cudnn_asks_for_keras():
    layer = fused_rnn.GRU(UNITS, use_cudnn=True)
    assert "cuDNN" in layer.fallback_reason
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="cuDNN"):
        layer(data())
    assert fused_rnn.GRU(UNITS, use_cudnn=False).fallback_reason is None


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("options", [
    dict(), dict(use_bias=False, activation="relu"),
    dict(dropout=0.4, recurrent_dropout=0.3, seed=5), dict(dtype="float64"),
], ids=str)
def test_cell(reset_after, options):
    """In a stack, and in a loop of one's own."""
    fused, stock = (
        keras.layers.RNN(
            keras.layers.StackedRNNCells(
                [
                    cell(n, reset_after=reset_after, **options)
                    for n in (UNITS, 2)
                ],
                dtype=options.get("dtype"),
            ),
            return_sequences=True, return_state=True,
            dtype=options.get("dtype"),
        )
        for cell in (fused_rnn.GRUCell, keras.layers.GRUCell)
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
    x, h = (
        keras.ops.cast(v, policy)
        for v in (data()[:, 0], data(1, (BATCH, UNITS)))
    )
    for cell in cells:
        cell.reset_dropout_mask()
        cell.reset_recurrent_dropout_mask()
    (a, [b]), (c, [d]) = (cell(x, [h]) for cell in cells)
    assert_same([a, b], [c, d], policy)
    e, f = cells[0](x, h)
    np.testing.assert_array_equal(e, a)
    np.testing.assert_array_equal(f, a)


def test_cell_fallback():
    fused, stock = (
        cell(UNITS, activation="gelu")
        for cell in (fused_rnn.GRUCell, keras.layers.GRUCell)
    )
    x, h = data()[:, 0], data(1, (BATCH, UNITS))
    with pytest.warns(UserWarning, match="not fused"):
        fused(x, h)
    stock(x, h)
    same_weights(fused, stock)
    np.testing.assert_array_equal(fused(x, h)[0], stock(x, h)[0])


LOAD = """
import sys
import numpy as np, tensorflow as tf, keras, fused_rnn
folder = sys.argv[1]
x = np.load(folder + "/x.npy")
model = keras.models.load_model(folder + "/model.keras")
assert type(model.layers[1].forward_layer) is fused_rnn.GRU
results = {"keras": model.predict(x, verbose=0)}
stock = keras.models.load_model(folder + "/stock.keras")
stock.load_weights(folder + "/model.weights.h5")
results["weights of ours in a stock model"] = stock.predict(x, verbose=0)
model.set_weights([np.zeros_like(w) for w in model.get_weights()])
model.load_weights(folder + "/stock.weights.h5")
results["weights of a stock model in ours"] = model.predict(x, verbose=0)
served = tf.saved_model.load(folder + "/served")
results["served"] = served.serve(x)
np.savez(folder + "/results.npz", **results)
"""


def test_files_in_a_fresh_process(tmp_path):
    def build(gru, cell):
        return keras.Sequential([
            keras.Input((None, INPUTS)),
            keras.layers.Masking(),
            keras.layers.Bidirectional(gru(UNITS, return_sequences=True)),
            keras.layers.RNN([cell(3), cell(2)], return_sequences=True),
            gru(UNITS, reset_after=False, dropout=0.1),
        ])

    model = build(fused_rnn.GRU, fused_rnn.GRUCell)
    stock = build(keras.layers.GRU, keras.layers.GRUCell)
    stock.set_weights(model.get_weights())
    expected = model.predict(data(), verbose=0)
    np.save(tmp_path / "x.npy", data())
    model.save(tmp_path / "model.keras")
    stock.save(tmp_path / "stock.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    stock.save_weights(tmp_path / "stock.weights.h5")
    model.export(str(tmp_path / "served"), verbose=False)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone.predict(data(), verbose=0), expected)

    run_python(LOAD, tmp_path)
    results = np.load(tmp_path / "results.npz")
    assert len(results) == 4
    for name, result in results.items():
        np.testing.assert_allclose(
            result, expected, rtol=0, err_msg=name,
            atol=helpers_keras.tolerance("float32", INPUTS + UNITS, STEPS),
        )
