"""What the oracle's cells share: notation, rules, activations, sums of gates.

Notation. ``∘`` is the elementwise product, ``·`` the matrix product. B rows of
a batch, T steps, I inputs, H units. h (and in an LSTM c) is the state before a
step, h' (and c') the state after it. f is the recurrent activation (usually
the logistic function σ), g the activation (usually tanh). A bar marks a value
before its activation, so z = f(z̄).

Rules. For a loss L write d_v = ∂L/∂v. Four rules are enough to derive every
gradient of the cells: v = a∘b gives d_a = d_v∘b and d_b = d_v∘a; v = f(a) gives
d_a = d_v∘f'(a); V = A·W gives d_A = d_V·Wᵀ and d_W = Aᵀ·d_V; a value that is
used more than once gets the sum of what its uses send back. A cell's values
are outputs too, so that at each of them a gradient may arrive from outside.

Recurrent dropout multiplies the h that enters a gate's product by a mask m of
that gate, h∘m; by the first rule the mask multiplies what the product sends
back to h. The state that a cell carries on (z∘h of a GRU, the c of an LSTM) is
not masked. Keras draws one mask a gate for GRU and LSTM, one for SimpleRNN,
and keeps them for all steps of a call.
"""

import numpy as np


def sigmoid(a):
    # exp of a non-positive number cannot overflow.
    e = np.exp(-np.abs(a))
    return np.where(a >= 0, 1.0, e) / (1.0 + e)


def _elu(a):
    return np.where(a > 0, a, np.expm1(np.minimum(a, 0.0)))


# name -> (function, derivative), both of the value before the activation.
# hard_sigmoid is Keras 3's, relu6(a + 3) / 6. At a kink the derivative is the
# one that TensorFlow takes: 0 for relu and hard_sigmoid, 1 for elu.
ACTIVATIONS = {
    "tanh": (np.tanh, lambda a: 1.0 - np.tanh(a) ** 2),
    "sigmoid": (sigmoid, lambda a: sigmoid(a) * sigmoid(-a)),
    "relu": (lambda a: np.maximum(a, 0.0), lambda a: 1.0 * (a > 0)),
    "linear": (lambda a: a, np.ones_like),
    "hard_sigmoid": (
        lambda a: np.clip(a / 6.0 + 0.5, 0.0, 1.0),
        lambda a: (np.abs(a) < 3.0) / 6.0,
    ),
    "softsign": (
        lambda a: a / (1.0 + np.abs(a)),
        lambda a: 1.0 / (1.0 + np.abs(a)) ** 2,
    ),
    "elu": (_elu, lambda a: np.where(a >= 0, 1.0, np.exp(np.minimum(a, 0.0)))),
}


def as_float64(*arrays):
    return [None if a is None else np.asarray(a, np.float64) for a in arrays]


def check_bias(bias, expected, when=""):
    if bias is not None and bias.shape != expected:
        raise ValueError(
            f"bias: expected shape {expected}{when}, got {bias.shape}"
        )


def dropped(h, recurrent_dropout_mask, count):
    """The h that enters each gate's product, h∘m, a tuple of count."""
    if recurrent_dropout_mask is None:
        return (h,) * count
    expected = (count,) + h.shape
    if recurrent_dropout_mask.shape != expected:
        raise ValueError(
            f"recurrent_dropout_mask: expected shape {expected}, got "
            f"{recurrent_dropout_mask.shape}"
        )
    return tuple(h * m for m in recurrent_dropout_mask)


def gate_sums(x, h, kernel, recurrent_kernel, bias, mask, count):
    """x·K + (h∘m)·R + b of each gate, count times [B, H].

    Gates lie side by side in the columns of kernel [I, count·H],
    recurrent_kernel [H, count·H] and bias [count·H], which may be None.
    """
    check_bias(bias, (count * h.shape[1],))
    sums = x @ kernel if bias is None else x @ kernel + bias
    return [
        from_x + h_of_gate @ R
        for from_x, h_of_gate, R in zip(
            np.split(sums, count, axis=1), dropped(h, mask, count),
            np.split(recurrent_kernel, count, axis=1),
        )
    ]


def gate_sums_grad(d_sums, x, h, kernel, recurrent_kernel, bias, mask):
    """Gradient of ``gate_sums`` for those of its results.

        d_x = Σ_gates d·Kᵀ            d_K = xᵀ·d       d_b = Σ_batch d
        d_h = Σ_gates (d·Rᵀ)∘m        d_R = (h∘m)ᵀ·d

    Returns:
      A dict "x", "h_prev", "kernel", "recurrent_kernel", "bias" (None when
      there is none).
    """
    count = len(d_sums)
    gates = np.concatenate(d_sums, axis=1)
    masks = (1.0,) * count if mask is None else mask
    return {
        "x": gates @ kernel.T,
        "h_prev": sum(
            (d @ R.T) * m for d, R, m in zip(
                d_sums, np.split(recurrent_kernel, count, axis=1), masks
            )
        ),
        "kernel": x.T @ gates,
        "recurrent_kernel": np.concatenate(
            [hm.T @ d for hm, d in zip(dropped(h, mask, count), d_sums)],
            axis=1,
        ),
        "bias": None if bias is None else gates.sum(axis=0),
    }
