"""The demo's model, and what trains it: fused_rnn, Keras or plain NumPy.

An engine's trainer has two methods: `step(inputs, targets)` does one step of
training and returns the loss before it, `model()` gives the Keras model with
the weights as they are by then. Inputs and targets are numbers [B, T], the
loss is the mean over all of them.
"""

from __future__ import annotations

import dataclasses
from typing import Callable

import keras
import numpy as np
import tensorflow as tf

import fused_rnn
from fused_rnn import reference, weights

# What the layers are called. The engine shows in the class of the second.
EMBEDDING, RECURRENT, DENSE = "embedding", "recurrent", "dense"


@dataclasses.dataclass(frozen=True)
class _Cell:
    """One recurrent layer in each engine."""

    fused: type
    keras: type
    numpy: type  # the whole model, a reference.CharacterModel
    to_keras: Callable  # the NumPy model's weights to the layer's
    from_keras: Callable


_CELLS = {
    "gru": _Cell(
        fused_rnn.GRU, keras.layers.GRU, reference.CharacterGru,
        weights.textbook_gru_to_keras, weights.keras_to_textbook_gru,
    ),
    "lstm": _Cell(
        fused_rnn.LSTM, keras.layers.LSTM, reference.CharacterLstm,
        weights.textbook_lstm_to_keras, weights.keras_to_textbook_lstm,
    ),
    "rnn": _Cell(
        fused_rnn.SimpleRNN, keras.layers.SimpleRNN, reference.CharacterRnn,
        weights.textbook_rnn_to_keras, weights.keras_to_textbook_rnn,
    ),
}


@dataclasses.dataclass(frozen=True)
class Model:
    """A character-level language model: embedding, recurrent layer, dense.

    Attributes:
      cell: "gru", "lstm" or "rnn".
      symbols: V, how many characters there are.
      embedding: numbers that stand for a character; 0 for V, one-hot.
      units: of the recurrent layer.
      reset_after: of a GRU.
      learning_rate: Adam's.
    """

    cell: str
    symbols: int
    embedding: int
    units: int
    reset_after: bool
    learning_rate: float

    def build(self, fused=True):
        """As a compiled Keras model, [B, T] numbers to [B, T, V] logits."""
        kinds = _CELLS[self.cell]
        gru = self.cell == "gru"
        options = {"reset_after": self.reset_after} if gru else {}
        embedding = keras.layers.Embedding(
            self.symbols, self.embedding or self.symbols, name=EMBEDDING
        )
        model = keras.Sequential([
            keras.Input((None,), dtype="int32"),
            embedding,
            (kinds.fused if fused else kinds.keras)(
                self.units, return_sequences=True, name=RECURRENT, **options
            ),
            keras.layers.Dense(self.symbols, name=DENSE),
        ])
        if not self.embedding:
            # A row of the identity for each character is one-hot input.
            embedding.set_weights([np.eye(self.symbols)])
            embedding.trainable = False
        model.compile(
            keras.optimizers.Adam(self.learning_rate),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        return model


class KerasTrainer:
    """Trains a Keras model, whoever computes its recurrent layer."""

    def __init__(self, model):
        self._model = model

    def step(self, inputs, targets):
        # Otherwise the loss that Keras returns is the mean of all steps so far.
        self._model.reset_metrics()
        logs = self._model.train_on_batch(inputs, targets, return_dict=True)
        return float(logs["loss"])

    def model(self):
        return self._model


class NumpyTrainer:
    """Trains `reference`'s network in float64, from a Keras model's weights."""

    def __init__(self, model, description):
        self._model = model
        self._cell = _CELLS[description.cell]
        self._network = self._cell.numpy(description.symbols, description.units)
        recurrent, dense = self._layers()
        converted = self._cell.from_keras(*recurrent.get_weights())
        converted.update(zip(self._network.output, dense.get_weights()))
        self._network.weights = {
            name: np.array(value, np.float64)
            for name, value in converted.items()
        }
        self._adam = reference.Adam(description.learning_rate)

    def _layers(self):
        return [self._model.get_layer(name) for name in (RECURRENT, DENSE)]

    def step(self, inputs, targets):
        loss, gradients, _ = self._network.loss(inputs, targets)
        self._adam.update(self._network.weights, gradients)
        return float(loss)

    def model(self):
        recurrent, dense = self._layers()
        trained = self._network.weights
        recurrent.set_weights(self._cell.to_keras(trained))
        dense.set_weights([trained[name] for name in self._network.output])
        # A file holds the optimizer too, which has nothing before a step.
        self._model.optimizer.build(self._model.trainable_variables)
        return self._model


def trainer(engine, description, initial):
    """What trains the described model with that engine, from those weights.

    Args:
      engine: "fused", "keras" or "numpy".
      description: a Model.
      initial: the weights of a model that it has built.
    """
    model = description.build(fused=engine != "keras")
    model.set_weights(initial)
    if engine == "numpy":
        return NumpyTrainer(model, description)
    return KerasTrainer(model)


def sample(model, prompt, length, temperature, seed):
    """Continues a prompt of numbers by `length` more, one step at a time.

    Each next number is drawn with the probability that the model gives it,
    made bolder by a temperature below 1.
    """
    embedding, recurrent, dense = (
        model.get_layer(name) for name in (EMBEDDING, RECURRENT, DENSE)
    )

    @tf.function
    def step(token, states):
        h, states = recurrent.cell(embedding(token), states)
        return dense(h)[0], states

    rng = np.random.default_rng(seed)
    states = recurrent.cell.get_initial_state(1)
    tokens = list(prompt)
    for i in range(len(prompt) + length - 1):
        logits, states = step(tf.constant([tokens[i]], tf.int32), states)
        if i + 1 == len(tokens):
            scaled = np.asarray(logits, np.float64) / temperature
            chances = np.exp(scaled - scaled.max())
            tokens.append(rng.choice(len(chances), p=chances / chances.sum()))
    return tokens


def save_and_load(model, path, batch):
    """Saves as .keras, loads it again, and returns the largest difference
    between the predictions of the two."""
    model.save(path)
    loaded = keras.models.load_model(path)
    before, after = (
        m.predict(batch, verbose=0).astype(np.float64) for m in (model, loaded)
    )
    return float(np.max(np.abs(before - after)))
