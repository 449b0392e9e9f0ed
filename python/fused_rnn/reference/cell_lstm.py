"""The LSTM cell in Keras' layout and the derivation of its gradient.

Notation and rules are those of ``common``. Gates are i (input), f (forget),
g (candidate) and o (output); Keras calls the columns of g "c". φ is the
activation (usually tanh), σ stands for the recurrent activation.

    ī, f̄, ḡ, ō = x·K + (h∘m)·R + b, each with its own columns and mask
    i = σ(ī)    f = σ(f̄)    g = φ(ḡ)    o = σ(ō)
    c' = f∘c + i∘g
    h' = o∘φ(c')

Derivation of the gradient. h' = o∘φ(c') sends back

    to o:  d_h'∘φ(c')        to c':  d_h'∘o∘φ'(c')

so with what arrives at c' itself (from the next step, or from outside)

    d_c  = d_c' + d_h'∘o∘φ'(c')     the whole gradient at c'
    d_ō  = (d_o + d_h'∘φ(c')) ∘ σ'(ō)

and c' = f∘c + i∘g sends back

    d_ī = (d_i + d_c∘g) ∘ σ'(ī)      d_f̄ = (d_f + d_c∘c) ∘ σ'(f̄)
    d_ḡ = (d_g + d_c∘i) ∘ φ'(ḡ)      to c:  d_c∘f

The rest is ``common.gate_sums_grad``. Between steps the gradient of c travels
through d_c∘f alone: no matrix in its way, which is what the cell is for.
"""

from typing import NamedTuple

import numpy as np

from fused_rnn.reference.common import (
    ACTIVATIONS, as_float64, gate_sums, gate_sums_grad,
)


class LstmCellOutput(NamedTuple):
    """Gates i, f, g (candidate), o and the new states h and c, each [B, H]."""

    i: np.ndarray
    f: np.ndarray
    g: np.ndarray
    o: np.ndarray
    h: np.ndarray
    c: np.ndarray


def _gates(sums, activation, recurrent_activation):
    sigma, _ = ACTIVATIONS[recurrent_activation]
    phi, _ = ACTIVATIONS[activation]
    i_bar, f_bar, g_bar, o_bar = sums
    return sigma(i_bar), sigma(f_bar), phi(g_bar), sigma(o_bar)


def lstm_cell(
    x, h_prev, c_prev, kernel, recurrent_kernel, bias=None, *,
    activation="tanh", recurrent_activation="sigmoid",
    recurrent_dropout_mask=None,
):
    """One step in Keras' layout (gates i|f|c|o).

    Args:
      x: [B, I].
      h_prev, c_prev: [B, H].
      kernel: [I, 4H].
      recurrent_kernel: [H, 4H].
      bias: [4H]; or None.
      activation, recurrent_activation: names in ``ACTIVATIONS``.
      recurrent_dropout_mask: [4, B, H] for i, f, g, o; or None.

    Returns:
      LstmCellOutput(i, f, g, o, h, c) in float64.

    Raises:
      ValueError: bias or recurrent_dropout_mask has another shape.
    """
    c_prev, *arguments = as_float64(
        c_prev, x, h_prev, kernel, recurrent_kernel, bias,
        recurrent_dropout_mask,
    )
    sums = gate_sums(*arguments, count=4)
    i, f, g, o = _gates(sums, activation, recurrent_activation)
    c = f * c_prev + i * g
    return LstmCellOutput(i, f, g, o, o * ACTIVATIONS[activation][0](c), c)


def lstm_cell_grad(
    x, h_prev, c_prev, kernel, recurrent_kernel, bias=None, *, d_h, d_c=0.0,
    d_i=0.0, d_f=0.0, d_g=0.0, d_o=0.0, activation="tanh",
    recurrent_activation="sigmoid", recurrent_dropout_mask=None,
):
    """Gradient of ``lstm_cell`` for gradients of the states and the gates.

    Args:
      d_h, d_c, d_i, d_f, d_g, d_o: [B, H], or 0 where nothing arrives.
      the others: as in ``lstm_cell``.

    Returns:
      A dict of float64 arrays: the gradient of each input under its name
      ("bias" is None when there is none), and those before the activations,
      "i_bar", "f_bar", "g_bar", "o_bar", each [B, H].
    """
    c_prev, *arguments = as_float64(
        c_prev, x, h_prev, kernel, recurrent_kernel, bias,
        recurrent_dropout_mask,
    )
    d_h, d_c, d_i, d_f, d_g, d_o = as_float64(d_h, d_c, d_i, d_f, d_g, d_o)
    phi, phi_prime = ACTIVATIONS[activation]
    _, sigma_prime = ACTIVATIONS[recurrent_activation]
    sums = gate_sums(*arguments, count=4)
    i_bar, f_bar, g_bar, o_bar = sums
    i, f, g, o = _gates(sums, activation, recurrent_activation)
    c = f * c_prev + i * g

    d_c = d_c + d_h * o * phi_prime(c)
    d_o_bar = (d_o + d_h * phi(c)) * sigma_prime(o_bar)
    d_i_bar = (d_i + d_c * g) * sigma_prime(i_bar)
    d_f_bar = (d_f + d_c * c_prev) * sigma_prime(f_bar)
    d_g_bar = (d_g + d_c * i) * phi_prime(g_bar)
    d_sums = [d_i_bar, d_f_bar, d_g_bar, d_o_bar]
    return {
        **gate_sums_grad(d_sums, *arguments),
        "c_prev": d_c * f,
        "i_bar": d_i_bar,
        "f_bar": d_f_bar,
        "g_bar": d_g_bar,
        "o_bar": d_o_bar,
    }
