"""fuse, unfuse and fused_scope on whole models."""

import json
import pathlib
import threading
import types
import warnings

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402
from keras import layers  # noqa: E402
from keras.layers import GRU as imported_before  # noqa: E402, N811

import fused_rnn  # noqa: E402
import helpers_keras  # noqa: E402

BATCH, STEPS, INPUTS, UNITS = 4, 3, 3, 6
FUSED = (
    fused_rnn.RNN,
    *(getattr(fused_rnn, name + kind) for name in helpers_keras.LAYERS
      for kind in ("", "Cell")),
)


def data(seed=0, shape=(BATCH, STEPS, INPUTS)):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")


def assert_close(actual, expected):
    for a, e in zip(
        keras.tree.flatten(actual), keras.tree.flatten(expected), strict=True
    ):
        helpers_keras.assert_close(a, e, "float32", INPUTS + UNITS, STEPS)


def classes(model):
    return [type(layer) for layer in model._flatten_layers()]


def count_fused(model):
    return sum(kind in FUSED for kind in classes(model))


def while_loops(model, inputs):
    graph = tf.function(model).get_concrete_function(inputs).graph
    return sum("While" in op.type for op in graph.get_operations())


class OwnCell(layers.SimpleRNNCell):
    """One that is not fused."""


# Models as users write them, each with its inputs and the layers to replace;
# rnn is the layer that they use.
def tagger(rnn=layers.GRU):
    model = keras.Sequential([
        keras.Input((None,), dtype="int32"),
        layers.Embedding(9, INPUTS, mask_zero=True),
        layers.Bidirectional(rnn(UNITS, return_sequences=True)),
        layers.Bidirectional(rnn(UNITS, use_bias=False)),
        layers.Dense(2),
    ])
    return model, np.random.default_rng(3).integers(0, 9, (BATCH, STEPS)), 4


def encoder_decoder(rnn=layers.GRU):
    source, target = keras.Input((None, INPUTS)), keras.Input((None, INPUTS))
    encoded, *states = rnn(
        UNITS, return_sequences=True, return_state=True, name="encoder"
    )(layers.Masking()(source))
    decoded = rnn(UNITS, return_sequences=True, name="decoder")(
        target, initial_state=states
    )
    context = layers.Attention()([decoded, encoded])
    outputs = layers.Dense(2)(layers.Concatenate()([decoded, context]))
    model = keras.Model([source, target], [outputs, *states])
    return model, [data(), data(1)], 2


def cell_of(rnn):
    return getattr(layers, rnn.__name__ + "Cell")


def stateful(rnn):
    inputs = keras.Input(batch_shape=(BATCH, STEPS, INPUTS))
    x = rnn(UNITS, stateful=True, return_sequences=True)(inputs)
    x = layers.RNN(cell_of(rnn)(2), stateful=True)(x)
    return keras.Model(inputs, x), data(), 2


class Subclassed(keras.Model):
    """Holds layers where only the attributes tell: dict, list, a wrapper."""

    def __init__(self, rnn):
        super().__init__()
        self.parts = {"first": [rnn(UNITS, return_sequences=True)]}
        self.each = layers.TimeDistributed(layers.Dense(INPUTS))
        self.loop = cell_of(rnn)(UNITS)
        self.alias = self.parts["first"][0]

    def call(self, x):
        x = self.each(self.alias(x))
        states = self.loop.get_initial_state(keras.ops.shape(x)[0])
        for t in range(2):
            h, states = self.loop(x[:, t], states)
        return h


def subclassed(rnn):
    model = Subclassed(rnn)
    model(data())
    return model, data(), 2


def nested(rnn):
    inner = keras.Sequential([
        keras.Input((None, INPUTS)),
        layers.RNN(
            layers.StackedRNNCells([layers.GRUCell(4), cell_of(rnn)(UNITS)]),
            return_sequences=True,
        ),
        layers.RNN([cell_of(rnn)(2), OwnCell(2)]),
    ], name="inner")
    inputs = keras.Input((2, None, INPUTS))
    shared = rnn(INPUTS, return_sequences=True)
    x = layers.TimeDistributed(shared)(inputs)
    x = layers.TimeDistributed(layers.TimeDistributed(layers.Dense(INPUTS)))(x)
    x = layers.TimeDistributed(inner)(layers.TimeDistributed(shared)(x))
    # The layer, the RNN of two cells, and the one cell beside an OwnCell.
    return keras.Model(inputs, x), data(2, (BATCH, 2, STEPS, INPUTS)), 3


