"""The sequences' gradient ops in TensorFlow's own ops.

Second derivatives are taken of these; the kernels compute the same, faster.
Everything runs in order of processing, as [T, B, ...]; half types are computed
in float32. Formulas and names follow the cells of ``reference``.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import tensorflow as tf


class Options(NamedTuple):
    """Attributes of the ops; those that an op lacks keep their default."""

    cell: str
    reset_after: bool = False
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


def _operands(h, dropout, gates):
    """The states that enter the product of each gate."""
    if dropout is None:
        return [h] * gates
    return [h * m for m in _factors(dropout, gates)]


def _factors(dropout, gates):
    """A factor of the state for each gate."""
    if dropout is None:
        return [1.0] * gates
    shape = tf.concat([[gates], tf.shape(dropout)[1:]], 0)
    return tf.unstack(tf.broadcast_to(dropout, shape), gates)


class _Weights:
    """Weights and recurrent dropout of a cell, gate by gate."""

    def __init__(
        self, options, gates, kernel, recurrent_kernel, bias, dropout
    ):
        self.gates = gates
        self._kernel = kernel
        self._recurrent = tf.split(recurrent_kernel, gates, axis=-1)
        self._bias, self._recurrent_bias = bias, None
        if options.reset_after and bias is not None:
            self._bias, self._recurrent_bias = bias[0], bias[1]
        self._dropout = dropout
        self._factors = _factors(dropout, gates)

    def sums(self, x, h):
        """x K + b and h R of each gate."""
        x_bar = tf.matmul(x, self._kernel)
        if self._bias is not None:
            x_bar += self._bias
        operands = _operands(h, self._dropout, self.gates)
        return tf.split(x_bar, self.gates, axis=-1), [
            tf.matmul(a, r) for a, r in zip(operands, self._recurrent)
        ]

    def recurrent_bias(self):
        if self._recurrent_bias is None:
            return [0.0] * self.gates
        return tf.split(self._recurrent_bias, self.gates)

    def product(self, gate, a):
        """a R of one gate, whatever enters it in place of the state."""
        return tf.matmul(a * self._factors[gate], self._recurrent[gate])

    def back(self, gate, d):
        """What a gate's gradient sends to what entered its product."""
        d = tf.matmul(d, self._recurrent[gate], transpose_b=True)
        return d * self._factors[gate]


def _activations(options):
    return (
        *_ACTIVATIONS[options.recurrent_activation],
        *_ACTIVATIONS[options.activation],
    )


# Each of these takes the states before all steps at once, and gives what a step
# backwards needs of them, and that step: from these values of one step and what
# arrives at its states to what leaves for the states before, and d_gates.


def _gru(options, valid, weights, x, h, c0):
    f, f_prime, g, g_prime = _activations(options)
    (x_z, x_r, x_c), (h_z, h_r, h_c) = weights.sums(x, h)
    if options.reset_after:
        q_z, q_r, q_c = weights.recurrent_bias()
        h_z, h_r, s = h_z + q_z, h_r + q_r, h_c + q_c
    z, r = f(x_z + h_z), f(x_r + h_r)
    if options.reset_after:
        c = g(x_c + r * s)
    else:
        s = tf.zeros_like(r)
        c = g(x_c + weights.product(2, r * h))
    values = {
        "h": h, "z": z, "r": r, "c": c, "s": s, "f_z": f_prime(z),
        "f_r": f_prime(r), "g_c": g_prime(c),
    }

    def back(e, d_h):
        d_c = d_h * (1.0 - e["z"]) * e["g_c"]
        d_z = d_h * (e["h"] - e["c"]) * e["f_z"]
        if options.reset_after:
            last = d_c * e["r"]
            d_r = d_c * e["s"] * e["f_r"]
            through_c = weights.back(2, last)
        else:
            last = e["r"]
            d_p = weights.back(2, d_c)
            d_r = d_p * e["h"] * e["f_r"]
            through_c = d_p * e["r"]
        d_before = (
            d_h * e["z"] + through_c + weights.back(0, d_z)
            + weights.back(1, d_r)
        )
        return [d_before], tf.concat([d_z, d_r, d_c, last], axis=-1)

    return values, back


