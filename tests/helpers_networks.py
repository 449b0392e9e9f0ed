"""The character models as the tests meet them, and what they must equal."""

from typing import Callable, NamedTuple

import numpy as np
import pytest
from helpers_reference import CASES, Case

from fused_rnn import reference, weights

# The two differ by the order of summation, about 4e-15 over 200 steps; a wrong
# formula by more than this.
TOLERANCE = 1e-10


class Network(NamedTuple):
    """A model, its cell in the oracle, the conversions of its weights."""

    model: type
    case: Case
    to_keras: Callable
    from_keras: Callable


NETWORKS = {
    "gru": Network(
        reference.CharacterGru, CASES["gru_before"],
        weights.textbook_gru_to_keras, weights.keras_to_textbook_gru,
    ),
    "lstm": Network(
        reference.CharacterLstm, CASES["lstm"],
        weights.textbook_lstm_to_keras, weights.keras_to_textbook_lstm,
    ),
    "rnn": Network(
        reference.CharacterRnn, CASES["simple_rnn"],
        weights.textbook_rnn_to_keras, weights.keras_to_textbook_rnn,
    ),
}
every_network = pytest.mark.parametrize(
    "network", NETWORKS.values(), ids=NETWORKS
)
# One step, and long enough for an error in the carried gradient to grow.
stretches = pytest.mark.parametrize(
    "batch, steps", [(1, 1), (3, 1), (1, 200), (2, 200)]
)


def check_against(network, other, batch, steps):
    """Loss, every gradient and the states are those of another program.

    It runs over two stretches of a text, the second from the first's state.

    Args:
      other: loss, gradients of the cell's weights and of the output layer's
        two, and new states, of (case, weights in Keras' layout, the output
        layer's two, one-hot inputs [B, T, V], targets [B, T], states).
    """
    rng = np.random.default_rng(2)
    symbols = 20
    model = network.model(symbols, units=16)
    keras = network.to_keras(model.weights)
    dense = [model.weights[name] for name in model.output]
    state = model.first_state(batch)
    text = rng.integers(0, symbols, (batch, 2 * steps + 1))
    for start in (0, steps):
        inputs = text[:, start : start + steps]
        targets = text[:, start + 1 : start + steps + 1]
        loss, d_keras, d_dense, new = other(
            network.case, keras, dense, np.eye(symbols)[inputs], targets, state
        )
        ours, gradients, state = model.loss(inputs, targets, state)
        expected = network.from_keras(*d_keras)
        expected.update(zip(model.output, d_dense))
        assert expected.keys() == gradients.keys() == model.weights.keys()
        pairs = {
            "loss": (ours, loss), **dict(zip(model.states, zip(state, new))),
            **{name: (gradients[name], expected[name]) for name in gradients},
        }
        for name, (left, right) in pairs.items():
            np.testing.assert_allclose(
                left, right, rtol=0, atol=TOLERANCE, err_msg=name
            )