MODELS = [tagger, encoder_decoder, stateful, subclassed, nested]


@pytest.mark.parametrize("build", MODELS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", helpers_keras.LAYERS)
def test_fuse_and_unfuse(build, name, capsys):
    keras.utils.set_random_seed(1)
    model, inputs, replaced = build(getattr(layers, name))
    # A graph of Keras' loop and its gradient takes seconds to trace.
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9), "mse", run_eagerly=True,
        metrics=[["mae"]] * len(keras.tree.flatten(model(inputs))),
    )
    model.optimizer.build(model.trainable_variables)
    for i, slot in enumerate(model.optimizer.variables[2:]):
        slot.assign(0.1 * data(i, slot.shape))
    start = [v.numpy() for v in model.variables + model.optimizer.variables]
    targets = keras.tree.map_structure(
        lambda o: np.ones(o.shape, "float32"), model(inputs)
    )

    def results():
        """Of a call and of two steps from the same start."""
        for v, value in zip(model.variables + model.optimizer.variables, start):
            v.assign(value)
        for layer in model._flatten_layers():
            if isinstance(layer, layers.RNN):
                layer.reset_state()
        outputs = keras.tree.map_structure(np.array, model(inputs))
        history = model.fit(inputs, targets, BATCH, epochs=2, verbose=0)
        losses = [np.array(history.history[k]) for k in sorted(history.history)]
        slots = [v.numpy() for v in model.optimizer.variables[2:]]
        return outputs, model.get_weights(), slots, losses

    expected = results()
    variables, optimizer = model.variables, model.optimizer
    before = classes(model)
    config = None if build is subclassed else model.to_json()
    jit = [layer.supports_jit for layer in model._flatten_layers()]

    assert fused_rnn.fuse(model) is model
    assert count_fused(model) == replaced
    assert capsys.readouterr().out.count("fused\n") == replaced
    assert all(a is b for a, b in zip(model.variables, variables, strict=True))
    assert model.optimizer is optimizer
    assert [v.path for v in model.variables] == [v.path for v in variables]
    assert not any(
        layer.supports_jit for layer in model._flatten_layers()
        if type(layer) in FUSED
    )
    assert_close(results(), expected)
    fused = classes(model)
    fused_rnn.fuse(model)
    assert classes(model) == fused

    fused_rnn.unfuse(model)
    assert classes(model) == before
    assert config is None or model.to_json() == config
    assert [x.supports_jit for x in model._flatten_layers()] == jit
    for a, e in zip(
        keras.tree.flatten(results()), keras.tree.flatten(expected), strict=True
    ):
        np.testing.assert_array_equal(a, e)


def test_what_was_traced_is_traced_anew():
    model, inputs, _ = tagger()
    model.compile("sgd", "mse")
    expected = model.predict(inputs, verbose=0)
    stock = while_loops(model, inputs)
    fused_rnn.fuse(model, verbose=False)
    assert stock and not while_loops(model, inputs)
    assert model.predict_function is None
    assert_close(model.predict(inputs, verbose=0), expected)
    model.fit(inputs, np.ones((BATCH, 2)), verbose=0)
    fused_rnn.unfuse(model, verbose=False)
    assert model.train_function is None
    assert while_loops(model, inputs) == stock


