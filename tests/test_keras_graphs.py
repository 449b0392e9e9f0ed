"""What becomes of the Keras layers in graphs: one op each, and no XLA."""

import functools

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
from helpers_keras import (  # noqa: E402
    BATCH,
    INPUTS,
    LAYERS,
    STEPS,
    UNITS,
    assert_same,
    data,
)

# A layer or cell, what it is called with, and the ops that it may consist of.
SEQUENCE = tf.TensorSpec([None, None, INPUTS])
STATE = tf.TensorSpec([None, UNITS])
STEP = tf.TensorSpec([None, INPUTS]), STATE
ONE_OP = {
    **{
        name: (getattr(fused_rnn, name)(UNITS), (SEQUENCE,), [name])
        for name in LAYERS
    },
    "RNN": (
        fused_rnn.RNN([
            keras.layers.GRUCell(4), keras.layers.LSTMCell(3),
            keras.layers.GRUCell(2), keras.layers.SimpleRNNCell(2),
        ]),
        (SEQUENCE,), ["GRU", "LSTM", "GRU", "SimpleRNN"],
    ),
    "GRUCell": (fused_rnn.GRUCell(UNITS), STEP, ["GRU"]),
    "LSTMCell": (
        fused_rnn.LSTMCell(UNITS), (STEP[0], [STATE, STATE]), ["LSTM"],
    ),
    "SimpleRNNCell": (fused_rnn.SimpleRNNCell(UNITS), STEP, ["SimpleRNN"]),
    "GRUBlockCell": (fused_rnn.GRUBlockCell(UNITS), STEP, ["GRUBlockCell"]),
}


@pytest.mark.parametrize("name", sorted(ONE_OP))
def test_one_op_and_no_loop(name):
    layer, specs, expected = ONE_OP[name]
    graph = tf.function(layer).get_concrete_function(*specs).graph
    kinds = [op.type for op in graph.get_operations()]
    ours = [kind for kind in kinds if kind.startswith("FusedRNN>")]
    assert ours == ["FusedRNN>" + kind for kind in expected]
    assert not {"MatMul", "While", "StatelessWhile"} & set(kinds)


@pytest.mark.parametrize("name", LAYERS)
def test_compile_does_not_choose_xla(name, monkeypatch):
    # Without a GPU Keras never chooses XLA, so pretend that there is one.
    device = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda *_: [device]
    )
    chosen = []
    for module in (keras.layers, fused_rnn):
        # Keras chooses XLA where cuDNN is out of the question.
        layer = getattr(module, name)(UNITS, activation="relu")
        model = keras.Sequential([
            keras.Input((None, INPUTS)), keras.layers.Bidirectional(layer),
        ])
        model.compile("sgd", "mse", jit_compile="auto")
        chosen.append(model.jit_compile)
    assert chosen == [True, False]


@pytest.mark.parametrize("name", LAYERS)
def test_xla_that_was_asked_for(name):
    """Keras says that it goes without; TensorFlow names what it lacks."""
    layer = getattr(fused_rnn, name)(UNITS)
    model = keras.Sequential([
        keras.Input((STEPS, INPUTS)), keras.Sequential([layer]),
    ])
    with pytest.warns(UserWarning, match="doesn't support `jit_compile=True`"):
        model.compile("sgd", "mse", jit_compile=True)
    assert model.jit_compile is False
    model.fit(data(), np.ones((BATCH, UNITS)), verbose=0)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"FusedRNN>{name}"
    ):
        tf.function(layer, jit_compile=True)(data())
    assert_same(layer(data()), tf.function(layer)(data()))


def test_keras_on_another_backend(monkeypatch):
    stock = keras.layers.GRU(UNITS)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    classes = [
        getattr(fused_rnn, name + kind) for name in LAYERS
        for kind in ("", "Cell")
    ]
    for call in (
        *(functools.partial(cls, UNITS) for cls in classes),
        lambda: fused_rnn.RNN(stock.cell), lambda: fused_rnn.fuse(stock),
        lambda: fused_rnn.GRUBlockCell(UNITS),
        lambda: fused_rnn.fused_scope().__enter__(),
    ):
        with pytest.raises(RuntimeError, match="KERAS_BACKEND=tensorflow"):
            call()


@pytest.mark.parametrize("name", LAYERS)
def test_in_a_dataset(name):
    layer = getattr(fused_rnn, name)(UNITS)
    expected = layer(data())
    dataset = tf.data.Dataset.from_tensor_slices(data()).batch(2).map(
        layer, num_parallel_calls=2
    )
    np.testing.assert_array_equal(np.concatenate(list(dataset)), expected)