def _lstm(options, valid, weights, x, h, c0):
    f, f_prime, g, g_prime = _activations(options)
    i, forget, j, o = (a + b for a, b in zip(*weights.sums(x, h)))
    i, forget, j, o = f(i), f(forget), g(j), f(o)
    c = _cell_states(forget, i * j, c0, valid)
    y = g(forget * c + i * j)
    values = {
        "c": c, "i": i, "f": forget, "j": j, "o": o, "y": y, "f_i": f_prime(i),
        "f_f": f_prime(forget), "g_j": g_prime(j), "f_o": f_prime(o),
        "g_y": g_prime(y),
    }

    def back(e, d_h, d_c):
        d_c = d_c + d_h * e["o"] * e["g_y"]
        d_gates = [
            d_c * e["j"] * e["f_i"],
            d_c * e["c"] * e["f_f"],
            d_c * e["i"] * e["g_j"],
            d_h * e["y"] * e["f_o"],
        ]
        d_before = tf.add_n([weights.back(*gate) for gate in enumerate(d_gates)])
        return [d_before, d_c * e["f"]], tf.concat(d_gates, axis=-1)

    return values, back


def _cell_states(kept, added, c0, valid):
    """The cell state before each step of c <- kept * c + added."""
    if valid is not None:
        kept = tf.where(valid, kept, tf.ones_like(kept))
        added = _where(valid, added)
    if c0 is None:
        c0 = tf.zeros_like(added[0])
    after = tf.scan(lambda c, step: step[0] * c + step[1], (kept, added), c0)
    return tf.concat([c0[tf.newaxis], after], 0)[:-1]


def _simple_rnn(options, valid, weights, x, h, c0):
    _, _, g, g_prime = _activations(options)
    ((x_bar,), (h_bar,)) = weights.sums(x, h)

    def back(e, d_h):
        d_gate = d_h * e["g"]
        return [weights.back(0, d_gate)], d_gate

    return {"g": g_prime(g(x_bar + h_bar))}, back


class _Cell(NamedTuple):
    gates: int
    slots: int  # of d_gates
    states: int
    steps: Callable


_CELLS = {
    "GRU": _Cell(3, 4, 1, _gru),
    "LSTM": _Cell(4, 4, 2, _lstm),
    "SimpleRNN": _Cell(1, 1, 1, _simple_rnn),
}


def _grad(
    options, mask, *, x, h0, kernel, recurrent_kernel, bias,
    recurrent_dropout_mask, outputs, d_outputs, d_state, c0=None,
    d_cell_state=None,
):
    """The gradients of the first states, and d_gates."""
    cell = _CELLS[options.cell]
    valid = _valid(mask, options)
    x = _where(valid, _steps(x, options, True))
    outputs = _steps(outputs, options, False)
    zeros = tf.zeros(tf.shape(outputs)[1:], outputs.dtype)
    no_gates = tf.tile(zeros, [1, cell.slots])
    arrived = [
        zeros if d is None else d
        for d in (d_state, d_cell_state)[: cell.states]
    ]
    if d_outputs is None:
        d_outputs = tf.zeros_like(outputs)
    else:
        d_outputs = _steps(d_outputs, options, False)
    weights = _Weights(
        options, cell.gates, kernel, recurrent_kernel, bias,
        recurrent_dropout_mask,
    )

    def backward():
        h_prev = _previous_states(outputs, h0, valid)
        elements, back = cell.steps(options, valid, weights, x, h_prev, c0)
        elements["d"] = d_outputs
        if valid is not None:
            elements["valid"] = valid

        def step(state, e):
            *d_next, repeated, _ = state
            # What arrived at outputs that repeated this one belongs to it.
            d_h = d_next[0] + repeated + e["d"]
            d_before, d_gates = back(e, d_h, *d_next[1:])
            if valid is None:
                return *d_before, repeated, d_gates
            if not options.zero_output_for_mask:
                repeated = tf.where(e["valid"], zeros, repeated + e["d"])
            d_before = [
                tf.where(e["valid"], before, after)
                for before, after in zip(d_before, d_next)
            ]
            return *d_before, repeated, _where(e["valid"], d_gates)

        *d_states, _, d_gates = tf.scan(
            step, elements, (*arrived, zeros, no_gates), reverse=True
        )
        return *(d[0] for d in d_states), d_gates

    # A scan over no steps cannot tell the shape of its results.
    steps = tf.shape(d_outputs)[0]

    def no_step():
        return *arrived, no_gates[tf.newaxis][:steps]

    known = d_outputs.shape[0]
    if known is None:
        return tf.cond(steps > 0, backward, no_step)
    return backward() if known > 0 else no_step()


