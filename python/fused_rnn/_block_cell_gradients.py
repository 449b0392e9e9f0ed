"""Registered gradients of the block cells' ops."""

from __future__ import annotations

import tensorflow as tf

from fused_rnn import _library
from fused_rnn._gradients import dense, skipped, surely_zero

_ops = _library.load()


def _unless_zero(*d_gates) -> list:
    """Incoming gradients as the ops take them: all, or none."""
    return [] if all(surely_zero(d) for d in d_gates) else list(d_gates)


def _gru_block_cell_grad(op, d_r, d_u, d_c, d_h):
    x, h_prev, w_ru, w_c, b_ru, b_c = op.inputs
    r, u, c, _ = op.outputs
    *d_gates, d_h = dense(d_r, d_u, d_c, d_h)
    d_gates = _unless_zero(*d_gates)
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


def _gru_block_cell_grad_grad(op, e_x, e_h_prev, e_c_bar, e_r_bar_u_bar):
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


def _weight_grad_grad(x, h, d_bar, e_w, e_b):
    """Gradients of x, h and D in [x h]ᵀ·D, which is linear in each factor, and
    in the bias' sum over the rows of D, which hands what arrives to each."""
    g_x, g_h = tf.split(
        tf.matmul(d_bar, e_w, transpose_b=True),
        [tf.shape(x)[1], tf.shape(h)[1]], axis=1,
    )
    return g_x, g_h, tf.matmul(tf.concat([x, h], axis=1), e_w) + e_b


@tf.RegisterGradient("FusedRNN>GRUBlockCellWeightGrad")
def _gru_block_cell_weight_grad_grad(op, e_w_ru, e_w_c, e_b_ru, e_b_c):
    e_w_ru, e_w_c, e_b_ru, e_b_c = dense(e_w_ru, e_w_c, e_b_ru, e_b_c)
    x, h_prev, r, d_c_bar, d_r_bar_u_bar = op.inputs
    p_x, p_h, g_r_bar_u_bar = _weight_grad_grad(
        x, h_prev, d_r_bar_u_bar, e_w_ru, e_b_ru
    )
    q_x, q_h, g_c_bar = _weight_grad_grad(
        x, h_prev * r, d_c_bar, e_w_c, e_b_c
    )
    return p_x + q_x, p_h + q_h * r, q_h * h_prev, g_c_bar, g_r_bar_u_bar


# The library's ops, and TensorFlow's own of the same name, which the library's
# kernels take over.
for _name in ("GRUBlockCell", "FusedRNN>GRUBlockCell"):
    tf.RegisterGradient(_name)(_gru_block_cell_grad)
    tf.RegisterGradient(_name + "Grad")(_gru_block_cell_grad_grad)


def _sum_over_rows(a, b):
    """The sum of a∘b over the batch; half types are summed in float32."""
    compute = tf.float64 if a.dtype == tf.float64 else tf.float32
    return tf.cast(
        tf.reduce_sum(tf.cast(a, compute) * tf.cast(b, compute), axis=0),
        a.dtype,
    )


# TensorFlow's own op of that name has no gradient otherwise.
@tf.RegisterGradient("LSTMBlockCell")
@tf.RegisterGradient("FusedRNN>LSTMBlockCell")
def _lstm_block_cell_grad(op, d_i, d_cs, d_f, d_o, d_ci, d_co, d_h):
    x, cs_prev, h_prev, *_ = op.inputs
    i, cs, f, o, ci, _, _ = op.outputs
    d_cs, d_h, *d_gates = dense(d_cs, d_h, d_i, d_f, d_o, d_ci, d_co)
    use_peephole = op.get_attr("use_peephole")
    d_x, d_cs_prev, d_h_prev, d_gates_bar = (
        _ops.fused_rnn_lstm_block_cell_grad(
            *op.inputs, i, cs, f, o, ci, d_cs, d_h, _unless_zero(*d_gates),
            cell_clip=op.get_attr("cell_clip"), use_peephole=use_peephole,
        )
    )
    unwanted = skipped(op)
    d_w = d_b = None
    if not unwanted.issuperset((3, 7)):
        d_w, d_b = _ops.fused_rnn_lstm_block_cell_weight_grad(
            x, h_prev, d_gates_bar
        )
    peepholes = [None] * 3
    if use_peephole and not unwanted.issuperset((4, 5, 6)):
        d_i_bar, _, d_f_bar, d_o_bar = tf.split(d_gates_bar, 4, axis=1)
        peepholes = [
            _sum_over_rows(d_i_bar, cs_prev), _sum_over_rows(d_f_bar, cs_prev),
            _sum_over_rows(d_o_bar, cs),
        ]
    return d_x, d_cs_prev, d_h_prev, d_w, *peepholes, d_b


