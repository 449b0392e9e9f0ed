"""Files of all kinds, copies, and what a process without us serves."""

import copy
import pathlib
import pickle

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
from helpers import run_python  # noqa: E402
from helpers_keras import (  # noqa: E402
    BATCH,
    INPUTS,
    LAYERS,
    STEPS,
    UNITS,
    assert_same,
    data,
)


def layers_of(module, **options):
    """Every layer and cell, of Keras or of ours; the options are a GRU's."""
    return [
        keras.layers.Bidirectional(module.LSTM(UNITS, return_sequences=True)),
        keras.layers.RNN(
            [module.GRUCell(3), module.LSTMCell(2), module.SimpleRNNCell(2)],
            return_sequences=True,
        ),
        module.SimpleRNN(3, return_sequences=True),
        module.GRU(2, **options),
    ]


def build(seed):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [keras.Input((None, INPUTS)), *layers_of(keras.layers)]
    )
    # Eager, since a graph of Keras' loop takes seconds to trace.
    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
    model.fit(data(seed), np.ones((BATCH, 2)), verbose=0)
    return model


LOAD = """
import sys
import numpy as np, tensorflow as tf, keras, fused_rnn
folder = sys.argv[1]
x = np.load(folder + "/x.npy")
model = keras.models.load_model(folder + "/model.keras")
assert type(model.layers[1].forward_layer) is fused_rnn.LSTM
assert type(model.layers[2].cell.cells[2]) is fused_rnn.SimpleRNNCell
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
    model, stock = (
        keras.Sequential([
            keras.Input((None, INPUTS)), keras.layers.Masking(),
            *layers_of(module, reset_after=False, dropout=0.1),
        ]) for module in (fused_rnn, keras.layers)
    )
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
    for result in results.values():
        assert_same(result, expected)


@pytest.mark.parametrize("duplicate", [
    copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)),
], ids=["deepcopy", "pickle"])
def test_copies(duplicate):
    model = fused_rnn.fuse(build(0), verbose=False)
    expected = model.predict(data(), verbose=0)
    twin = duplicate(model)
    assert [type(x) for x in twin._flatten_layers()] == [
        type(x) for x in model._flatten_layers()
    ]
    for a, b in zip(
        [*twin.trainable_variables, *twin.optimizer.variables],
        [*model.trainable_variables, *model.optimizer.variables],
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    twin.fit(data(), np.ones((BATCH, 2)), verbose=0)
    np.testing.assert_array_equal(model.predict(data(), verbose=0), expected)


@pytest.mark.parametrize("fused_first", [True, False])
def test_checkpoint(tmp_path, fused_first):
    """Written by one and read by the other, the optimizer's slots included."""
    models = [build(seed) for seed in range(2)]
    fused_rnn.fuse(models[0 if fused_first else 1], verbose=False)
    first, second = (
        tf.train.Checkpoint(model=m, optimizer=m.optimizer) for m in models
    )
    path = first.save(str(tmp_path / "checkpoint"))
    second.restore(path).assert_existing_objects_matched()
    for a, b in zip(*(m.optimizer.variables for m in models), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    expected, actual = (m.predict(data(), verbose=0) for m in models)
    assert_same(actual, expected)


@pytest.mark.parametrize("name", ["keras2.h5", "keras2_lstm.h5"])
def test_weights_of_keras_2(name):
    """An .h5 file of Keras 2 fills a model that is there already."""
    file = pathlib.Path(__file__).parent / "data" / name
    with fused_rnn.fused_scope():
        expected = keras.models.load_model(file, compile=False)
    model = keras.models.clone_model(expected)
    assert sum(
        isinstance(x, keras.layers.RNN) and x.fallback_reason is None
        for x in model._flatten_layers()
    ) == 5
    model.load_weights(file)
    for a, b in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


class Tagger(keras.Model):
    """Its own code makes its layers, also when it is loaded."""

    def __init__(self, name_of_layer, **kwargs):
        super().__init__(**kwargs)
        self.name_of_layer = name_of_layer
        self.both = keras.layers.Bidirectional(
            getattr(keras.layers, name_of_layer)(UNITS)
        )

    def call(self, x):
        return self.both(x)

    def get_config(self):
        return {**super().get_config(), "name_of_layer": self.name_of_layer}


@pytest.mark.parametrize("name", LAYERS)
def test_subclassed_model(name, tmp_path):
    model = Tagger(name)
    expected = model(data())
    fused_rnn.fuse(model, verbose=False).save(tmp_path / "model.keras")
    load = lambda: keras.models.load_model(  # noqa: E731
        tmp_path / "model.keras", custom_objects={"Tagger": Tagger}
    )
    with fused_rnn.fused_scope():
        fused = load()
    stock = load()
    assert type(fused.both.forward_layer) is getattr(fused_rnn, name)
    assert type(stock.both.forward_layer) is getattr(keras.layers, name)
    for loaded in (fused, stock, fused_rnn.fuse(stock, verbose=False)):
        assert_same(loaded(data()), expected)


def unfused(name):
    """A model of Keras' own layers that was fused, and what it computes."""
    model = keras.Sequential([
        keras.Input((STEPS, INPUTS)),
        keras.layers.Bidirectional(getattr(fused_rnn, name)(UNITS)),
    ])
    expected = model(data())
    return fused_rnn.unfuse(model, verbose=False), expected


@pytest.mark.parametrize("name", LAYERS)
def test_tflite(name):
    model, expected = unfused(name)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.RNN):
            layer.unroll = True
    content = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    lite = tf.lite.Interpreter(model_content=content)
    place, = lite.get_input_details()
    lite.resize_tensor_input(place["index"], data().shape)
    lite.allocate_tensors()
    lite.set_tensor(place["index"], data())
    lite.invoke()
    assert_same(lite.get_tensor(lite.get_output_details()[0]["index"]),
                 expected)


