"""The sequence's gradient ops in TensorFlow's own ops.

Second derivatives are taken of these; the kernels compute the same, faster.
Everything runs in order of processing, as [T, B, ...]; half types are computed
in float32. Formulas and names follow ``reference.cell_gru``.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Options(NamedTuple):
    """Attributes of the ops; those that an op lacks keep their default."""

    reset_after: bool = True
    go_backwards: bool = False
    time_major: bool = False
    zero_output_for_mask: bool = False
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"


# name -> (function, its derivative in terms of its value).
_ACTIVATIONS = {
    "tanh": (tf.tanh, lambda y: 1.0 - y * y),
    "sigmoid": (tf.sigmoid, lambda y: y * (1.0 - y)),
    "relu": (tf.nn.relu, lambda y: tf.cast(y > 0.0, y.dtype)),
    "linear": (tf.identity, tf.ones_like),
    "hard_sigmoid": (
        lambda a: tf.clip_by_value(a / 6.0 + 0.5, 0.0, 1.0),
        lambda y: tf.cast((y > 0.0) & (y < 1.0), y.dtype) / 6.0,
    ),
    # TensorFlow's own softsign has no second derivative.
    "softsign": (
        lambda a: a / (1.0 + tf.abs(a)), lambda y: (1.0 - tf.abs(y)) ** 2
    ),
    "elu": (tf.nn.elu, lambda y: tf.where(y > 0.0, tf.ones_like(y), y + 1.0)),
}


def _steps(sequence, options, like_x):
    """A sequence in the op's layout -> [T, B, N] in order of processing."""
    if not options.time_major:
        sequence = tf.transpose(sequence, [1, 0, 2])
    if like_x and options.go_backwards:
        sequence = tf.reverse(sequence, [0])
    return sequence


def _valid(mask, options):
    """mask [B, T] -> [T, B, 1] in order of processing, or None."""
    if mask is None:
        return None
    mask = tf.transpose(mask)[:, :, tf.newaxis]
    return tf.reverse(mask, [0]) if options.go_backwards else mask


def _where(valid, value):
    """value, but zero at masked steps, also where it is not a number."""
    if valid is None:
        return value
    return tf.where(valid, value, tf.zeros_like(value))


def _previous_states(outputs, h0, valid):
    """The state before each step: the output of the last valid one, or h0."""
    if h0 is None:
        h0 = tf.zeros(tf.shape(outputs)[1:], outputs.dtype)
    first = h0[tf.newaxis]
    if valid is None:
        return tf.concat([first, outputs], 0)[:-1]
    # seen[t, b] valid steps precede t; the last of them is the one that a
    # stable sort with the valid steps in front puts at seen - 1.
    flags = tf.cast(valid[:, :, 0], tf.int32)
    seen = tf.transpose(tf.cumsum(flags, axis=0, exclusive=True))
    order = tf.argsort(tf.transpose(1 - flags), axis=1, stable=True)
    last = tf.gather(order, tf.maximum(seen - 1, 0), batch_dims=1)
    previous = tf.gather(tf.transpose(outputs, [1, 0, 2]), last, batch_dims=1)
    previous = tf.transpose(previous, [1, 0, 2])
    return tf.where(tf.transpose(seen)[:, :, tf.newaxis] > 0, previous, first)


def _dropped(h, dropout):
    """The states that enter the product of each gate."""
    if dropout is None:
        return h, h, h
    return tuple(h * m for m in tf.unstack(dropout, 3))


class _Gates(NamedTuple):
    z: tf.Tensor
    r: tf.Tensor
    c: tf.Tensor
    s: tf.Tensor  # The candidate's recurrent product; reset after only.


def _gates(options, x, h_prev, kernel, recurrent_kernel, bias, dropout):
    """The gates of all steps at once, from the states that preceded them."""
    f, _ = _ACTIVATIONS[options.recurrent_activation]
    g, _ = _ACTIVATIONS[options.activation]
    x_bar = tf.matmul(x, kernel)
    q_z = q_r = q_c = 0.0
    if bias is not None:
        x_bar += bias[0] if options.reset_after else bias
        if options.reset_after:
            q_z, q_r, q_c = tf.split(bias[1], 3)
    x_z, x_r, x_c = tf.split(x_bar, 3, axis=-1)
    r_z, r_r, r_c = tf.split(recurrent_kernel, 3, axis=-1)
    h_z, h_r, h_c = _dropped(h_prev, dropout)
    z = f(x_z + tf.matmul(h_z, r_z) + q_z)
    r = f(x_r + tf.matmul(h_r, r_r) + q_r)
    if options.reset_after:
        s = tf.matmul(h_c, r_c) + q_c
        return _Gates(z, r, g(x_c + r * s), s)
    return _Gates(z, r, g(x_c + tf.matmul(r * h_c, r_c)), tf.zeros_like(r))


