"""GRUBlockCell as a Keras cell, against keras.layers.GRU(reset_after=False)."""

import json

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
import helpers_keras  # noqa: E402
from fused_rnn import weights  # noqa: E402
from helpers import run_python  # noqa: E402

BATCH, STEPS, INPUTS, UNITS = 4, 6, 5, 7
HOLES = np.array(
    [[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0], [0, 0, 1, 0, 1, 1],
     [0, 0, 0, 0, 0, 0]], bool,
)


def tolerance(policy, values=1.0):
    return helpers_keras.tolerance(policy, INPUTS + UNITS, STEPS, values)


def assert_close(actual, expected, policy="float32"):
    helpers_keras.assert_close(
        actual, expected, policy, INPUTS + UNITS, STEPS
    )


def data(seed=0, shape=(BATCH, STEPS, INPUTS)):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")


def pair(policy="float32", seed=None, inputs=INPUTS, cell_options=None,
         **options):
    """Keras' layer and ours with the same weights, random biases included."""
    cell_options = cell_options or {}
    stock = keras.layers.GRU(
        UNITS, reset_after=False, dtype=policy, seed=seed,
        # Orthogonal matrices cannot be drawn in bfloat16.
        recurrent_initializer="glorot_uniform", **cell_options, **options,
    )
    fused = keras.layers.RNN(
        fused_rnn.GRUBlockCell(UNITS, dtype=policy, seed=seed, **cell_options),
        dtype=policy, **options,
    )
    for layer in (stock, fused):
        layer.build((BATCH, STEPS, inputs))
    rng = np.random.default_rng(1)
    values = [rng.uniform(-0.5, 0.5, w.shape) for w in stock.weights[:3]]
    map_weights(stock, fused, values)
    return stock, fused


def map_weights(stock, fused, values):
    for variable, value in zip(stock.trainable_weights, values):
        variable.assign(value)
    block = weights.keras_to_block_cell(*values)
    for variable, value in zip(fused.trainable_weights, block):
        variable.assign(value)


def as_keras(gradients):
    """Gradients of the block cell's weights in Keras' layout."""
    return weights.block_cell_to_keras(
        *(np.asarray(keras.ops.cast(g, "float64")) for g in gradients)
    )


@pytest.mark.parametrize("policy", sorted(helpers_keras.EPS))
@pytest.mark.parametrize("mask", [None, HOLES], ids=["unmasked", "holes"])
@pytest.mark.parametrize("go_backwards", [False, True])
def test_forward_and_gradients(policy, mask, go_backwards):
    layers = pair(
        policy, go_backwards=go_backwards, return_sequences=True,
        return_state=True,
    )
    x, h0 = tf.Variable(data()), tf.Variable(data(2, (BATCH, UNITS)))
    d_outputs = data(3, (BATCH, STEPS, UNITS))
    results = []
    for layer in layers:
        with tf.GradientTape() as tape:
            outputs, state = layer(x, initial_state=h0, mask=mask)
            loss = tf.reduce_sum(tf.cast(outputs, x.dtype) * d_outputs)
            loss += tf.reduce_sum(tf.cast(state, x.dtype))
        variables = [x, h0] + [v.value for v in layer.trainable_weights]
        results.append((outputs, state, tape.gradient(loss, variables)))
    (outputs, state, gradients), (our_outputs, our_state, ours) = results
    assert our_outputs.dtype == outputs.dtype
    assert_close(our_outputs, outputs, policy)
    assert_close(our_state, state, policy)
    for gradient, expected in zip(
        [*ours[:2], *as_keras(ours[2:])], gradients, strict=True
    ):
        assert_close(gradient, expected, policy)


@pytest.mark.parametrize("policy", ["float32", "float64"])
def test_training_follows_keras(policy):
    """The same losses and weights over several optimiser steps of fit."""
    models = []
    for layer in pair(policy):
        model = keras.Sequential(
            [keras.Input((None, INPUTS)), layer,
             keras.layers.Dense(3, kernel_initializer="ones", dtype=policy)]
        )
        model.compile(
            keras.optimizers.SGD(0.05, momentum=0.9), "mse", metrics=["mae"],
            # A graph of Keras' loop and its gradient takes seconds to trace.
            run_eagerly=isinstance(layer, keras.layers.GRU),
        )
        models.append(model)
    x, y = data(4, (5 * BATCH, STEPS, INPUTS)), data(5, (5 * BATCH, 3))
    stock, fused = (
        (
            model.fit(
                x, y, BATCH, epochs=2, shuffle=False, verbose=0
            ).history,
            model.predict(x, BATCH, verbose=0),
            model.evaluate(x, y, BATCH, verbose=0),
            model.layers[0].get_weights(),
        )
        for model in models
    )
    # Ten steps, each with the error of one gradient.
    for name, values in stock[0].items():
        np.testing.assert_allclose(
            fused[0][name], values, rtol=10 * tolerance(policy)
        )
    np.testing.assert_allclose(
        fused[1], stock[1], rtol=0, atol=10 * tolerance(policy)
    )
    np.testing.assert_allclose(
        fused[2], stock[2], rtol=10 * tolerance(policy)
    )
    for value, expected in zip(
        weights.block_cell_to_keras(*fused[3]), stock[3], strict=True
    ):
        np.testing.assert_allclose(
            value, expected, rtol=0, atol=10 * tolerance(policy)
        )
    assert stock[0]["loss"][1] < stock[0]["loss"][0]


