"""The block cells as Keras cells: arguments, and the two layers' weights."""

import dataclasses
import functools
from collections.abc import Callable

import keras
import numpy as np
import pytest

import fused_rnn
import helpers_keras
from fused_rnn import weights

BATCH, STEPS, INPUTS, UNITS = 4, 6, 5, 7


def tolerance(policy, values=1.0):
    return helpers_keras.tolerance(policy, INPUTS + UNITS, STEPS, values)


def assert_close(actual, expected, policy="float32"):
    helpers_keras.assert_close(
        actual, expected, policy, INPUTS + UNITS, STEPS
    )


def data(seed=0, shape=(BATCH, STEPS, INPUTS)):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A cell of ours and Keras' of the same function."""

    cell: type
    stock: Callable
    stock_cell: Callable
    states: int
    to_block: Callable
    to_keras: Callable  # of gradients


KINDS = {
    "gru": Kind(
        fused_rnn.GRUBlockCell,
        functools.partial(keras.layers.GRU, reset_after=False),
        functools.partial(keras.layers.GRUCell, reset_after=False), 1,
        weights.keras_to_block_cell, weights.block_cell_to_keras,
    ),
    "lstm": Kind(
        fused_rnn.LSTMBlockCell, keras.layers.LSTM, keras.layers.LSTMCell, 2,
        weights.keras_to_lstm_block_cell,
        functools.partial(weights.lstm_block_cell_to_keras, forget_bias=0.0),
    ),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


def pair(kind, policy="float32", seed=None, inputs=INPUTS, cell_options=None,
         **options):
    """Keras' layer and ours with the same weights, random biases included."""
    cell_options = cell_options or {}
    stock = kind.stock(
        UNITS, dtype=policy, seed=seed,
        # Orthogonal matrices cannot be drawn in bfloat16.
        recurrent_initializer="glorot_uniform", **cell_options, **options,
    )
    fused = keras.layers.RNN(
        kind.cell(UNITS, dtype=policy, seed=seed, **cell_options),
        dtype=policy, **options,
    )
    for layer in (stock, fused):
        layer.build((BATCH, STEPS, inputs))
    rng = np.random.default_rng(1)
    values = [rng.uniform(-0.5, 0.5, w.shape) for w in stock.weights[:3]]
    map_weights(kind, stock, fused, values)
    return stock, fused


def map_weights(kind, stock, fused, values):
    for variable, value in zip(stock.trainable_weights, values):
        variable.assign(value)
    for variable, value in zip(fused.trainable_weights, kind.to_block(*values)):
        variable.assign(value)


def as_keras(kind, gradients):
    """Gradients of the block cell's weights in Keras' layout."""
    return kind.to_keras(
        *(np.asarray(keras.ops.cast(g, "float64")) for g in gradients)
    )
