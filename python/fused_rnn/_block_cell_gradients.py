"""Registered gradients of the block cells' ops."""

from __future__ import annotations

import tensorflow as tf

from fused_rnn import _library
from fused_rnn._gradients import dense, skipped, surely_zero

_ops = _library.load()


def _block_cell_grad(op, d_r, d_u, d_c, d_h):
    x, h_prev, w_ru, w_c, b_ru, b_c = op.inputs
    r, u, c, _ = op.outputs
    *d_gates, d_h = dense(d_r, d_u, d_c, d_h)
    if all(surely_zero(d) for d in d_gates):
        d_gates = []
    d_x, d_h_prev, d_c_bar, d_r_bar_u_bar = (
        _ops.fused_rnn_gru_block_cell_grad(
            x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h, d_gates
        )
    )
    weights = [None] * 4
    if not skipped(op).issuperset(range(2, 6)):
        weights = _ops.fused_rnn_gru_block_cell_weight_grad(
            x, h_prev, r, d_c_bar, d_r_bar_u_bar
        )
    return d_x, d_h_prev, *weights


def _block_cell_grad_grad(op, e_x, e_h_prev, e_c_bar, e_r_bar_u_bar):
    """Differentiates, line by line, what GRUBlockCellGrad computes.

    Write p for d_c̄·w_cᵀ and q for [d_r̄ d_ū]·w_ruᵀ, both [B, I+H] with the
    columns of x before those of the state:

        d_c̄ = k ∘ (1−c∘c)            k = d_c + d_h∘(1−u)
        d_r̄ = v ∘ r∘(1−r)            v = d_r + p_h∘h_prev
        d_ū = w ∘ u∘(1−u)            w = d_u + d_h∘(h_prev−c)
        d_x = p_x + q_x               d_h_prev = q_h + p_h∘r + d_h∘u

    e_v is the gradient that arrives at v, and so on; g_r what this function
    returns for r. r, u and c are inputs here, what they mean for x and the
    weights is the forward op's gradient. Everything below is TensorFlow's own
    ops, so that higher orders follow.
    """
    e_x, e_h_prev, e_c_bar, e_r_bar_u_bar = dense(
        e_x, e_h_prev, e_c_bar, e_r_bar_u_bar
    )
    x, h_prev, w_ru, w_c, _, _, r, u, c, d_h, *d_gates = op.inputs
    d_r, d_u, d_c = d_gates or (0.0, 0.0, 0.0)
    _, _, d_c_bar, d_r_bar_u_bar = op.outputs
    k = d_c + d_h * (1.0 - u)
    p_h = tf.matmul(d_c_bar, w_c[tf.shape(x)[1] :], transpose_b=True)
    v = d_r + p_h * h_prev
    w = d_u + d_h * (h_prev - c)

    e_q = tf.concat([e_x, e_h_prev], axis=1)
    e_r_bar, e_u_bar = tf.split(e_r_bar_u_bar + tf.matmul(e_q, w_ru), 2, axis=1)
    e_v = e_r_bar * r * (1.0 - r)
    e_w = e_u_bar * u * (1.0 - u)
    e_p = tf.concat([e_x, e_v * h_prev + e_h_prev * r], axis=1)
    e_c_bar = e_c_bar + tf.matmul(e_p, w_c)
    e_k = e_c_bar * (1.0 - c * c)

    g_h_prev = e_v * p_h + e_w * d_h
    g_w_ru = tf.matmul(e_q, d_r_bar_u_bar, transpose_a=True)
    g_w_c = tf.matmul(e_p, d_c_bar, transpose_a=True)
    g_r = e_r_bar * v * (1.0 - 2.0 * r) + e_h_prev * p_h
    g_u = e_u_bar * w * (1.0 - 2.0 * u) + (e_h_prev - e_k) * d_h
    g_c = -2.0 * e_c_bar * k * c - e_w * d_h
    g_d_h = e_w * (h_prev - c) + e_h_prev * u + e_k * (1.0 - u)
    g_d_gates = [e_v, e_w, e_k] if d_gates else []
    # x, b_ru and b_c enter the forward op alone.
    return [
        None, g_h_prev, g_w_ru, g_w_c, None, None, g_r, g_u, g_c, g_d_h,
        *g_d_gates,
    ]


@tf.RegisterGradient("FusedRNN>GRUBlockCellWeightGrad")
def _block_cell_weight_grad_grad(op, e_w_ru, e_w_c, e_b_ru, e_b_c):
    """With D and E for the gate gradients, [x h]ᵀ·D and [x r∘h]ᵀ·E are linear
    in each factor; the biases' sums hand what arrives to every row."""
    e_w_ru, e_w_c, e_b_ru, e_b_c = dense(e_w_ru, e_w_c, e_b_ru, e_b_c)
    x, h_prev, r, d_c_bar, d_r_bar_u_bar = op.inputs
    sizes = [tf.shape(x)[1], tf.shape(h_prev)[1]]
    p_x, p_h = tf.split(
        tf.matmul(d_r_bar_u_bar, e_w_ru, transpose_b=True), sizes, axis=1
    )
    q_x, q_h = tf.split(
        tf.matmul(d_c_bar, e_w_c, transpose_b=True), sizes, axis=1
    )
    g_r_bar_u_bar = tf.matmul(tf.concat([x, h_prev], axis=1), e_w_ru) + e_b_ru
    g_c_bar = tf.matmul(tf.concat([x, h_prev * r], axis=1), e_w_c) + e_b_c
    return p_x + q_x, p_h + q_h * r, q_h * h_prev, g_c_bar, g_r_bar_u_bar


# The library's ops, and TensorFlow's own of the same name, which the library's
# kernels take over.
for _name in ("GRUBlockCell", "FusedRNN>GRUBlockCell"):
    tf.RegisterGradient(_name)(_block_cell_grad)
    tf.RegisterGradient(_name + "Grad")(_block_cell_grad_grad)