def _input_grad(options, mask, *, kernel, d_gates):
    """d_x."""
    d_x_bar = _where(_valid(mask, options), d_gates)[..., : tf.shape(kernel)[1]]
    d_x = _steps_back(tf.matmul(d_x_bar, kernel, transpose_b=True), options)
    return (d_x,)


def _steps_back(steps, options):
    """The inverse of ``_steps`` for a sequence like x."""
    if options.go_backwards:
        steps = tf.reverse(steps, [0])
    return steps if options.time_major else tf.transpose(steps, [1, 0, 2])


def _weight_grad(
    options, mask, *, x, h0, recurrent_dropout_mask, outputs, d_gates
):
    """d_kernel, d_recurrent_kernel and d_bias."""
    cell = _CELLS[options.cell]
    valid = _valid(mask, options)
    x = _where(valid, _steps(x, options, True))
    h_prev = _previous_states(_steps(outputs, options, False), h0, valid)
    d_gates = tf.split(_where(valid, d_gates), cell.slots, axis=-1)
    lefts = _operands(h_prev, recurrent_dropout_mask, cell.gates)
    rights = d_gates[: cell.gates]
    d_x_bar = tf.concat(rights, axis=-1)
    if options.reset_after:
        rights[2] = d_gates[3]
    elif options.cell == "GRU":
        lefts[2] = d_gates[3] * lefts[2]  # r.

    def product(a, b):
        return tf.einsum("tbi,tbj->ij", a, b)

    d_recurrent_kernel = tf.concat(
        [product(a, b) for a, b in zip(lefts, rights)], axis=-1
    )
    d_bias = tf.reduce_sum(d_x_bar, [0, 1])
    if options.reset_after:
        d_h_bar = tf.concat(rights, axis=-1)
        d_bias = tf.stack([d_bias, tf.reduce_sum(d_h_bar, [0, 1])])
    return product(x, d_x_bar), d_recurrent_kernel, d_bias


_EXPRESSIONS = {
    "grad": _grad, "input_grad": _input_grad, "weight_grad": _weight_grad
}


@tf.function(autograph=False, reduce_retracing=True)
def gradient(name, options, mask, arguments, upstream):
    """The gradient of one of the gradient ops.

    Args:
      name: of the op: "grad", "input_grad" or "weight_grad".
      options: an Options.
      mask: [B, T] or None.
      arguments: the op's differentiable inputs by name, None where one is
        absent.
      upstream: the gradients that arrive at its results.

    Returns:
      A dict with a gradient for each argument, None where there is none.
    """
    dtype = upstream[0].dtype
    compute = tf.float64 if dtype == tf.float64 else tf.float32
    given = {n: a for n, a in arguments.items() if a is not None}
    with tf.GradientTape() as tape:
        tape.watch(given)
        results = _EXPRESSIONS[name](
            options, mask,
            **{
                n: None if a is None else tf.cast(a, compute)
                for n, a in arguments.items()
            },
        )
        results = [tf.cast(r, dtype) for r in results[: len(upstream)]]
    gradients = tape.gradient(
        results, given, list(upstream),
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return {n: gradients.get(n) for n in arguments}
