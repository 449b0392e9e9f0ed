"""The cells of the GRU and the derivation of their gradients.

Notation and rules are those of ``common``. Gates are z (update; TensorFlow's
block cell calls it u), r (reset) and c (candidate).

The two conventions differ in where the reset gate acts:

    reset before the product (TensorFlow's GRUBlockCell,
    Keras with reset_after=False):
        z̄ = x·K_z + h·R_z + b_z
        r̄ = x·K_r + h·R_r + b_r
        c̄ = x·K_c + (r∘h)·R_c + b_c

    reset after the product (Keras' default, cuDNN, PyTorch), where each gate
    has an input bias b and a recurrent bias q:
        z̄ = x·K_z + b_z + h·R_z + q_z
        r̄ = x·K_r + b_r + h·R_r + q_r
        s  = h·R_c + q_c
        c̄ = x·K_c + b_c + r∘s

    both:
        h' = z∘h + (1−z)∘c

Derivation of the gradient.

State update. h' = z∘h + (1−z)∘c sends back

    to c:  d_h'∘(1−z)        to z:  d_h'∘(h−c)        to h:  d_h'∘z

With what arrives from outside at the gates themselves (d_z, d_r and d_c, which
are outputs of the block cell, so that a caller may use them):

    d_c̄ = (d_c + d_h'∘(1−z)) ∘ g'(c̄)
    d_z̄ = (d_z + d_h'∘(h−c)) ∘ f'(z̄)

Reset before. c̄ depends on r and on h through p = r∘h:

    d_p = d_c̄·R_cᵀ       d_r̄ = (d_r + d_p∘h) ∘ f'(r̄)
    d_h = d_h'∘z + d_p∘r + d_z̄·R_zᵀ + d_r̄·R_rᵀ
    d_R_c = (r∘h)ᵀ·d_c̄

Reset after. c̄ depends on r and on h through r∘s:

    d_s = d_c̄∘r           d_r̄ = (d_r + d_c̄∘s) ∘ f'(r̄)
    d_h = d_h'∘z + d_z̄·R_zᵀ + d_r̄·R_rᵀ + d_s·R_cᵀ
    d_R_c = hᵀ·d_s         d_q = Σ_batch [d_z̄ d_r̄ d_s]

Both:

    d_x = d_z̄·K_zᵀ + d_r̄·K_rᵀ + d_c̄·K_cᵀ      d_K = xᵀ·[d_z̄ d_r̄ d_c̄]
    d_R_z = hᵀ·d_z̄     d_R_r = hᵀ·d_r̄     d_b = Σ_batch [d_z̄ d_r̄ d_c̄]

Recurrent dropout: the h of the products is h∘m_z, h∘m_r, and h∘m_c (or
r∘h∘m_c).
"""

from typing import NamedTuple, Optional

import numpy as np

from fused_rnn.reference.common import (
    ACTIVATIONS, as_float64, check_bias, dropped, sigmoid,
)


class BlockCellOutput(NamedTuple):
    """Reset gate, update gate, candidate and new state, each [B, H]."""

    r: np.ndarray
    u: np.ndarray
    c: np.ndarray
    h: np.ndarray


class CellOutput(NamedTuple):
    """Gates and new state, each [B, H]; s = h·R_c + q_c, reset after only."""

    z: np.ndarray
    r: np.ndarray
    c: np.ndarray
    h: np.ndarray
    s: Optional[np.ndarray]


def gru_block_cell(x, h_prev, w_ru, w_c, b_ru, b_c):
    """One step of TensorFlow's GRUBlockCell: reset before the product.

        [r̄ ū] = [x h_prev]·w_ru + b_ru      c̄ = [x r∘h_prev]·w_c + b_c
        h = u∘h_prev + (1−u)∘c

    Args:
      x: [B, I].
      h_prev: [B, H].
      w_ru: [I + H, 2H], columns r then u.
      w_c: [I + H, H].
      b_ru: [2H].
      b_c: [H].

    Returns:
      BlockCellOutput(r, u, c, h) in float64.
    """
    x, h_prev, w_ru, w_c, b_ru, b_c = as_float64(
        x, h_prev, w_ru, w_c, b_ru, b_c
    )
    units = h_prev.shape[1]
    ru_bar = np.concatenate([x, h_prev], axis=1) @ w_ru + b_ru
    r = sigmoid(ru_bar[:, :units])
    u = sigmoid(ru_bar[:, units:])
    c = np.tanh(np.concatenate([x, r * h_prev], axis=1) @ w_c + b_c)
    return BlockCellOutput(r, u, c, u * h_prev + (1.0 - u) * c)


