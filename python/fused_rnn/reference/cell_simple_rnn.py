"""The plain recurrent cell, Keras' SimpleRNN, and its gradient.

Notation and rules are those of ``common``. One sum, one activation:

    h̄ = x·K + (h∘m)·R + b        h' = g(h̄)

    d_h̄ = d_h' ∘ g'(h̄)

and from there ``common.gate_sums_grad``.
"""

from typing import NamedTuple

import numpy as np

from fused_rnn.reference.common import (
    ACTIVATIONS, as_float64, gate_sums, gate_sums_grad,
)


class SimpleRnnCellOutput(NamedTuple):
    """The new state [B, H]."""

    h: np.ndarray


def simple_rnn_cell(
    x, h_prev, kernel, recurrent_kernel, bias=None, *, activation="tanh",
    recurrent_dropout_mask=None,
):
    """One step in Keras' layout.

    Args:
      x: [B, I].
      h_prev: [B, H].
      kernel: [I, H].
      recurrent_kernel: [H, H].
      bias: [H]; or None.
      activation: a name in ``ACTIVATIONS``.
      recurrent_dropout_mask: [1, B, H]; or None.

    Returns:
      SimpleRnnCellOutput(h) in float64.

    Raises:
      ValueError: bias or recurrent_dropout_mask has another shape.
    """
    arguments = as_float64(
        x, h_prev, kernel, recurrent_kernel, bias, recurrent_dropout_mask
    )
    (h_bar,) = gate_sums(*arguments, count=1)
    return SimpleRnnCellOutput(ACTIVATIONS[activation][0](h_bar))


def simple_rnn_cell_grad(
    x, h_prev, kernel, recurrent_kernel, bias=None, *, d_h, activation="tanh",
    recurrent_dropout_mask=None,
):
    """Gradient of ``simple_rnn_cell``.

    Args:
      d_h: [B, H].
      the others: as in ``simple_rnn_cell``.

    Returns:
      A dict of float64 arrays: the gradient of each input under its name
      ("bias" is None when there is none), and "h_bar" [B, H].
    """
    arguments = as_float64(
        x, h_prev, kernel, recurrent_kernel, bias, recurrent_dropout_mask
    )
    (h_bar,) = gate_sums(*arguments, count=1)
    d_h_bar = np.asarray(d_h, np.float64) * ACTIVATIONS[activation][1](h_bar)
    return {**gate_sums_grad([d_h_bar], *arguments), "h_bar": d_h_bar}
