"""Models as users write them, and what of them is fused."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import fused_rnn
import helpers_keras

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


# Each model with its inputs and the number of layers to replace; rnn is the
# layer that it uses.
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
