"""The block cells as their tests call them, one description each."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from helpers import cell_arguments, cell_gradients, draw

import fused_rnn
from fused_rnn import _library, reference

_ops = _library.load()
# Those of an LSTM's, in the order of its output.
_GATES = ("d_i", "d_f", "d_o", "d_ci", "d_co")


@dataclasses.dataclass(frozen=True)
class BlockCell:
    """Names in the order of the ops; gradients have those of the oracle."""

    name: str
    cell: str  # gru or lstm
    raw_name: str  # of TensorFlow's op
    inputs: tuple
    outputs: tuple
    kept: tuple  # outputs that the gradient op reads
    arriving: tuple  # gradients that it needs, and those it may need
    gates: tuple
    states: tuple
    grad_outputs: tuple
    weight_grad_inputs: tuple
    weight_grad_outputs: tuple
    last_gate: str  # an output that is a gate
    dtypes: tuple  # of TensorFlow's op
    options: dict = dataclasses.field(default_factory=dict)

    def __str__(self):
        return self.name

    @property
    def weights(self):
        return self.inputs[1 + len(self.states):]

    def arguments(self, seed, batch, inputs, units, dtype) -> dict:
        """Inputs by name."""
        if self.cell == "gru":
            return cell_arguments(seed, batch, inputs, units, dtype)
        rng = np.random.default_rng(seed)
        rows = inputs + units
        shapes = {
            "x": (batch, inputs), "cs_prev": (batch, units),
            "h_prev": (batch, units), "w": (rows, 4 * units), "wci": (units,),
            "wcf": (units,), "wco": (units,), "b": (4 * units,),
        }
        return {
            name: draw(
                rng, shapes[name], dtype,
                # Keeps the gates away from saturation.
                max(rows, 1) ** -0.5 if name == "w" else 1.0,
            )
            for name in self.inputs
        }

    def gradients(self, seed, batch, units, dtype) -> dict:
        """Incoming gradients by name, one an output."""
        if self.cell == "gru":
            return cell_gradients(seed, batch, units, dtype)
        rng = np.random.default_rng(seed)
        return {
            f"d_{name}": draw(rng, (batch, units), dtype)
            for name in self.outputs
        }

    def fused(self, *values):
        """The function of the package."""
        function = getattr(fused_rnn, f"{self.cell}_block_cell")
        return function(**dict(zip(self.inputs, values)), **self.options)

    def raw(self, *values):
        """TensorFlow's op."""
        values = self._complete(dict(zip(self.inputs, values)))
        return getattr(tf.raw_ops, self.raw_name)(**values, **self.options)

    def plain(self, *values):
        """The cell in TensorFlow's own ops: what derivatives must equal."""
        function = plain_gru if self.cell == "gru" else plain_lstm
        return function(**dict(zip(self.inputs, values)), **self.options)

    def grad(self, *values):
        """The gradient op: inputs, outputs kept, and what arrives; with or
        without the gates'. A list in the order of `grad_outputs`."""
        count = len(self.inputs)
        others = values[count + len(self.kept) + len(self.arriving):]
        inputs = self._complete(dict(zip(self.inputs, values)))
        op = getattr(_ops, f"fused_rnn_{self.cell}_block_cell_grad")
        return list(op(
            *inputs.values(), *values[count : len(values) - len(others)],
            list(others), **self._attributes("cell_clip", "use_peephole"),
        ))

    def grad_names(self):
        """The arguments of `grad`."""
        return self.inputs + self.kept + self.arriving + self.gates

    def weight_grad(self, *values):
        op = getattr(_ops, f"fused_rnn_{self.cell}_block_cell_weight_grad")
        return list(op(*values))

    def reference(self, values):
        return getattr(reference, f"{self.cell}_block_cell")(
            **self._for_reference(values)
        )

    def reference_grad(self, values, incoming):
        return getattr(reference, f"{self.cell}_block_cell_grad")(
            **self._for_reference(values), **incoming
        )

    def _attributes(self, *names):
        return {
            name: self.options[name] for name in names if name in self.options
        }

    def _complete(self, values):
        """All inputs of the op in order; peepholes that are not there may have
        any length."""
        if self.cell == "gru":
            return values
        names = ("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
        return {
            name: values.get(name, tf.zeros([0], values["x"].dtype))
            for name in names
        }

    def _for_reference(self, values):
        if self.cell == "gru":
            return values
        peepholes = {
            name: values.get(name, 0.0) for name in ("wci", "wcf", "wco")
        }
        return {**peepholes, **values, **self.options}


_GRU = BlockCell(
    name="gru", cell="gru", raw_name="GRUBlockCell",
    inputs=("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c"),
    outputs=("r", "u", "c", "h"), kept=("r", "u", "c"), arriving=("d_h",),
    gates=("d_r", "d_u", "d_c"), states=("h_prev",),
    grad_outputs=("x", "h_prev", "c_bar", "r_bar_u_bar"),
    weight_grad_inputs=("x", "h_prev", "r", "d_c_bar", "d_r_bar_u_bar"),
    weight_grad_outputs=("w_ru", "w_c", "b_ru", "b_c"), last_gate="u",
    dtypes=("float32",),
)
_LSTM = BlockCell(
    name="lstm", cell="lstm", raw_name="LSTMBlockCell",
    inputs=("x", "cs_prev", "h_prev", "w", "b"),
    outputs=("i", "cs", "f", "o", "ci", "co", "h"),
    kept=("i", "cs", "f", "o", "ci"), arriving=("d_cs", "d_h"), gates=_GATES,
    states=("cs_prev", "h_prev"),
    grad_outputs=("x", "cs_prev", "h_prev", "gates_bar"),
    weight_grad_inputs=("x", "h_prev", "d_gates_bar"),
    weight_grad_outputs=("w", "b"), last_gate="o",
    dtypes=("float32", "float16"), options=dict(cell_clip=0.0),
)
_PEEPHOLE = dataclasses.replace(
    _LSTM, name="lstm_peephole",
    inputs=("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b"),
    # A bound that cuts many off; both numbers are exact in every type.
    options=dict(cell_clip=0.375, forget_bias=0.5, use_peephole=True),
)
BLOCK_CELLS = {cell.name: cell for cell in (_GRU, _LSTM, _PEEPHOLE)}
each_block_cell = pytest.mark.parametrize(
    "cell", BLOCK_CELLS.values(), ids=BLOCK_CELLS
)


def plain_gru(x, h_prev, w_ru, w_c, b_ru, b_c):
    r, u = tf.split(
        tf.sigmoid(tf.concat([x, h_prev], 1) @ w_ru + b_ru), 2, axis=1
    )
    c = tf.tanh(tf.concat([x, r * h_prev], 1) @ w_c + b_c)
    h = u * h_prev + (1.0 - u) * c
    return fused_rnn.GRUBlockCellOutput(r, u, c, h)


def plain_lstm(
    x, cs_prev, h_prev, w, b, wci=0.0, wcf=0.0, wco=0.0, forget_bias=1.0,
    cell_clip=3.0, use_peephole=False,
):
    del use_peephole  # the peepholes say it
    i, ci, f, o = tf.split(tf.concat([x, h_prev], 1) @ w + b, 4, axis=1)
    i = tf.sigmoid(i + wci * cs_prev)
    f = tf.sigmoid(f + forget_bias + wcf * cs_prev)
    ci = tf.tanh(ci)
    cs = ci * i + cs_prev * f
    if cell_clip > 0:
        cs = tf.clip_by_value(cs, -cell_clip, cell_clip)
    o = tf.sigmoid(o + wco * cs)
    co = tf.tanh(cs)
    return fused_rnn.LSTMBlockCellOutput(i, cs, f, o, ci, co, co * o)


def advance(cell, step, x, states, weights):
    """All outputs of a step, and the new states."""
    outputs = step(x, *states, *weights)
    return outputs, [
        getattr(outputs, name.removesuffix("_prev")) for name in cell.states
    ]


# Of the tests of derivatives.
SHAPE = (3, 4, 5)


@pytest.fixture(params=BLOCK_CELLS.values(), ids=BLOCK_CELLS)
def cell(request):
    return request.param


def arguments_of(cell, dtype=np.float64):
    return {
        name: tf.constant(value)
        for name, value in cell.arguments(0, *SHAPE, dtype).items()
    }


def gradients_of(cell, dtype=np.float64):
    batch, _, units = SHAPE
    return [
        tf.constant(value)
        for value in cell.gradients(1, batch, units, dtype).values()
    ]


@pytest.fixture
def inputs(cell):
    return arguments_of(cell)


@pytest.fixture
def incoming(cell):
    return gradients_of(cell)


def gradient(step, inputs, incoming):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = step(*inputs)
    return tape.gradient(outputs, inputs, incoming)


def assert_close(actual, expected):
    # Two float64 computations of a few hundred terms of order 1.
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-11, atol=1e-12)
