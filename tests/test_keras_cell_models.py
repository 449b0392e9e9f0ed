"""The block cells' configuration, and models of them in files."""

import json

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
from helpers import run_python  # noqa: E402
from helpers_keras_cell import (  # noqa: E402, F401  a fixture among them
    BATCH,
    INPUTS,
    STEPS,
    UNITS,
    data,
    kind,
    tolerance,
)


def everything():
    """A model that uses every place the cells can be in."""
    cell, lstm = fused_rnn.GRUBlockCell, fused_rnn.LSTMBlockCell
    inputs = keras.Input((None, INPUTS))
    masked = keras.layers.Masking()(inputs)
    x = keras.layers.Bidirectional(
        keras.layers.RNN(
            cell(UNITS, dropout=0.1, recurrent_dropout=0.1, seed=3),
            return_sequences=True,
        )
    )(masked)
    x = keras.layers.RNN(
        [cell(4, gates_kernel_regularizer="l2"), cell(3)],
        return_sequences=True,
    )(x)
    x = keras.layers.RNN(
        [lstm(4, cell_clip=0.5), lstm(3, use_peephole=True)],
        return_sequences=True,
    )(x)
    x = keras.layers.RNN(cell(3, candidate_kernel_constraint="max_norm"))(x)
    return keras.Model(inputs, x)


def test_config():
    cell = fused_rnn.GRUBlockCell(
        UNITS, gates_kernel_initializer="he_normal", dropout=0.1,
        recurrent_dropout=0.2, seed=5, candidate_bias_regularizer="l1",
        gates_bias_constraint="non_neg", name="my_cell", dtype="mixed_float16",
    )
    config = cell.get_config()
    assert json.loads(json.dumps(config)) == config
    other = fused_rnn.GRUBlockCell.from_config(config)
    assert other.get_config() == config
    assert other.units == UNITS and other.recurrent_dropout == 0.2


def test_config_of_lstm():
    cell = fused_rnn.LSTMBlockCell(
        UNITS, forget_bias=0.5, cell_clip=2, use_peephole=True,
        kernel_initializer="he_normal", peephole_constraint="non_neg",
        bias_regularizer="l2", name="my_cell",
    )
    config = cell.get_config()
    assert json.loads(json.dumps(config)) == config
    other = fused_rnn.LSTMBlockCell.from_config(config)
    assert other.get_config() == config
    assert other.cell_clip == 2.0 and other.use_peephole
    assert fused_rnn.LSTMBlockCell(UNITS).get_config()["cell_clip"] is None


def test_clone_model():
    model = everything()
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(
        clone.predict(data(), verbose=0), model.predict(data(), verbose=0)
    )


LOAD = """
import sys
import numpy as np, tensorflow as tf, keras, fused_rnn
folder = sys.argv[1]
x = np.load(folder + "/x.npy")
model = keras.models.load_model(folder + "/model.keras")
results = {"keras": model.predict(x, verbose=0)}
fresh = keras.models.model_from_json(open(folder + "/model.json").read())
fresh.load_weights(folder + "/model.weights.h5")
results["weights"] = fresh.predict(x, verbose=0)
served = tf.saved_model.load(folder + "/served")
results["served"] = served.serve(x)
model.compile("sgd", "mse")
model.fit(x, results["keras"], verbose=0)
np.savez(folder + "/results.npz", **results)
"""


def test_files_in_a_fresh_process(tmp_path):
    model, x = everything(), data()
    expected = model.predict(x, verbose=0)
    np.save(tmp_path / "x.npy", x)
    model.save(tmp_path / "model.keras")
    (tmp_path / "model.json").write_text(model.to_json())
    model.save_weights(tmp_path / "model.weights.h5")
    model.export(str(tmp_path / "served"), verbose=False)
    run_python(LOAD, tmp_path)
    results = np.load(tmp_path / "results.npz")
    assert sorted(results) == ["keras", "served", "weights"]
    for result in results.values():
        np.testing.assert_allclose(
            result, expected, rtol=0, atol=tolerance("float32")
        )


@pytest.mark.parametrize("wrap", [
    lambda cell: keras.layers.RNN(cell),
    lambda cell: keras.layers.RNN([cell, keras.layers.GRUCell(2)]),
    lambda cell: keras.layers.Bidirectional(keras.layers.RNN(cell)),
    lambda cell: keras.Sequential([keras.layers.RNN(cell)]),
], ids=["rnn", "stacked", "bidirectional", "nested"])
def test_compile_does_not_choose_xla(kind, wrap, monkeypatch):
    # Without a GPU Keras never chooses XLA, so pretend that there is one.
    device = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda *_: [device]
    )
    chosen = []
    for cell in (kind.stock_cell(UNITS), kind.cell(UNITS)):
        model = keras.Sequential([keras.Input((None, INPUTS)), wrap(cell)])
        model.compile("sgd", "mse", jit_compile="auto")
        chosen.append(model.jit_compile)
    assert chosen == [True, False]