def gru_block_cell_grad(
    x, h_prev, w_ru, w_c, b_ru, b_c, d_r, d_u, d_c, d_h
):
    """Gradient of ``gru_block_cell`` for gradients of all four outputs.

    Args:
      x, h_prev, w_ru, w_c, b_ru, b_c: as in ``gru_block_cell``.
      d_r, d_u, d_c, d_h: [B, H], or 0 where nothing arrives.

    Returns:
      A dict of float64 arrays: the gradient of each input under its name, and
      those before the activations, "c_bar" [B, H] and "r_bar_u_bar" [B, 2H].
    """
    x, h_prev, w_ru, w_c, b_ru, b_c = as_float64(
        x, h_prev, w_ru, w_c, b_ru, b_c
    )
    d_r, d_u, d_c, d_h = as_float64(d_r, d_u, d_c, d_h)
    inputs = x.shape[1]
    r, u, c, _ = gru_block_cell(x, h_prev, w_ru, w_c, b_ru, b_c)

    u_bar = (d_u + d_h * (h_prev - c)) * u * (1.0 - u)
    c_bar = (d_c + d_h * (1.0 - u)) * (1.0 - c * c)
    d_x_hr = c_bar @ w_c.T
    d_hr = d_x_hr[:, inputs:]
    r_bar = (d_r + d_hr * h_prev) * r * (1.0 - r)
    r_bar_u_bar = np.concatenate([r_bar, u_bar], axis=1)
    d_x_h = r_bar_u_bar @ w_ru.T
    return {
        "x": d_x_h[:, :inputs] + d_x_hr[:, :inputs],
        "h_prev": d_x_h[:, inputs:] + d_hr * r + d_h * u,
        "w_ru": np.concatenate([x, h_prev], axis=1).T @ r_bar_u_bar,
        "w_c": np.concatenate([x, r * h_prev], axis=1).T @ c_bar,
        "b_ru": r_bar_u_bar.sum(axis=0),
        "b_c": c_bar.sum(axis=0),
        "c_bar": c_bar,
        "r_bar_u_bar": r_bar_u_bar,
    }


def _gates(a):
    """The columns of the gates z, r, c in Keras' layout, 3 x [..., H]."""
    return np.split(a, 3, axis=-1)


def _split_bias(bias, units, reset_after):
    """Keras' bias -> (input bias [3H], recurrent bias [3H])."""
    zeros = np.zeros(3 * units)
    if bias is None:
        return zeros, zeros
    expected = (2, 3 * units) if reset_after else (3 * units,)
    check_bias(bias, expected, f" with reset_after={reset_after}")
    return (bias[0], bias[1]) if reset_after else (bias, zeros)


def _before_activation(
    x, h, kernel, recurrent_kernel, bias, reset_after, activation,
    recurrent_activation, recurrent_dropout_mask,
):
    """z̄, r̄, c̄ and the CellOutput of one step."""
    f, _ = ACTIVATIONS[recurrent_activation]
    g, _ = ACTIVATIONS[activation]
    input_bias, recurrent_bias = _split_bias(bias, h.shape[1], reset_after)
    x_z, x_r, x_c = _gates(x @ kernel + input_bias)
    R_z, R_r, R_c = _gates(recurrent_kernel)
    q_z, q_r, q_c = _gates(recurrent_bias)
    h_z, h_r, h_c = dropped(h, recurrent_dropout_mask, 3)

    z_bar = x_z + h_z @ R_z + q_z
    r_bar = x_r + h_r @ R_r + q_r
    z, r = f(z_bar), f(r_bar)
    if reset_after:
        s = h_c @ R_c + q_c
        c_bar = x_c + r * s
    else:
        s = None
        c_bar = x_c + (r * h_c) @ R_c
    c = g(c_bar)
    return z_bar, r_bar, c_bar, CellOutput(z, r, c, z * h + (1.0 - z) * c, s)