@pytest.mark.parametrize("options", [
    dict(dropout=0.4), dict(recurrent_dropout=0.3),
    dict(dropout=0.4, recurrent_dropout=0.3), dict(dropout=1.0),
], ids=str)
def test_dropout_draws_the_masks_of_keras(options):
    """With the same seed both layers drop the same values."""
    stock, fused = pair(seed=7, cell_options=options, return_sequences=True)
    x = tf.Variable(data())
    plain = fused(x, training=False)
    assert_close(plain, stock(x, training=False))
    results = []
    for layer in (stock, fused):
        with tf.GradientTape() as tape:
            outputs = layer(x, training=True)
            loss = tf.reduce_sum(outputs)
        variables = [x] + [v.value for v in layer.trainable_weights]
        results.append((outputs, tape.gradient(loss, variables)))
    (outputs, gradients), (our_outputs, ours) = results
    assert_close(our_outputs, outputs)
    for gradient, expected in zip(
        [ours[0], *as_keras(ours[1:])], gradients, strict=True
    ):
        assert_close(gradient, expected)
    if options != dict(dropout=1.0):  # which Keras takes as none
        assert np.abs(our_outputs - plain).max() > 0.01
        assert np.abs(fused(x, training=True) - our_outputs).max() > 0.01


def test_bidirectional():
    stock, fused = (
        keras.layers.Bidirectional(layer)
        for layer in pair(return_sequences=True)
    )
    for layer in (stock, fused):
        layer.build((None, None, INPUTS))
    rng = np.random.default_rng(6)
    for direction in ("forward_layer", "backward_layer"):
        values = [
            rng.uniform(-0.5, 0.5, w.shape)
            for w in getattr(stock, direction).trainable_weights
        ]
        map_weights(
            getattr(stock, direction), getattr(fused, direction), values
        )
    assert_close(fused(data(), mask=HOLES), stock(data(), mask=HOLES))


def test_stacked_cells():
    cells = (
        [keras.layers.GRUCell(n, reset_after=False) for n in (UNITS, 3)],
        [fused_rnn.GRUBlockCell(n) for n in (UNITS, 3)],
    )
    stock, fused = (
        keras.layers.RNN(c, return_sequences=True, return_state=True)
        for c in cells
    )
    for layer in (stock, fused):
        layer.build((None, None, INPUTS))
    for cell, ours in zip(*cells):
        map_weights(cell, ours, cell.get_weights())
    outputs, *states = fused(data(), mask=HOLES)
    expected, *expected_states = stock(data(), mask=HOLES)
    assert_close(outputs, expected)
    for state, other in zip(states, expected_states, strict=True):
        assert_close(state[0], other[0])


def test_stateful():
    stock, fused = pair(stateful=True)
    first = fused(data())
    assert_close(first, stock(data()))
    second = fused(data())
    assert_close(second, stock(data()))
    assert np.abs(second - first).max() > 0.01
    fused.reset_state()
    np.testing.assert_array_equal(fused(data()), first)


def test_loop_of_ones_own():
    """States as a tensor or as a list, in eager and in a tf.function."""
    _, layer = pair(return_sequences=True)
    cell, x = layer.cell, data()
    (h,) = cell.get_initial_state(BATCH)
    assert h.shape == (BATCH, UNITS) and h.dtype == "float32"
    states, step = [h], tf.function(cell)
    for t in range(STEPS):
        h, again = cell(x[:, t], h)
        np.testing.assert_array_equal(h, again)
        output, states = step(x[:, t], states)
        assert_close(output, h)
        np.testing.assert_array_equal(output, states[0])
    assert_close(h, layer(x)[:, -1])


