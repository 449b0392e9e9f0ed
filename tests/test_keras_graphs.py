"""What becomes of the Keras layers in graphs: one op each, and no XLA."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
from helpers_keras import (  # noqa: E402
    BATCH,
    INPUTS,
    STEPS,
    UNITS,
    assert_same,
    data,
)

# A layer or cell, what it is called with, and the ops that it may consist of.
SEQUENCE = tf.TensorSpec([None, None, INPUTS])
STEP = tf.TensorSpec([None, INPUTS]), tf.TensorSpec([None, UNITS])
ONE_OP = {
    "GRU": (fused_rnn.GRU(UNITS), (SEQUENCE,), "FusedRNN>GRU", 1),
    "RNN": (
        fused_rnn.RNN([keras.layers.GRUCell(n) for n in (4, 3, 2)]),
        (SEQUENCE,), "FusedRNN>GRU", 3,
    ),
    "GRUCell": (fused_rnn.GRUCell(UNITS), STEP, "FusedRNN>GRU", 1),
    "GRUBlockCell": (
        fused_rnn.GRUBlockCell(UNITS), STEP, "FusedRNN>GRUBlockCell", 1,
    ),
}


@pytest.mark.parametrize("name", sorted(ONE_OP))
def test_one_op_and_no_loop(name):
    layer, specs, kind, count = ONE_OP[name]
    graph = tf.function(layer).get_concrete_function(*specs).graph
    kinds = [op.type for op in graph.get_operations()]
    assert kinds.count(kind) == count
    assert not {"MatMul", "While", "StatelessWhile"} & set(kinds)


def test_compile_does_not_choose_xla(monkeypatch):
    # Without a GPU Keras never chooses XLA, so pretend that there is one.
    device = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda *_: [device]
    )
    chosen = []
    for gru in (keras.layers.GRU, fused_rnn.GRU):
        # Keras chooses XLA where cuDNN is out of the question.
        model = keras.Sequential([
            keras.Input((None, INPUTS)),
            keras.layers.Bidirectional(gru(UNITS, reset_after=False)),
        ])
        model.compile("sgd", "mse", jit_compile="auto")
        chosen.append(model.jit_compile)
    assert chosen == [True, False]


def test_xla_that_was_asked_for():
    """Keras says that it goes without; TensorFlow names what it lacks."""
    layer = fused_rnn.GRU(UNITS)
    model = keras.Sequential([
        keras.Input((STEPS, INPUTS)), keras.Sequential([layer]),
    ])
    with pytest.warns(UserWarning, match="doesn't support `jit_compile=True`"):
        model.compile("sgd", "mse", jit_compile=True)
    assert model.jit_compile is False
    model.fit(data(), np.ones((BATCH, UNITS)), verbose=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="FusedRNN>GRU"):
        tf.function(layer, jit_compile=True)(data())
    assert_same(layer(data()), tf.function(layer)(data()))


def test_keras_on_another_backend(monkeypatch):
    stock = keras.layers.GRU(UNITS)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    for call in (
        lambda: fused_rnn.GRU(UNITS), lambda: fused_rnn.GRUCell(UNITS),
        lambda: fused_rnn.RNN(stock.cell), lambda: fused_rnn.fuse(stock),
        lambda: fused_rnn.GRUBlockCell(UNITS),
        lambda: fused_rnn.fused_scope().__enter__(),
    ):
        with pytest.raises(RuntimeError, match="KERAS_BACKEND=tensorflow"):
            call()


def test_in_a_dataset():
    layer = fused_rnn.GRU(UNITS)
    expected = layer(data())
    dataset = tf.data.Dataset.from_tensor_slices(data()).batch(2).map(
        layer, num_parallel_calls=2
    )
    np.testing.assert_array_equal(np.concatenate(list(dataset)), expected)
