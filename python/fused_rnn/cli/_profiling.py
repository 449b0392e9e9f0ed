"""What `profile` times: whole models and the recurrent layers in them."""

from __future__ import annotations

import functools
import importlib
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

from fused_rnn import _fuse
from fused_rnn.bench import harness, worker
from fused_rnn.layers._kinds import KINDS, cells_of

MODES = ("predict", "train")


class ModelError(Exception):
    """The model cannot be profiled; the message says why."""


def load(options):
    """The model of the options, without its loss and optimizer.

    Raises:
      ModelError: what is to be imported cannot be.
      ValueError, TypeError, OSError: Keras cannot load it.
    """
    own = {}
    for name in options.imports:
        own |= {
            key: value for key, value in vars(_imported(name)).items()
            if callable(value)
        }
    return keras.models.load_model(
        options.model, custom_objects=own, compile=False,
        safe_mode=not options.unsafe,
    )


@functools.cache
def _imported(name):
    """A module by its name, here or installed, or by its file."""
    path = pathlib.Path(name)
    folder = path.parent if path.suffix == ".py" else pathlib.Path()
    module = path.stem if path.suffix == ".py" else name
    sys.path.insert(0, str(folder.absolute()))
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ModelError(f"{name} cannot be imported: {error}") from error
    finally:
        sys.path.pop(0)


def example(model, batch, steps, seed=0):
    """Arrays that the model takes: its inputs with unknown sizes filled in.

    Whole numbers are below what the model's smallest Embedding knows.

    Raises:
      ModelError: the model does not say what it takes, or takes text.
    """
    # A Sequential model keeps one with inputs inside.
    structure = getattr(getattr(model, "_functional", None) or model, "input", None)
    if structure is None:
        raise ModelError("the model does not say the shape of its inputs")
    rng = np.random.default_rng(seed)
    most = min(
        (layer.input_dim for layer in model._flatten_layers()
         if isinstance(layer, keras.layers.Embedding)), default=2,
    )

    def draw(spec):
        first, *others = spec.shape
        sizes = [first or batch, *(size or steps for size in others)]
        if "int" in spec.dtype:
            return tf.constant(rng.integers(0, most, sizes), spec.dtype)
        if "float" not in spec.dtype:
            raise ModelError(f"it has an input of type {spec.dtype}")
        return tf.cast(rng.standard_normal(sizes), spec.dtype)

    return tf.nest.map_structure(draw, structure)


def recurrent_layers(model):
    """Layers of the model that run a fusable cell over a sequence."""
    return [
        layer for _, layer, _ in _fuse._walk(model)
        if isinstance(layer, keras.layers.RNN) and any(
            isinstance(cell, tuple(KINDS)) for cell in cells_of(layer.cell)
        )
    ]


def calls_of(model, inputs):
    """[(layer, arguments, options)] of each while the model runs once."""
    calls = []
    layers = recurrent_layers(model)

    def record(layer, call):
        @functools.wraps(call)
        def recorded(*arguments, **options):
            calls.append((layer, arguments, options))
            return call(*arguments, **options)

        return recorded

    originals = [layer.call for layer in layers]
    try:
        for layer, call in zip(layers, originals):
            layer.call = record(layer, call)
        model(inputs, training=False)
    finally:
        for layer in layers:
            del layer.call  # The class's own again.
    return calls


def _gradients(outputs, tape, sources):
    """Of the sum of squares of the outputs."""
    with tape:
        loss = tf.add_n([
            tf.reduce_sum(tf.square(tf.cast(output, tf.float32)))
            for output in tf.nest.flatten(outputs)
        ])
    return tape.gradient(loss, sources)


def steps_of(model, inputs):
    """{mode: (a step of the model, one of its recurrent layers alone or None)}.

    A train step is the forward pass in training mode and all gradients, of
    the sum of squares of the outputs; the loss and the optimizer of a model
    cost the same with and without fused layers. The recurrent layers get what they
    got inside the model, and hand a gradient on as they do there.
    """
    calls = calls_of(model, inputs)
    sequences = [arguments[0] for _, arguments, _ in calls]
    weights = list({
        id(v): v.value for layer, *_ in calls for v in layer.trainable_variables
    }.values())

    def whole(x, training):
        return model(x, training=training)

    def layers(x, training):
        return [
            layer(sequence, *others, **{**options, "training": training})
            for sequence, (layer, (_, *others), options) in zip(x, calls)
        ]

    def pair(run, x, sources, watched):
        def predict(x):
            return run(x, False)

        def train(x):
            with tf.GradientTape() as tape:
                tape.watch(x if watched else [])
                outputs = run(x, True)
            return _gradients(
                outputs, tape, [*(x if watched else []), *sources]
            )

        # Arguments, since a graph may compute with constants in advance.
        return [
            functools.partial(tf.function(step, autograph=False), x)
            for step in (predict, train)
        ]

    of_model = pair(
        whole, inputs, [v.value for v in model.trainable_variables], False
    )
    of_layers = [None, None]
    if calls:
        of_layers = pair(layers, sequences, weights, True)
    return dict(zip(MODES, zip(of_model, of_layers)))


class Here:
    """A worker in this very process."""

    def __init__(self):
        self.calls = {}

    def ask(self, command, key, budget, **_):
        assert command == "run"
        return worker.measure(self.calls[key], budget)


def entries_of(models, inputs):
    """What harness.interleave runs: each model, mode and part."""
    here = Here()
    entries = []
    for name, model in models.items():
        for mode, parts in steps_of(model, inputs).items():
            for part, call in zip(("model", "recurrent"), parts):
                if call is not None:
                    key = len(entries)
                    here.calls[key] = call
                    entries.append(harness.Entry(
                        here, key, name=name, mode=mode, part=part
                    ))
    return entries


def difference(models, inputs):
    """Of their predictions from the first one's, the largest, relative to its
    norm."""
    predictions = [
        tf.nest.flatten(model(inputs, training=False)) for model in models
    ]
    worst = 0.0
    for first, *others in zip(*predictions):
        first, *others = (
            np.asarray(tf.cast(value, tf.float64)) for value in (first, *others)
        )
        norm = np.linalg.norm(first) or 1.0
        for other in others:
            worst = max(worst, np.linalg.norm(first - other) / norm)
    return float(worst)
