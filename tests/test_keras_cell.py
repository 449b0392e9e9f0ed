"""The block cells as Keras cells, against keras.layers.GRU and LSTM."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
import helpers_keras  # noqa: E402
from fused_rnn import weights  # noqa: E402
from helpers_block import plain_lstm  # noqa: E402
from helpers_keras_cell import (  # noqa: E402, F401  a fixture among them
    BATCH,
    INPUTS,
    STEPS,
    UNITS,
    as_keras,
    assert_close,
    data,
    kind,
    map_weights,
    pair,
    tolerance,
)

HOLES = np.array(
    [[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0], [0, 0, 1, 0, 1, 1],
     [0, 0, 0, 0, 0, 0]], bool,
)


@pytest.mark.parametrize("policy", sorted(helpers_keras.EPS))
@pytest.mark.parametrize("mask", [None, HOLES], ids=["unmasked", "holes"])
@pytest.mark.parametrize("go_backwards", [False, True])
def test_forward_and_gradients(kind, policy, mask, go_backwards):
    layers = pair(
        kind, policy, go_backwards=go_backwards, return_sequences=True,
        return_state=True,
    )
    x = tf.Variable(data())
    first = [
        tf.Variable(data(2 + i, (BATCH, UNITS))) for i in range(kind.states)
    ]
    d_outputs = data(3, (BATCH, STEPS, UNITS))
    results = []
    for layer in layers:
        with tf.GradientTape() as tape:
            outputs, *states = layer(x, initial_state=first, mask=mask)
            loss = tf.reduce_sum(tf.cast(outputs, x.dtype) * d_outputs)
            loss += sum(tf.reduce_sum(tf.cast(s, x.dtype)) for s in states)
        variables = [x, *first] + [v.value for v in layer.trainable_weights]
        results.append((outputs, states, tape.gradient(loss, variables)))
    (outputs, states, gradients), (our_outputs, our_states, ours) = results
    assert our_outputs.dtype == outputs.dtype
    assert_close(our_outputs, outputs, policy)
    for ours_last, last in zip(our_states, states, strict=True):
        assert_close(ours_last, last, policy)
    count = 1 + kind.states
    for gradient, expected in zip(
        [*ours[:count], *as_keras(kind, ours[count:])], gradients, strict=True
    ):
        assert_close(gradient, expected, policy)


@pytest.mark.parametrize("policy", ["float32", "float64"])
def test_training_follows_keras(kind, policy):
    """The same losses and weights over several optimiser steps of fit."""
    models = []
    for layer in pair(kind, policy):
        model = keras.Sequential(
            [keras.Input((None, INPUTS)), layer,
             keras.layers.Dense(3, kernel_initializer="ones", dtype=policy)]
        )
        model.compile(
            keras.optimizers.SGD(0.05, momentum=0.9), "mse", metrics=["mae"],
            # A graph of Keras' loop and its gradient takes seconds to trace.
            run_eagerly=isinstance(
                layer, (keras.layers.GRU, keras.layers.LSTM)
            ),
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
        fused[3], kind.to_block(*stock[3]), strict=True
    ):
        np.testing.assert_allclose(
            value, expected, rtol=0, atol=10 * tolerance(policy)
        )
    assert stock[0]["loss"][1] < stock[0]["loss"][0]


@pytest.mark.parametrize("options", [
    dict(dropout=0.4), dict(recurrent_dropout=0.3),
    dict(dropout=0.4, recurrent_dropout=0.3), dict(dropout=1.0),
], ids=str)
def test_dropout_draws_the_masks_of_keras(kind, options):
    """With the same seed both layers drop the same values."""
    stock, fused = pair(kind, seed=7, cell_options=options, return_sequences=True)
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
        [ours[0], *as_keras(kind, ours[1:])], gradients, strict=True
    ):
        assert_close(gradient, expected)
    if options != dict(dropout=1.0):  # which Keras takes as none
        assert np.abs(our_outputs - plain).max() > 0.01
        assert np.abs(fused(x, training=True) - our_outputs).max() > 0.01


def test_bidirectional(kind):
    stock, fused = (
        keras.layers.Bidirectional(layer)
        for layer in pair(kind, return_sequences=True)
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
            kind, getattr(stock, direction), getattr(fused, direction), values
        )
    assert_close(fused(data(), mask=HOLES), stock(data(), mask=HOLES))


def test_stacked_cells(kind):
    cells = (
        [kind.stock_cell(n) for n in (UNITS, 3)],
        [kind.cell(n) for n in (UNITS, 3)],
    )
    stock, fused = (
        keras.layers.RNN(c, return_sequences=True, return_state=True)
        for c in cells
    )
    for layer in (stock, fused):
        layer.build((None, None, INPUTS))
    for cell, ours in zip(*cells):
        map_weights(kind, cell, ours, cell.get_weights()[:3])
    outputs, *states = fused(data(), mask=HOLES)
    expected, *expected_states = stock(data(), mask=HOLES)
    assert_close(outputs, expected)
    for state, other in zip(
        keras.tree.flatten(states), keras.tree.flatten(expected_states),
        strict=True,
    ):
        assert_close(state, other)


def test_stateful(kind):
    stock, fused = pair(kind, stateful=True)
    first = fused(data())
    assert_close(first, stock(data()))
    second = fused(data())
    assert_close(second, stock(data()))
    assert np.abs(second - first).max() > 0.01
    fused.reset_state()
    np.testing.assert_array_equal(fused(data()), first)


def test_loop_of_ones_own(kind):
    """States as a tensor where there is one, or as a list, in eager and in a
    tf.function."""
    _, layer = pair(kind, return_sequences=True)
    cell, x = layer.cell, data()
    first = cell.get_initial_state(BATCH)
    assert len(first) == kind.states
    for state in first:
        assert state.shape == (BATCH, UNITS) and state.dtype == "float32"
    states, others, step = first, first, tf.function(cell)
    for t in range(STEPS):
        if kind.states == 1:
            h, again = cell(x[:, t], states[0])
            np.testing.assert_array_equal(h, again)
            states = [again]
        else:
            h, states = cell(x[:, t], states)
            np.testing.assert_array_equal(h, states[0])
        output, others = step(x[:, t], others)
        np.testing.assert_array_equal(output, others[0])
        for state, other in zip(states, others, strict=True):
            assert_close(other, state)
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


@pytest.mark.parametrize("use_peephole", [False, True])
def test_weights_of_lstm_are_those_of_tf1(use_peephole):
    cell = fused_rnn.LSTMBlockCell(UNITS, use_peephole=use_peephole)
    cell.build((None, INPUTS))
    names = ("w_i_diag", "w_f_diag", "w_o_diag") if use_peephole else ()
    assert {w.name: tuple(w.shape) for w in cell.trainable_weights} == {
        "kernel": (INPUTS + UNITS, 4 * UNITS), "bias": (4 * UNITS,),
        **dict.fromkeys(names, (UNITS,)),
    }
    np.testing.assert_array_equal(cell.get_weights()[1], 0)


@pytest.mark.parametrize("options", [
    dict(use_peephole=True), dict(cell_clip=0.25),
    dict(use_peephole=True, cell_clip=0.25, forget_bias=-0.5),
], ids=str)
def test_peepholes_clip_and_forget_bias(options):
    cell = fused_rnn.LSTMBlockCell(
        UNITS, **options, bias_initializer="normal", recurrent_dropout=2.0**-30,
    )
    x, h, c = data()[:, 0], data(2, (BATCH, UNITS)), data(3, (BATCH, UNITS))
    output, (new_h, new_c) = cell(x, [h, c])
    kernel, bias, *peepholes = (w.value for w in cell.trainable_weights)
    expected = plain_lstm(
        x, c, h, kernel, bias, *peepholes,
        **{"cell_clip": 0.0, **options},
    )
    np.testing.assert_array_equal(output, new_h)
    assert_close(new_h, expected.h)
    assert_close(new_c, expected.cs)
    if "cell_clip" in options:
        assert np.abs(new_c).max() == 0.25
    # The step of other ops, for masks that are as good as ones.
    _, others = cell(x, [h, c], training=True)
    assert_close(others[0], new_h)
    assert_close(others[1], new_c)


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


@pytest.mark.parametrize("units", [0, -3, 2.5, "4", None])
def test_wrong_units(kind, units):
    with pytest.raises(ValueError, match="units: expected a positive integer"):
        kind.cell(units)


@pytest.mark.parametrize("cell_clip", [0, -1.0, np.nan])
def test_wrong_cell_clip(cell_clip):
    with pytest.raises(ValueError, match="cell_clip: expected a positive num"):
        fused_rnn.LSTMBlockCell(UNITS, cell_clip=cell_clip)


def test_wrong_shapes(kind):
    layer = keras.layers.RNN(kind.cell(UNITS, name="my_cell"))
    layer(data())

    def states(batch=BATCH, units=UNITS, count=kind.states):
        return [np.zeros((batch, units), "float32")] * count

    with pytest.raises(ValueError, match="'my_cell' is incompatible"):
        layer(data(shape=(BATCH, STEPS, INPUTS + 1)))
    with pytest.raises(ValueError, match="expected ndim=2, found ndim=3"):
        layer.cell(data(), states())
    with pytest.raises(ValueError, match="'my_cell': expected a state"):
        layer.cell(data()[:, 0], states(units=UNITS + 1))
    with pytest.raises(ValueError, match=f"expected {kind.states} state"):
        layer.cell(data()[:, 0], states(count=kind.states + 1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="_prev must"):
        layer.cell(data()[:, 0], states(batch=BATCH + 1))
    with pytest.raises(ValueError, match="last dimension"):
        kind.cell(UNITS).build((BATCH, None))