def test_table(capsys):
    class OwnGRU(layers.GRU):
        pass

    class OwnRNN(layers.RNN):
        pass

    model = keras.Sequential([
        layers.Bidirectional(
            layers.GRU(2, return_sequences=True), name="both"
        ),
        layers.RNN([layers.GRUCell(2, name="c"), OwnCell(2, name="e")],
                   return_sequences=True, name="mixed"),
        layers.RNN([layers.GRUCell(2), layers.LSTMCell(2)],
                   return_sequences=True, name="stack"),
        layers.LSTM(2, return_sequences=True, name="lstm"),
        layers.SimpleRNN(2, return_sequences=True, name="simple"),
        layers.GRU(2, activation="gelu", return_sequences=True, name="gelu"),
        layers.RNN(fused_rnn.GRUBlockCell(2, name="block"), name="tf1",
                   return_sequences=True),
        OwnRNN(layers.LSTMCell(2, name="d"), return_sequences=True,
               name="mine"),
        OwnGRU(2, name="own"),
    ])
    conv = keras.Sequential([layers.ConvLSTM1D(2, 1, name="conv")])
    fused_rnn.fuse(model)
    rows = {
        line.split()[0]: line.split(maxsplit=2)[2]
        for line in capsys.readouterr().out.splitlines()[1:]
    }
    stack = model.layers[1].cell.name
    assert len(rows) == 13 and "both/forward_gru" in next(iter(rows))
    assert sum(state == "fused" for state in rows.values()) == 7
    fusable = "not a GRUCell, LSTMCell or SimpleRNNCell"
    assert rows["mixed"] == f"the cell is a OwnCell, {fusable}"
    assert rows[f"mixed/{stack}/c"] == "fused"
    assert rows[f"mixed/{stack}/e"] == "a subclass of SimpleRNNCell"
    assert rows["stack"] == rows["lstm"] == rows["simple"] == "fused"
    assert "activation gelu is not" in rows["gelu"]
    assert rows["tf1"] == f"the cell is a GRUBlockCell, {fusable}"
    assert rows["own"] == "a subclass of GRU"
    assert rows["mine"] == "a subclass of RNN" and rows["mine/d"] == "fused"
    fused_rnn.unfuse(model)
    out = capsys.readouterr().out
    assert out.count("Keras' own") == 7
    assert "stays: Keras has no such cell" in out
    assert not count_fused(model)
    fused_rnn.fuse(keras.Sequential([layers.Dense(1)]))
    assert "No recurrent layer" in capsys.readouterr().out
    fused_rnn.fuse(conv)
    assert "not a GRU, LSTM or SimpleRNN\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", helpers_keras.LAYERS)
def test_unfuse_what_was_built_fused(name):
    rnn = getattr(fused_rnn, name)

    class OwnLayer(rnn):
        pass

    model = keras.Sequential([
        keras.Input((None, INPUTS)),
        layers.Bidirectional(rnn(UNITS, return_sequences=True)),
        fused_rnn.RNN(
            [getattr(fused_rnn, name + "Cell")(2), fused_rnn.GRUCell(2)],
            return_sequences=True,
        ),
        rnn(2),
    ])
    expected = model(data())
    config = json.loads(fused_rnn.unfuse(model).to_json())
    assert "fused_rnn" not in str(config)
    assert_close(model(data()), expected)
    assert all(layer.supports_jit for layer in model._flatten_layers())
    own = OwnLayer(2)
    assert type(fused_rnn.unfuse(own)) is OwnLayer
    layer = fused_rnn.fuse(getattr(layers, name)(2), verbose=False)
    assert type(layer) is rnn
    layer.supports_jit = False  # as Keras does once it has met cuDNN
    assert not fused_rnn.unfuse(layer).supports_jit


def test_not_a_model(tmp_path):
    legacy = type("Sequential", (), {"__module__": "tf_keras.src.engine"})()
    tf.saved_model.save(tf.Module(), str(tmp_path))
    served = tf.saved_model.load(str(tmp_path))
    for function in (fused_rnn.fuse, fused_rnn.unfuse):
        name = function.__name__
        with pytest.raises(TypeError, match=f"fused_rnn.{name} .* a builtins"):
            function("model.keras")
        with pytest.raises(TypeError, match="makes, not the class"):
            function(keras.layers.GRU)
        with pytest.raises(TypeError, match="load the file with Keras 3"):
            function(legacy)
        with pytest.raises(TypeError, match="export that again"):
            function(served)