def gru_grad(
    options, mask, x, h0, kernel, recurrent_kernel, bias, dropout, outputs,
    d_outputs, d_state,
):
    """d_h0 and d_gates of GRUGrad; d_outputs and d_state are not None."""
    valid = _valid(mask, options)
    x = _where(valid, _steps(x, options, True))
    outputs = _steps(outputs, options, False)
    d_outputs = _steps(d_outputs, options, False)
    h_prev = _previous_states(outputs, h0, valid)
    gates = _gates(options, x, h_prev, kernel, recurrent_kernel, bias, dropout)
    _, f_prime = _ACTIVATIONS[options.recurrent_activation]
    _, g_prime = _ACTIVATIONS[options.activation]
    r_z, r_r, r_c = tf.split(recurrent_kernel, 3, axis=-1)
    m_z, m_r, m_c = (
        (1.0, 1.0, 1.0) if dropout is None else tf.unstack(dropout, 3)
    )
    elements = {
        "d": d_outputs, "h": h_prev, **gates._asdict(),
        "f_z": f_prime(gates.z), "f_r": f_prime(gates.r),
        "g_c": g_prime(gates.c),
    }
    if valid is not None:
        elements["valid"] = valid

    def step(state, e):
        d_next, repeated, _ = state
        # What arrived at outputs that repeated this one belongs to it.
        d_h = d_next + repeated + e["d"]
        d_c = d_h * (1.0 - e["z"]) * e["g_c"]
        d_z = d_h * (e["h"] - e["c"]) * e["f_z"]
        if options.reset_after:
            last = d_c * e["r"]
            d_r = d_c * e["s"] * e["f_r"]
            through_c = tf.matmul(last, r_c, transpose_b=True) * m_c
        else:
            d_p = tf.matmul(d_c, r_c, transpose_b=True) * m_c
            d_r = d_p * e["h"] * e["f_r"]
            through_c = d_p * e["r"]
            last = e["r"]
        d_before = (
            d_h * e["z"] + through_c
            + tf.matmul(d_z, r_z, transpose_b=True) * m_z
            + tf.matmul(d_r, r_r, transpose_b=True) * m_r
        )
        d_gates = tf.concat([d_z, d_r, d_c, last], axis=-1)
        if valid is None:
            return d_before, repeated, d_gates
        if not options.zero_output_for_mask:
            repeated = tf.where(e["valid"], zeros, repeated + e["d"])
        return (
            tf.where(e["valid"], d_before, d_next), repeated,
            _where(e["valid"], d_gates),
        )

    zeros = tf.zeros_like(d_state)
    no_gates = tf.tile(zeros, [1, 4])

    def backward():
        d_states, _, d_gates = tf.scan(
            step, elements, (d_state, zeros, no_gates), reverse=True
        )
        return d_states[0], d_gates

    # A scan over no steps cannot tell the shape of its results.
    steps = tf.shape(d_outputs)[0]

    def no_step():
        return d_state, no_gates[tf.newaxis][:steps]

    known = d_outputs.shape[0]
    if known is None:
        return tf.cond(steps > 0, backward, no_step)
    return backward() if known > 0 else no_step()


def gru_input_grad(options, mask, kernel, d_gates):
    """d_x of GRUInputGrad."""
    d_x_bar = _where(_valid(mask, options), d_gates)[..., : tf.shape(kernel)[1]]
    d_x = _steps_back(tf.matmul(d_x_bar, kernel, transpose_b=True), options)
    return (d_x,)


def _steps_back(steps, options):
    """The inverse of ``_steps`` for a sequence like x."""
    if options.go_backwards:
        steps = tf.reverse(steps, [0])
    return steps if options.time_major else tf.transpose(steps, [1, 0, 2])


def gru_weight_grad(options, mask, x, h0, dropout, outputs, d_gates):
    """d_kernel, d_recurrent_kernel and d_bias of GRUWeightGrad."""
    valid = _valid(mask, options)
    x = _where(valid, _steps(x, options, True))
    h_prev = _previous_states(_steps(outputs, options, False), h0, valid)
    d_z, d_r, d_c, last = tf.split(_where(valid, d_gates), 4, axis=-1)
    h_z, h_r, h_c = _dropped(h_prev, dropout)
    if options.reset_after:
        d_s = last
    else:
        d_s = d_c
        h_c = last * h_c

    def product(a, b):
        return tf.einsum("tbi,tbj->ij", a, b)

    d_x_bar = tf.concat([d_z, d_r, d_c], axis=-1)
    d_kernel = product(x, d_x_bar)
    d_recurrent_kernel = tf.concat(
        [product(h_z, d_z), product(h_r, d_r), product(h_c, d_s)], axis=-1
    )
    d_bias = tf.reduce_sum(d_x_bar, [0, 1])
    if options.reset_after:
        d_h_bar = tf.concat([d_z, d_r, d_s], axis=-1)
        d_bias = tf.stack([d_bias, tf.reduce_sum(d_h_bar, [0, 1])])
    return d_kernel, d_recurrent_kernel, d_bias


_EXPRESSIONS = {
    "gru_grad": gru_grad,
    "gru_input_grad": gru_input_grad,
    "gru_weight_grad": gru_weight_grad,
}


@tf.function(autograph=False, reduce_retracing=True)
def gradient(name, options, mask, arguments, upstream):
    """The gradient of one of the expressions above.

    Args:
      name: of the expression.
      options: an Options.
      mask: [B, T] or None.
      arguments: tensors in the expression's order, None where one is absent.
      upstream: the gradients that arrive at its results.

    Returns:
      A gradient for each argument, None where there is none.
    """
    dtype = upstream[0].dtype
    compute = tf.float64 if dtype == tf.float64 else tf.float32

    def cast(values, to):
        return [None if v is None else tf.cast(v, to) for v in values]

    given = [a for a in arguments if a is not None]
    with tf.GradientTape() as tape:
        tape.watch(given)
        results = _EXPRESSIONS[name](options, mask, *cast(arguments, compute))
        results = cast(results[: len(upstream)], dtype)
    gradients = iter(
        tape.gradient(
            results, given, list(upstream),
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
    )
    return [None if a is None else next(gradients) for a in arguments]