@tf.RegisterGradient("FusedRNN>LSTMBlockCellGrad")
def _lstm_block_cell_grad_grad(op, e_x, e_cs_prev, e_h_prev, e_bar):
    """Differentiates, line by line, what LSTMBlockCellGrad computes.

    With co = tanh(cs), and s the gradient of the sum that cs is, before it was
    cut off:

        d_ō = m ∘ o∘(1−o)             m = d_o + d_h∘co
        s = n∘(1−co²) + d_cs + d_ō∘wco, zero where |cs| ≥ cell_clip
                                      n = d_co + d_h∘o
        d_ī = p ∘ i∘(1−i)             p = d_i + s∘ci
        d_f̄ = q ∘ f∘(1−f)             q = d_f + s∘cs_prev
        d_c̄ī = k ∘ (1−ci²)            k = d_ci + s∘i
        d_cs_prev = s∘f + d_ī∘wci + d_f̄∘wcf
        [d_x d_h_prev] = [d_ī d_c̄ī d_f̄ d_ō]·wᵀ

    e_v is the gradient that arrives at v, g_v what this function returns for v.
    The gates and cs are inputs here, as in GRUBlockCellGrad's.
    """
    e_x, e_cs_prev, e_h_prev, e_bar = dense(e_x, e_cs_prev, e_h_prev, e_bar)
    (
        _, cs_prev, _, w, wci, wcf, wco, _, i, cs, f, o, ci, d_cs, d_h,
        *d_gates,
    ) = op.inputs
    d_i, d_f, d_o, d_ci, d_co = d_gates or [0.0] * 5
    d_bar = op.outputs[3]
    d_i_bar, _, d_f_bar, d_o_bar = tf.split(d_bar, 4, axis=1)
    use_peephole = op.get_attr("use_peephole")
    if not use_peephole:
        wci = wcf = wco = 0.0
    clip = tf.constant(op.get_attr("cell_clip"), cs.dtype)

    def where_not_clipped(value):
        if op.get_attr("cell_clip") <= 0:
            return value
        return tf.where(abs(cs) < clip, value, tf.zeros_like(value))

    co = tf.tanh(cs)
    m = d_o + d_h * co
    n = d_co + d_h * o
    s = where_not_clipped(n * (1.0 - co * co) + d_cs + d_o_bar * wco)
    p = d_i + s * ci
    q = d_f + s * cs_prev
    k = d_ci + s * i

    e_xh = tf.concat([e_x, e_h_prev], axis=1)
    e_i_bar, e_ci_bar, e_f_bar, e_o_bar = tf.split(
        e_bar + tf.matmul(e_xh, w), 4, axis=1
    )
    e_i_bar += e_cs_prev * wci
    e_f_bar += e_cs_prev * wcf
    e_p = e_i_bar * i * (1.0 - i)
    e_q = e_f_bar * f * (1.0 - f)
    e_k = e_ci_bar * (1.0 - ci * ci)
    e_s = where_not_clipped(
        e_p * ci + e_q * cs_prev + e_k * i + e_cs_prev * f
    )
    e_n = e_s * (1.0 - co * co)
    e_o_bar += e_s * wco
    e_m = e_o_bar * o * (1.0 - o)

    g_i = e_i_bar * p * (1.0 - 2.0 * i) + e_k * s
    g_f = e_f_bar * q * (1.0 - 2.0 * f) + e_cs_prev * s
    g_o = e_o_bar * m * (1.0 - 2.0 * o) + e_n * d_h
    g_ci = -2.0 * e_ci_bar * k * ci + e_p * s
    g_cs = (e_m * d_h - 2.0 * e_s * n * co) * (1.0 - co * co)
    g_cs_prev = e_q * s
    g_w = tf.matmul(e_xh, d_bar, transpose_a=True)
    g_peepholes = [None] * 3
    if use_peephole:
        g_peepholes = [
            _sum_over_rows(e_cs_prev, d_i_bar),
            _sum_over_rows(e_cs_prev, d_f_bar), _sum_over_rows(e_s, d_o_bar),
        ]
    g_d_h = e_m * co + e_n * o
    g_d_gates = [e_p, e_q, e_m, e_k, e_n] if d_gates else []
    # x, h_prev and b enter the forward op alone.
    return [
        None, g_cs_prev, None, g_w, *g_peepholes, None, g_i, g_cs, g_f, g_o,
        g_ci, e_s, g_d_h, *g_d_gates,
    ]


@tf.RegisterGradient("FusedRNN>LSTMBlockCellWeightGrad")
def _lstm_block_cell_weight_grad_grad(op, e_w, e_b):
    return _weight_grad_grad(*op.inputs, *dense(e_w, e_b))
