"""fuse and unfuse on whole models."""

import json
import warnings

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402
from keras import layers  # noqa: E402

import fused_rnn  # noqa: E402
from helpers_keras import LAYERS  # noqa: E402
from helpers_models import (  # noqa: E402
    BATCH,
    FUSED,
    INPUTS,
    STEPS,
    UNITS,
    OwnCell,
    assert_close,
    classes,
    count_fused,
    data,
    encoder_decoder,
    tagger,
    while_loops,
)


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
@pytest.mark.parametrize("name", LAYERS)
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


@pytest.mark.parametrize("name", LAYERS)
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