def test_golden_values():
    """Keras' own published test of reset_after=False."""
    layer = keras.layers.RNN(
        fused_rnn.GRUBlockCell(
            3,
            **{
                f"{weight}_initializer": keras.initializers.Constant(0.03)
                for weight in ("gates_bias", "candidate_bias")
            },
        )
    )
    layer.build((3, 6, 4))
    block = weights.keras_to_block_cell(
        np.full((4, 9), 0.01), np.full((3, 9), 0.02), np.full(9, 0.03)
    )
    layer.cell.gates_kernel.assign(block.gates_kernel)
    layer.cell.candidate_kernel.assign(block.candidate_kernel)
    x = np.arange(72, dtype="float32").reshape(3, 6, 4)
    expected = [[0.51447756] * 3, [0.6426879] * 3, [0.40208288] * 3]
    np.testing.assert_allclose(
        layer(x), expected, rtol=0, atol=tolerance("float32")
    )


def test_weights_are_those_of_tf1():
    cell = fused_rnn.GRUBlockCell(UNITS)
    cell.build((None, INPUTS))
    assert {w.name: tuple(w.shape) for w in cell.weights[:4]} == {
        "gates_kernel": (INPUTS + UNITS, 2 * UNITS),
        "gates_bias": (2 * UNITS,),
        "candidate_kernel": (INPUTS + UNITS, UNITS),
        "candidate_bias": (UNITS,),
    }
    gates, gates_bias, candidate, candidate_bias = cell.get_weights()[:4]
    np.testing.assert_array_equal(gates_bias, 1)
    np.testing.assert_array_equal(candidate_bias, 0)
    # Two draws, not the same numbers twice.
    assert not np.intersect1d(gates, candidate).size


def test_regularizers_and_constraints():
    cell = fused_rnn.GRUBlockCell(
        UNITS,
        gates_kernel_regularizer=keras.regularizers.L2(0.1),
        candidate_bias_regularizer="l1",
        candidate_bias_initializer="ones",
        candidate_kernel_constraint=keras.constraints.MaxNorm(0.5),
        gates_bias_constraint="non_neg",
    )
    model = keras.Sequential(
        [keras.Input((STEPS, INPUTS)), keras.layers.RNN(cell)]
    )
    expected = 0.1 * np.sum(np.square(cell.gates_kernel)) + 0.01 * UNITS
    np.testing.assert_allclose(sum(model.losses), expected, rtol=1e-5)
    model.compile("sgd", "mse")
    cell.gates_bias.assign(np.full(2 * UNITS, -1.0))
    model.train_on_batch(data(), data(1, (BATCH, UNITS)))
    assert np.all(np.asarray(cell.gates_bias) >= 0)
    norms = np.linalg.norm(cell.candidate_kernel, axis=0)
    assert np.all(norms <= 0.5 + 1e-6)


def everything():
    """A model that uses every place the cell can be in."""
    cell = fused_rnn.GRUBlockCell
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
def test_compile_does_not_choose_xla(wrap, monkeypatch):
    # Without a GPU Keras never chooses XLA, so pretend that there is one.
    device = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda *_: [device]
    )
    chosen = []
    for cell in (keras.layers.GRUCell(UNITS), fused_rnn.GRUBlockCell(UNITS)):
        model = keras.Sequential([keras.Input((None, INPUTS)), wrap(cell)])
        model.compile("sgd", "mse", jit_compile="auto")
        chosen.append(model.jit_compile)
    assert chosen == [True, False]


@pytest.mark.parametrize("units", [0, -3, 2.5, "4", None])
def test_wrong_units(units):
    with pytest.raises(ValueError, match="units: expected a positive integer"):
        fused_rnn.GRUBlockCell(units)


def test_wrong_shapes():
    layer = keras.layers.RNN(fused_rnn.GRUBlockCell(UNITS, name="my_cell"))
    layer(data())
    with pytest.raises(ValueError, match="'my_cell' is incompatible"):
        layer(data(shape=(BATCH, STEPS, INPUTS + 1)))
    with pytest.raises(ValueError, match="expected ndim=2, found ndim=3"):
        layer.cell(data(), [np.zeros((BATCH, UNITS), "float32")])
    with pytest.raises(ValueError, match="'my_cell': expected a state"):
        layer.cell(data()[:, 0], [np.zeros((BATCH, UNITS + 1), "float32")])
    with pytest.raises(tf.errors.InvalidArgumentError, match="h_prev must"):
        layer.cell(data()[:, 0], [np.zeros((BATCH + 1, UNITS), "float32")])
    with pytest.raises(ValueError, match="last dimension"):
        fused_rnn.GRUBlockCell(UNITS).build((BATCH, None))
