"""What people train with, on fused and on Keras' own layers side by side."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
import helpers_keras  # noqa: E402
from helpers import run_python  # noqa: E402

ROWS, STEPS, INPUTS, UNITS = 8, 5, 3, 6


def data(seed=0, shape=(ROWS, STEPS, INPUTS)):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")


def assert_close(actual, expected, updates):
    """Each update differs by no more than a whole pass may."""
    for a, e in zip(actual, expected, strict=True):
        helpers_keras.assert_close(
            np.array(a), np.array(e), "float32", INPUTS + UNITS,
            STEPS * updates,
        )


def pair(name, model_class=keras.Sequential):
    """Two equal models, the first fused and the second on Keras' layers."""
    models = []
    for seed in (1, 1):
        keras.utils.set_random_seed(seed)
        models.append(model_class([
            keras.Input((None, INPUTS)),
            getattr(keras.layers, name)(
                UNITS, kernel_regularizer="l2", activity_regularizer="l1",
                recurrent_constraint=keras.constraints.MaxNorm(0.5),
            ),
            keras.layers.Dense(1),
        ]))
    fused_rnn.fuse(models[0], verbose=False)
    assert type(models[0].layers[0]) is getattr(fused_rnn, name)
    return models


def optimizer(**options):
    return keras.optimizers.SGD(0.1, momentum=0.5, **options)


@pytest.mark.parametrize("name", helpers_keras.LAYERS)
@pytest.mark.parametrize("options", [
    dict(clipnorm=0.05, use_ema=True), dict(gradient_accumulation_steps=2),
], ids=lambda options: next(iter(options)))
def test_fit(options, name, tmp_path):
    histories, weights = [], []
    for model in pair(name):
        fused = type(model.layers[0]) is getattr(fused_rnn, name)
        # Eager, since a graph of Keras' loop takes seconds to trace.
        model.compile(optimizer(**options), "mse", run_eagerly=not fused)
        best = tmp_path / f"{fused}.keras"
        history = model.fit(
            data(), data(1, (ROWS, 1)), 4, epochs=3, verbose=0, shuffle=False,
            validation_data=(data(2), data(3, (ROWS, 1))),
            callbacks=[
                keras.callbacks.EarlyStopping(
                    patience=0, min_delta=1.0, restore_best_weights=True
                ),
                keras.callbacks.ModelCheckpoint(best, save_best_only=True),
                keras.callbacks.LearningRateScheduler(lambda _, lr: lr / 2),
                keras.callbacks.TerminateOnNaN(),
            ],
        )
        histories.append([history.history[k] for k in sorted(history.history)])
        weights.append(model.get_weights())
        saved = keras.models.load_model(best)
        assert type(saved.layers[0]) is type(model.layers[0])
        norms = np.linalg.norm(model.layers[0].cell.recurrent_kernel, axis=0)
        assert norms.max() <= 0.5 + 1e-6
    # No epoch improves by 1: stopped after the second.
    assert len(histories[0][0]) == 2
    assert_close(histories[0], histories[1], updates=4)
    assert_close(*weights, updates=4)


class TwoLosses(keras.Sequential):
    """A train_step of its own, with two gradients from one tape."""

    def train_step(self, batch):
        x, y = batch
        with tf.GradientTape(persistent=True) as tape:
            predicted = self(x, training=True)
            near = tf.reduce_mean(tf.square(y - predicted))
            small = tf.reduce_mean(tf.square(predicted))
        variables = self.trainable_variables
        first = tape.gradient(near, variables)
        second = tape.gradient(small, variables)
        self.optimizer.apply([a + 0.1 * b for a, b in zip(first, second)],
                             variables)
        return {"near": near}


@pytest.mark.parametrize("name", helpers_keras.LAYERS)
def test_train_step_with_persistent_tape(name):
    weights = []
    for model in pair(name, TwoLosses):
        fused = type(model.layers[0]) is getattr(fused_rnn, name)
        model.compile(optimizer(), run_eagerly=not fused)
        model.fit(data(), data(1, (ROWS, 1)), 4, epochs=2, verbose=0,
                  shuffle=False)
        weights.append(model.get_weights())
    assert_close(*weights, updates=4)


MIRRORED = """
import sys
import numpy as np, tensorflow as tf, keras, fused_rnn
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
files = np.load(sys.argv[1])
x, y = files["x"], files["y"]

def build():
    model = keras.Sequential([
        keras.Input((None, x.shape[2])),
        *(rnn(6, return_sequences=rnn is not keras.layers.SimpleRNN)
          for rnn in (keras.layers.GRU, keras.layers.LSTM,
                      keras.layers.SimpleRNN)),
        keras.layers.Dense(1)])
    weights = model.get_weights()
    model.set_weights([files[f"w{i}"] for i in range(len(weights))])
    model.compile(keras.optimizers.SGD(0.1, momentum=0.5), "mse")
    return model

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
assert strategy.num_replicas_in_sync == 2
with strategy.scope():
    both = build()
one = fused_rnn.fuse(build())
# Outside of the scope, after compile.
assert [type(layer) for layer in fused_rnn.fuse(both).layers[:3]] == [
    fused_rnn.GRU, fused_rnn.LSTM, fused_rnn.SimpleRNN]
for model in (both, one):
    model.fit(x, y, 4, epochs=2, shuffle=False, verbose=0)
np.savez(sys.argv[2], **{
    f"{name}{i}": w for name, m in (("both", both), ("one", one))
    for i, w in enumerate(m.get_weights())})
"""


def test_mirrored_strategy(tmp_path):
    """On one of each layer."""
    rnns = [getattr(fused_rnn, name) for name in helpers_keras.LAYERS]
    keras.utils.set_random_seed(1)
    model = keras.Sequential([
        keras.Input((None, INPUTS)),
        *(rnn(UNITS, return_sequences=rnn is not rnns[-1]) for rnn in rnns),
        keras.layers.Dense(1),
    ])
    np.savez(
        tmp_path / "in.npz", x=data(), y=data(1, (ROWS, 1)),
        **{f"w{i}": w for i, w in enumerate(model.get_weights())},
    )
    run_python(MIRRORED, tmp_path / "in.npz", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    for i, before in enumerate(model.get_weights()):
        assert_close([out[f"both{i}"]], [out[f"one{i}"]], updates=4)
        assert np.abs(out[f"both{i}"] - before).max() > 1e-4