def gru_cell(
    x, h_prev, kernel, recurrent_kernel, bias=None, *, reset_after,
    activation="tanh", recurrent_activation="sigmoid",
    recurrent_dropout_mask=None,
):
    """One step in Keras' layout (gates z|r|c), both conventions.

    Args:
      x: [B, I].
      h_prev: [B, H].
      kernel: [I, 3H].
      recurrent_kernel: [H, 3H].
      bias: [2, 3H] (input, recurrent) with reset_after, else [3H]; or None.
      reset_after: where the reset gate acts, see the module's docstring.
      activation, recurrent_activation: names in ``ACTIVATIONS``.
      recurrent_dropout_mask: [3, B, H] for z, r, c; or None.

    Returns:
      CellOutput(z, r, c, h, s) in float64.

    Raises:
      ValueError: bias has a shape that does not go with reset_after.
    """
    return _before_activation(
        *as_float64(x, h_prev, kernel, recurrent_kernel, bias), reset_after,
        activation, recurrent_activation, *as_float64(recurrent_dropout_mask),
    )[3]


def gru_cell_grad(
    x, h_prev, kernel, recurrent_kernel, bias=None, *, d_h, d_z=0.0, d_r=0.0,
    d_c=0.0, reset_after, activation="tanh", recurrent_activation="sigmoid",
    recurrent_dropout_mask=None,
):
    """Gradient of ``gru_cell`` for gradients of h and of the gates.

    Args:
      d_h, d_z, d_r, d_c: [B, H], or 0 where nothing arrives.
      the others: as in ``gru_cell``.

    Returns:
      A dict of float64 arrays: the gradient of each input under its name
      ("bias" is None when there is none), those before the activations,
      "z_bar", "r_bar", "c_bar", and with reset_after "s", each [B, H].
    """
    x, h_prev, kernel, recurrent_kernel, bias, mask, d_h, d_z, d_r, d_c = (
        as_float64(x, h_prev, kernel, recurrent_kernel, bias,
                   recurrent_dropout_mask, d_h, d_z, d_r, d_c)
    )
    _, f_prime = ACTIVATIONS[recurrent_activation]
    _, g_prime = ACTIVATIONS[activation]
    z_bar, r_bar, c_bar, (z, r, c, _, s) = _before_activation(
        x, h_prev, kernel, recurrent_kernel, bias, reset_after, activation,
        recurrent_activation, mask,
    )
    R_z, R_r, R_c = _gates(recurrent_kernel)
    h_z, h_r, h_c = dropped(h_prev, mask, 3)
    m_z, m_r, m_c = (1.0, 1.0, 1.0) if mask is None else mask

    d_c_bar = (d_c + d_h * (1.0 - z)) * g_prime(c_bar)
    d_z_bar = (d_z + d_h * (h_prev - c)) * f_prime(z_bar)
    if reset_after:
        d_s = d_c_bar * r
        d_r_bar = (d_r + d_c_bar * s) * f_prime(r_bar)
        through_candidate = (d_s @ R_c.T) * m_c
        d_R_c = h_c.T @ d_s
    else:
        d_s = None
        d_p = (d_c_bar @ R_c.T) * m_c
        d_r_bar = (d_r + d_p * h_prev) * f_prime(r_bar)
        through_candidate = d_p * r
        d_R_c = (r * h_c).T @ d_c_bar

    gates = np.concatenate([d_z_bar, d_r_bar, d_c_bar], axis=1)
    d_bias = None
    if bias is not None:
        d_bias = gates.sum(axis=0)
        if reset_after:
            recurrent_gates = np.concatenate([d_z_bar, d_r_bar, d_s], axis=1)
            d_bias = np.stack([d_bias, recurrent_gates.sum(axis=0)])
    result = {
        "x": gates @ kernel.T,
        "h_prev": d_h * z + (d_z_bar @ R_z.T) * m_z + (d_r_bar @ R_r.T) * m_r
        + through_candidate,
        "kernel": x.T @ gates,
        "recurrent_kernel": np.concatenate(
            [h_z.T @ d_z_bar, h_r.T @ d_r_bar, d_R_c], axis=1
        ),
        "bias": d_bias,
        "z_bar": d_z_bar,
        "r_bar": d_r_bar,
        "c_bar": d_c_bar,
    }
    if reset_after:
        result["s"] = d_s
    return result
