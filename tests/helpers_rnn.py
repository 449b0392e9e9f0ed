"""The cells as the tests of whole sequences call them."""

import numpy as np
import pytest
from helpers import draw, first_states
from helpers_reference import CASES

import fused_rnn

# name -> what the oracle's tests know of it: gates, states, options.
CELLS = CASES

each_cell = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
# Where one way to reset says all that both would.
each_function = pytest.mark.parametrize(
    "cell", [CELLS[name] for name in ("gru_after", "lstm", "simple_rnn")],
    ids=lambda cell: cell.name,
)


def fused(cell):
    """The function of the package."""
    return getattr(fused_rnn, cell.name)


def differentiable(cell):
    """Arguments that have a gradient, in order."""
    return ("x", *first_states(cell), "kernel", "recurrent_kernel", "bias")


def drawn_gradients(cell, seed, values):
    """What arrives at outputs and last states, in values' element type."""
    rng = np.random.default_rng(seed)
    batch, steps, _ = values["x"].shape
    units = len(values["recurrent_kernel"])
    dtype = values["x"].dtype
    return [
        draw(rng, (batch, steps, units), dtype),
        *(draw(rng, (batch, units), dtype) for _ in cell.states),
    ]


def in_order(cell, results) -> dict:
    """Results of the package or of the oracle by name."""
    return dict(zip(("outputs", *cell.states), results))


def oracle(cell, values, incoming, **options):
    """Results and gradients by name in float64."""
    values = dict(values)
    mask = values["recurrent_dropout_mask"]
    if mask is not None:  # The oracle takes a mask for each gate.
        values["recurrent_dropout_mask"] = np.repeat(
            mask, cell.gates // len(mask), 0
        )
    options = {**cell.options, **options}
    d_outputs, *d_states = incoming
    return (
        in_order(cell, cell.sequence(**values, **options)),
        cell.sequence_grad(
            **values, **options, d_outputs=d_outputs,
            **dict(zip(cell.d_states, d_states)),
        ),
    )


def run(cell, values, incoming, **options):
    """The same by the ops, with layout and types as they have them."""
    # Not above: the NumPy side needs no TensorFlow.
    import tensorflow as tf

    tensors = {
        name: tf.constant(values[name])
        for name in differentiable(cell) if values[name] is not None
    }
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        results = fused(cell)(
            **{**values, **tensors}, **cell.options, **options
        )
    gradients = tape.gradient(
        list(results), tensors, [tf.constant(d) for d in incoming]
    )
    return (
        in_order(cell, [result.numpy() for result in results]),
        {name: gradient.numpy() for name, gradient in gradients.items()},
    )