def test_xla(monkeypatch):
    model = keras.Sequential([keras.Input((None, INPUTS)), layers.GRU(2)])
    model.compile("sgd", "mse", jit_compile=True)
    assert model.jit_compile
    with pytest.warns(UserWarning, match="XLA cannot compile"):
        fused_rnn.fuse(model, verbose=False)
    assert model.jit_compile is False
    model.fit(data(), np.ones((BATCH, 2)), verbose=0)
    fused_rnn.unfuse(model, verbose=False)
    assert model.jit_compile is True

    # Without a GPU Keras never chooses XLA, so pretend that there is one.
    device = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda *_: [device]
    )
    model = keras.Sequential([
        keras.Input((None, INPUTS)), layers.GRU(2, reset_after=False),
    ])
    fused_rnn.fuse(model, verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.compile("sgd", "mse", jit_compile="auto")
    assert model.jit_compile is False


def test_scope():
    with fused_rnn.fused_scope():
        model, inputs, _ = tagger()
        assert count_fused(model) == 4
        assert type(imported_before(2)) is fused_rnn.GRU
        stack = layers.RNN([layers.GRUCell(2), fused_rnn.GRUCell(2)])
        assert type(stack) is fused_rnn.RNN
        assert type(layers.RNN(cell=layers.GRUCell(2))) is fused_rnn.RNN
        assert type(layers.RNN(layers.LSTMCell(2))) is fused_rnn.RNN
        assert type(layers.RNN(OwnCell(2))) is layers.RNN
        assert type(layers.LSTM(2)) is fused_rnn.LSTM
        assert type(layers.SimpleRNN(2)) is fused_rnn.SimpleRNN
        assert type(layers.ConvLSTM1D(2, 1)) is layers.ConvLSTM1D
        assert type(layers.GRUCell(2)) is layers.GRUCell
        with pytest.raises(TypeError):
            layers.RNN()
        elsewhere = []
        thread = threading.Thread(
            target=lambda: elsewhere.append(layers.GRU(2))
        )
        thread.start()
        thread.join()
        assert type(elsewhere[0]) is layers.GRU
        with pytest.raises(ZeroDivisionError), fused_rnn.fused_scope():
            1 / 0
        assert type(layers.GRU(2)) is fused_rnn.GRU
    assert type(layers.GRU(2)) is layers.GRU
    assert "__new__" not in vars(layers.RNN)
    with pytest.raises(ValueError, match="time_major"):
        layers.GRU(2, time_major=False)
    # What was built inside stays fused, and is otherwise what Keras builds.
    assert not while_loops(model, inputs)
    keras.backend.clear_session(free_memory=False)
    with fused_rnn.fused_scope():
        paths = [v.path for v in tagger()[0].variables]
    keras.backend.clear_session(free_memory=False)
    assert paths == [v.path for v in tagger()[0].variables]


@pytest.mark.parametrize("name", helpers_keras.LAYERS)
def test_scope_loads_and_clones(name, tmp_path):
    model, inputs, replaced = encoder_decoder(getattr(layers, name))
    model.compile("adam", "mse")
    model.save(tmp_path / "old.keras")
    expected = model(inputs)
    with fused_rnn.fused_scope():
        loaded = keras.models.load_model(tmp_path / "old.keras")
        clone = keras.models.clone_model(model)
    assert count_fused(loaded) == count_fused(clone) == replaced
    assert loaded.compiled
    assert isinstance(loaded.optimizer, keras.optimizers.Adam)
    assert_close(loaded(inputs), expected)
    clone.set_weights(model.get_weights())
    assert_close(clone(inputs), expected)
    assert not count_fused(model)
    assert isinstance(fused_rnn.fuse, types.FunctionType)


def test_file_of_keras_2(tmp_path):
    """data/keras2.h5: tf_keras 2.19 wrote it, trained for two steps of Adam.

    Embedding(5, 3, mask_zero=True), Bidirectional(GRU(2)), GRU(3,
    reset_after=False), RNN([GRUCell(2), GRUCell(2)]), GRU(2), Dense(1).
    """
    file = pathlib.Path(__file__).parent / "data" / "keras2.h5"
    x = np.random.default_rng(0).integers(0, 5, (4, 6))
    expected = np.array([
        [0.07449819147586823], [0.0632244199514389], [0.07966948300600052],
        [0.07474116235971451],
    ])
    # Keras 3 cannot read the losses that Keras 2 wrote.
    with fused_rnn.fused_scope():
        model = keras.models.load_model(file, compile=False)
    assert count_fused(model) == 5
    assert_close(model(x), expected)
    model.compile("sgd", keras.losses.MeanSquaredError())
    model.fit(x, np.ones((4, 1)), verbose=0)
    expected = model.predict(x, verbose=0)
    model.save(tmp_path / "again.h5")
    again = keras.models.load_model(tmp_path / "again.h5")
    assert count_fused(again) == 5
    np.testing.assert_array_equal(again.predict(x, verbose=0), expected)
    fused_rnn.unfuse(again).save(tmp_path / "stock.h5")
    stock = keras.models.load_model(tmp_path / "stock.h5")
    assert not count_fused(stock)
    assert_close(stock(x), expected)
    assert count_fused(fused_rnn.fuse(stock)) == 5
    np.testing.assert_array_equal(stock.predict(x, verbose=0), expected)
