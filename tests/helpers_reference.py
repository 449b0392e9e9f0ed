"""Cells of the oracle and central differences, shared by the oracle's tests."""

from dataclasses import dataclass, field

import numpy as np

from fused_rnn import reference

# A central difference with step e errs by e^2/6 of the third derivative plus
# eps/e by rounding: e = eps^(1/3) leaves about 4e-11 of the function's scale.
STEP = np.finfo(np.float64).eps ** (1 / 3)
DIFFERENCE_TOLERANCE = 1e-8


def numeric_gradient(loss, value):
    """Central differences of a scalar loss() over every element of value."""
    gradient = np.zeros_like(value)
    for index in np.ndindex(*value.shape):
        kept = value[index]
        value[index] = kept + STEP
        above = loss()
        value[index] = kept - STEP
        below = loss()
        value[index] = kept
        gradient[index] = (above - below) / (2 * STEP)
    return gradient


def check_gradients(loss, inputs, gradients):
    for name, value in inputs.items():
        np.testing.assert_allclose(
            gradients[name], numeric_gradient(loss, value),
            rtol=0, atol=DIFFERENCE_TOLERANCE, err_msg=name,
        )


def draw(rng, *shape):
    # Away from zero, where relu and elu have their kink.
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.1, 0.9, shape)


@dataclass(frozen=True)
class Case:
    """A cell of the oracle as the tests call it."""

    name: str  # of reference's function over a sequence
    keras: str  # the layer
    gates: int
    states: tuple = ("h",)
    values: tuple = ()  # at which a gradient may arrive beside the states
    bars: tuple = ()
    activations: tuple = ("activation", "recurrent_activation")
    options: dict = field(default_factory=dict)

    @property
    def cell(self):
        return getattr(reference, self.name + "_cell")

    @property
    def cell_grad(self):
        return getattr(reference, self.name + "_cell_grad")

    @property
    def sequence(self):
        return getattr(reference, self.name)

    @property
    def sequence_grad(self):
        return getattr(reference, self.name + "_grad")

    @property
    def d_states(self):
        """What ``sequence_grad`` calls the gradients of the last states."""
        if len(self.states) == 1:
            return ("d_state",)
        return tuple("d_" + state for state in self.states)

    def bias_shape(self, units):
        columns = self.gates * units
        return (2, columns) if self.options.get("reset_after") else (columns,)

    def weights(self, rng, inputs, units, bias=True):
        columns = self.gates * units
        values = {
            "kernel": draw(rng, inputs, columns),
            "recurrent_kernel": draw(rng, units, columns),
        }
        if bias:
            values["bias"] = draw(rng, *self.bias_shape(units))
        return values

    def cell_inputs(self, rng, batch=3, inputs=2, units=4, bias=True):
        return {
            "x": draw(rng, batch, inputs),
            **{s + "_prev": draw(rng, batch, units) for s in self.states},
            **self.weights(rng, inputs, units, bias),
        }

    def sequence_inputs(self, rng, batch=3, steps=4, inputs=2, units=4):
        return {
            "x": draw(rng, batch, steps, inputs),
            **{s + "0": draw(rng, batch, units) for s in self.states},
            **self.weights(rng, inputs, units),
        }

    def activation_options(self, activation, recurrent_activation):
        names = dict(
            activation=activation, recurrent_activation=recurrent_activation
        )
        return {name: names[name] for name in self.activations}


CASES = {
    "gru_after": Case(
        "gru", "GRU", 3, values=("z", "r", "c"),
        bars=("z_bar", "r_bar", "c_bar"), options=dict(reset_after=True),
    ),
    "gru_before": Case(
        "gru", "GRU", 3, values=("z", "r", "c"),
        bars=("z_bar", "r_bar", "c_bar"), options=dict(reset_after=False),
    ),
    "lstm": Case(
        "lstm", "LSTM", 4, ("h", "c"), values=("i", "f", "g", "o", "c"),
        bars=("i_bar", "f_bar", "g_bar", "o_bar"),
    ),
    "simple_rnn": Case(
        "simple_rnn", "SimpleRNN", 1, bars=("h_bar",),
        activations=("activation",),
    ),
}

MASKS = {
    "none": None,
    "holes": [[1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]],
    "right_padded": [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]],
}