@pytest.mark.parametrize("name", LAYERS)
def test_onnx(name, tmp_path):
    pytest.importorskip("tf2onnx")
    runtime = pytest.importorskip("onnxruntime")
    model, expected = unfused(name)
    file = str(tmp_path / "model.onnx")
    model.export(file, format="onnx", verbose=False)
    session = runtime.InferenceSession(file)
    (outputs,) = session.run(None, {session.get_inputs()[0].name: data()})
    assert_same(outputs, expected)


SERVE = """
import sys
import numpy as np, tensorflow as tf
folder, library = sys.argv[1:]
tf.load_op_library(library)
model = tf.saved_model.load(folder + "/served")
x = np.load(folder + "/x.npy")
results = {name: list(f(x=tf.constant(x)).values())[0]
           for name, f in model.signatures.items()}
archive = tf.saved_model.load(folder + "/archive")
results["archive"] = archive.encode(x)
results["one row"] = archive.encode(x[:1])
assert "fused_rnn" not in sys.modules
np.savez(folder + "/results.npz", **results)
"""


def test_served_without_the_package(tmp_path):
    model = fused_rnn.fuse(build(0), verbose=False)
    expected = model(data())
    encoder = model.layers[0]
    spec = [tf.TensorSpec([None, None, INPUTS], name="x")]

    @tf.function(input_signature=spec)
    def on_a_gpu(x):
        with tf.device("/GPU:0"):
            return {"y": model(x)}

    placed = [
        op.device for op in on_a_gpu.get_concrete_function().graph
        .get_operations() if op.type.startswith("FusedRNN>")
    ]
    assert len(placed) == 7 and all("GPU" in device for device in placed)
    tf.saved_model.save(
        model, str(tmp_path / "served"),
        signatures={
            "serving_default": tf.function(
                lambda x: {"y": model(x)}, input_signature=spec
            ),
            "encode": tf.function(
                lambda x: {"states": encoder(x)}, input_signature=spec
            ),
            "on_a_gpu": on_a_gpu,
        },
    )
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("encode", encoder.__call__, input_signature=spec)
    archive.write_out(str(tmp_path / "archive"), verbose=False)
    np.save(tmp_path / "x.npy", data())
    assert isinstance(fused_rnn.library_path(), str)
    run_python(SERVE, tmp_path, fused_rnn.library_path(), PYTHONPATH="")
    results = np.load(tmp_path / "results.npz")
    for name in ("serving_default", "on_a_gpu"):
        assert_same(results[name], expected)
    for name in ("encode", "archive"):
        assert_same(results[name], encoder(data()))
    np.testing.assert_array_equal(results["one row"], results["archive"][:1])
