"""The models of the demo, and how they are trained, asked and kept."""

from __future__ import annotations

import dataclasses
import signal
import statistics
import time

import keras
import numpy as np
import tensorflow as tf

import fused_rnn
from fused_rnn.cli._terminal import Progress


def build(fused, symbols, embedding, units, reset_after, learning_rate):
    """A character-level language model: [B, T] numbers to [B, T, symbols].

    The layers are called "embedding", "gru" and "dense".
    """
    gru = fused_rnn.GRU if fused else keras.layers.GRU
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(symbols, embedding, name="embedding"),
            gru(
                units, reset_after=reset_after, return_sequences=True,
                name="gru",
            ),
            keras.layers.Dense(symbols, name="dense"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(learning_rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


@dataclasses.dataclass
class Run:
    """What a training was like: loss and seconds of every step."""

    losses: list[float] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)

    def step_seconds(self):
        """The median step. The first one traces the graph: not counted."""
        return statistics.median(self.seconds[1:] or self.seconds)


class Interrupt:
    """Ctrl-C as a wish: `wanted` turns true, and the step is finished.

    A second Ctrl-C does not wait: it raises KeyboardInterrupt.
    """

    def __init__(self):
        self.wanted = False

    def __enter__(self):
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_):
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, *_):
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


class _Watch(keras.callbacks.Callback):
    """Notes every step, shows it, and ends training when asked to."""

    def __init__(self, run, characters, progress, interrupt):
        super().__init__()
        self._run = run
        self._characters = characters
        self._progress = progress
        self._interrupt = interrupt

    def on_train_batch_begin(self, batch, logs=None):
        # Otherwise the loss that Keras logs is the mean of all steps so far.
        self.model.reset_metrics()
        self._start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self._run.losses.append(float(logs["loss"]))
        self._run.seconds.append(time.perf_counter() - self._start)
        recent = self._run.seconds[1:][-20:] or self._run.seconds
        rate = self._characters * len(recent) / sum(recent)
        self._progress.update(
            batch + 1,
            f"loss {self._run.losses[-1]:.4f}  {rate:>9,.0f} characters/s",
        )
        if self._interrupt.wanted:
            self.model.stop_training = True


def train(model, batches, shape, steps, interrupt):
    """Trains for that many steps or until interrupted; returns a Run.

    batches yields pairs of arrays of that shape, [batch, length].
    """
    run = Run()
    progress = Progress(steps)
    spec = tf.TensorSpec(shape, tf.int32)
    dataset = tf.data.Dataset.from_generator(
        lambda: batches, output_signature=(spec, spec)
    ).prefetch(2)
    characters = shape[0] * shape[1]
    try:
        model.fit(
            dataset, steps_per_epoch=steps, shuffle=False, verbose=0,
            callbacks=[_Watch(run, characters, progress, interrupt)],
        )
    finally:
        progress.close()
    return run


def sample(model, prompt, length, temperature, seed):
    """Continues a prompt of numbers by `length` more, one step at a time.

    Each next number is drawn with the probability that the model gives it,
    made bolder by a temperature below 1.
    """
    embedding, gru, dense = (
        model.get_layer(name) for name in ("embedding", "gru", "dense")
    )

    @tf.function
    def step(token, h):
        h, _ = gru.cell(embedding(token), h)
        return dense(h)[0], h

    rng = np.random.default_rng(seed)
    (h,) = gru.cell.get_initial_state(1)
    tokens = list(prompt)
    for i in range(len(prompt) + length - 1):
        logits, h = step(tf.constant([tokens[i]], tf.int32), h)
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
