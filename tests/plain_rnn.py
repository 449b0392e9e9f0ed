"""Sequences in TensorFlow's own ops: what derivatives must equal."""

import functools

import tensorflow as tf

_ACTIVATIONS = {
    "tanh": tf.tanh,
    "sigmoid": tf.sigmoid,
    "relu": tf.nn.relu,
    "linear": tf.identity,
    "hard_sigmoid": lambda a: tf.clip_by_value(a / 6.0 + 0.5, 0.0, 1.0),
    # TensorFlow's own softsign has no second derivative.
    "softsign": lambda a: a / (1.0 + tf.abs(a)),
    "elu": tf.nn.elu,
}


def _gru(f, g, x_bar, product, states, reset_after, recurrent_bias):
    (h,) = states
    x_z, x_r, x_c = x_bar
    q_z, q_r, q_c = recurrent_bias
    z = f(x_z + product(0, h) + q_z)
    r = f(x_r + product(1, h) + q_r)
    if reset_after:
        c = g(x_c + r * (product(2, h) + q_c))
    else:
        c = g(x_c + product(2, r * h))
    return [z * h + (1.0 - z) * c]


def _lstm(f, g, x_bar, product, states):
    h, c = states
    i, forget, j, o = (bar + product(k, h) for k, bar in enumerate(x_bar))
    c = f(forget) * c + f(i) * g(j)
    return [f(o) * g(c), c]


def _simple_rnn(f, g, x_bar, product, states):
    return [g(x_bar[0] + product(0, *states))]


_STEPS = {"gru": _gru, "lstm": _lstm, "simple_rnn": _simple_rnn}


def plain(cell):
    """A function like the package's, called as it is."""
    return functools.partial(_run, cell)


def _run(
    cell, x, *others, mask=None, go_backwards=False, time_major=False,
    zero_output_for_mask=False, activation="tanh",
    recurrent_activation="sigmoid", recurrent_dropout_mask=None, **options,
):
    """outputs and states, of which none may be absent at first."""
    *states, kernel, recurrent_kernel, bias = others
    f, g = _ACTIVATIONS[recurrent_activation], _ACTIVATIONS[activation]
    steps = tf.unstack(x, axis=0 if time_major else 1)
    masks = [None] * len(steps) if mask is None else tf.unstack(mask, axis=1)
    order = range(len(steps))
    order = reversed(order) if go_backwards else order
    recurrent = tf.split(recurrent_kernel, cell.gates, axis=1)
    if bias is None:
        bias = tf.zeros(cell.bias_shape(recurrent_kernel.shape[0]), x.dtype)
    drop = [1.0] * cell.gates
    if recurrent_dropout_mask is not None:
        shared = recurrent_dropout_mask.shape[0] == 1
        drop = tf.unstack(recurrent_dropout_mask) * (
            cell.gates if shared else 1
        )
    if cell.name == "gru":
        both = bias if options["reset_after"] else [bias, tf.zeros_like(bias)]
        bias, second = both[0], both[1]
        options["recurrent_bias"] = tf.split(second, cell.gates)

    def product(gate, h):
        return (h * drop[gate]) @ recurrent[gate]

    outputs, output = [], tf.zeros_like(states[0])
    for t in order:
        x_bar = tf.split(steps[t] @ kernel + bias, cell.gates, axis=1)
        new = _STEPS[cell.name](f, g, x_bar, product, states, **options)
        if masks[t] is None:
            states, output = new, new[0]
        else:
            valid = masks[t][:, tf.newaxis]
            repeated = tf.zeros_like(output) if zero_output_for_mask else output
            output = tf.where(valid, new[0], repeated)
            states = [tf.where(valid, n, s) for n, s in zip(new, states)]
        outputs.append(output)
    return tf.stack(outputs, axis=0 if time_major else 1), *states
