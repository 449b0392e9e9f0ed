"""Checkpoints, and SavedModels that a process without the package serves."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
import helpers_keras  # noqa: E402
from helpers import run_python  # noqa: E402

BATCH, STEPS, INPUTS, UNITS = 4, 5, 3, 6


def data(seed=0, shape=(BATCH, STEPS, INPUTS)):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")


def assert_close(actual, expected):
    helpers_keras.assert_close(
        actual, expected, "float32", INPUTS + UNITS, STEPS
    )


def build(seed):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([
        keras.Input((None, INPUTS)),
        keras.layers.Bidirectional(
            keras.layers.GRU(UNITS, return_sequences=True)
        ),
        keras.layers.RNN([keras.layers.GRUCell(2)]),
    ])
    # Eager, since a graph of Keras' loop takes seconds to trace.
    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
    model.fit(data(seed), np.ones((BATCH, 2)), verbose=0)
    return model


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
    assert_close(actual, expected)


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
    tf.saved_model.save(
        model, str(tmp_path / "served"),
        signatures={
            "serving_default": tf.function(
                lambda x: {"y": model(x)}, input_signature=spec
            ),
            "encode": tf.function(
                lambda x: {"states": encoder(x)}, input_signature=spec
            ),
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
    assert_close(results["serving_default"], expected)
    for name in ("encode", "archive"):
        assert_close(results[name], encoder(data()))
    np.testing.assert_array_equal(results["one row"], results["archive"][:1])
