"""The character models in plain NumPy: differences, and equal to the oracle."""

import doctest

import numpy as np
import pytest
from helpers_networks import (
    NETWORKS,
    check_against,
    every_network,
    stretches,
)
from helpers_reference import check_gradients, draw

from fused_rnn import reference
from fused_rnn.reference import networks

every_class = pytest.mark.parametrize(
    "model_class", [network.model for network in NETWORKS.values()],
    ids=NETWORKS,
)

NAMES = {
    "gru": "Wz Wr Wh Wy bz br bh by",
    "lstm": "Wf Wi Wc Wo Wy bf bi bc bo by",
    "rnn": "Wxh Whh Why bh by",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_weights_and_gradients(name):
    model = NETWORKS[name].model(vocabulary_size=5, units=3)
    _, gradients, _ = model.loss([0, 1], [1, 4])
    assert sorted(model.weights) == sorted(gradients) == sorted(
        NAMES[name].split()
    )
    for key, value in model.weights.items():
        assert gradients[key].shape == value.shape == model.shapes()[key]
        assert gradients[key].dtype == value.dtype == np.float64


@every_class
def test_gradient(model_class):
    rng = np.random.default_rng(1)
    model = model_class(vocabulary_size=4, units=3)
    for values in model.weights.values():
        values[:] = draw(rng, *values.shape)
    inputs, targets = rng.integers(0, 4, (2, 2, 5))
    state = tuple(draw(rng, 2, 3) for _ in model.states)

    def loss():
        return model.loss(inputs, targets, state)[0]

    check_gradients(
        loss, model.weights, model.loss(inputs, targets, state)[1]
    )


def oracle_loss(case, keras, dense, one_hot, targets, state):
    """Loss, gradients and states of the oracle's sequence and a softmax."""
    W, b = dense
    arguments = (one_hot, *state, *keras)
    outputs, *new = case.sequence(*arguments, **case.options)
    y = outputs @ W + b
    p = np.exp(y) / np.exp(y).sum(axis=-1, keepdims=True)
    right = np.eye(len(b))[targets]
    d_y = (p - right) / targets.size
    gradients = case.sequence_grad(
        *arguments, **case.options, d_outputs=d_y @ W.T
    )
    loss = -np.mean(np.log(np.sum(p * right, axis=-1)))
    rows = outputs.reshape(-1, outputs.shape[-1])
    d_W = rows.T @ d_y.reshape(len(rows), -1)
    d_keras = [gradients[n] for n in ("kernel", "recurrent_kernel", "bias")]
    return loss, d_keras, (d_W, d_y.sum(axis=(0, 1))), new


@every_network
@stretches
def test_equals_the_oracle(network, batch, steps):
    check_against(network, oracle_loss, batch, steps)


@every_network
def test_conversion_there_and_back(network):
    to_keras, from_keras = network.to_keras, network.from_keras
    model = network.model(vocabulary_size=5, units=3)
    rng = np.random.default_rng(3)
    keras = to_keras({
        name: values + draw(rng, *values.shape)
        for name, values in model.weights.items()
    })
    for left, right in zip(to_keras(from_keras(*keras)), keras):
        np.testing.assert_array_equal(left, right)
    without_bias = to_keras(from_keras(*keras[:2]))
    assert not without_bias.bias.any()
    with pytest.raises(KeyError, match="have no [Wb]"):
        to_keras({})


@every_class
def test_learns_a_text_and_writes_it(model_class):
    text = np.array([0, 1, 2, 3, 4, 2, 5, 1] * 4)  # 2 and 1 need a memory
    model = model_class(vocabulary_size=6, units=16, seed=4)
    optimizer = reference.Adam(0.02)
    first, _, _ = model.loss(text[:-1], text[1:])
    for _ in range(200):
        state = None
        for start in (0, 16):
            inputs, targets = text[start : start + 15], text[start + 1 :][:15]
            loss, gradients, state = model.loss(inputs, targets, state)
            optimizer.update(model.weights, gradients)
    assert abs(first - np.log(6)) < 1 and loss < 0.05
    written, _ = model.sample(text[0], 15, temperature=0.1)
    assert written == list(text[1:16])


@every_class
def test_sampling_goes_on_from_a_state(model_class):
    model = model_class(vocabulary_size=7, units=5)
    whole, end = model.sample(3, 20, temperature=1e-6)
    half, middle = model.sample(3, 10, temperature=1e-6)
    rest, other_end = model.sample(half[-1], 10, middle, temperature=1e-6)
    assert whole == half + rest
    for left, right in zip(end, other_end):
        np.testing.assert_array_equal(left, right)


def test_sampling_follows_the_predictions():
    model = reference.CharacterRnn(vocabulary_size=3, units=2)
    for name, values in model.weights.items():
        values[:] = np.log([0.2, 0.3, 0.5]) if name == "by" else 0.0
    written, _ = model.sample(0, 4000, seed=5)
    # The spread of a frequency among 4000 draws is below 0.008.
    np.testing.assert_allclose(
        np.bincount(written) / 4000, [0.2, 0.3, 0.5], atol=0.03
    )


@pytest.mark.parametrize("inputs, targets, message", [
    ([0, 3], [0, 1], "inputs: expected integers from 0 to 2, got"),
    ([0, 1], [0, -1], "targets: expected integers from 0 to 2, got"),
    ([0.0, 1.0], [0, 1], "inputs: expected integers from 0 to 2, got float64"),
    ([0, 1], [0], r"targets: expected shape \(1, 2\), that of inputs, got"),
])
def test_wrong_characters(inputs, targets, message):
    model = reference.CharacterGru(vocabulary_size=3, units=2)
    with pytest.raises(ValueError, match=message):
        model.loss(inputs, targets)


def test_adam_equals_keras():
    keras = pytest.importorskip("keras")
    rng = np.random.default_rng(6)
    values = {"a": rng.normal(size=(2, 3)), "b": rng.normal(size=4)}
    variables = [
        keras.Variable(value, dtype="float64") for value in values.values()
    ]
    ours, theirs = reference.Adam(0.1), keras.optimizers.Adam(0.1)
    for _ in range(5):
        gradients = {n: rng.normal(size=v.shape) for n, v in values.items()}
        ours.update(values, gradients)
        theirs.apply(
            [keras.ops.convert_to_tensor(g) for g in gradients.values()],
            variables,
        )
    for value, variable in zip(values.values(), variables):
        # Keras rounds beta_2 = 0.999 to float32, by up to 2^-25, and so changes
        # 1 - beta_2 by 3e-5 of itself and a step of up to 0.1 by half of that.
        np.testing.assert_allclose(
            value, variable.numpy(), rtol=0, atol=5 * 0.1 * 1.5e-5
        )


def test_adam_wants_the_same_names():
    with pytest.raises(ValueError, match="gradients: expected those of a, got"):
        reference.Adam().update({"a": np.ones(1)}, {"b": np.ones(1)})


@pytest.mark.parametrize("module", [reference, networks])
def test_examples(module):
    results = doctest.testmod(module)
    assert results.attempted and not results.failed
