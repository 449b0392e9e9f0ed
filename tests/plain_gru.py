"""The sequence in TensorFlow's own ops: what derivatives must equal."""

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


def plain_gru(
    x, h0, kernel, recurrent_kernel, bias, *, reset_after, mask=None,
    go_backwards=False, time_major=False, zero_output_for_mask=False,
    activation="tanh", recurrent_activation="sigmoid",
    recurrent_dropout_mask=None,
):
    """outputs and state, as ``fused_rnn.gru`` has them."""
    f, g = _ACTIVATIONS[recurrent_activation], _ACTIVATIONS[activation]
    steps = tf.unstack(x, axis=0 if time_major else 1)
    masks = [None] * len(steps) if mask is None else tf.unstack(mask, axis=1)
    order = range(len(steps))
    order = reversed(order) if go_backwards else order
    r_z, r_r, r_c = tf.split(recurrent_kernel, 3, axis=1)
    b_x = b_h = tf.zeros_like(kernel[0] if kernel.shape[0] else bias[0])
    if bias is not None:
        b_x, b_h = (bias[0], bias[1]) if reset_after else (bias, b_h)
    q_z, q_r, q_c = tf.split(b_h, 3)
    m_z, m_r, m_c = (
        (1.0, 1.0, 1.0) if recurrent_dropout_mask is None
        else tf.unstack(recurrent_dropout_mask)
    )
    h = h0
    outputs, output = [], tf.zeros_like(h0)
    for t in order:
        x_z, x_r, x_c = tf.split(steps[t] @ kernel + b_x, 3, axis=1)
        z = f(x_z + (h * m_z) @ r_z + q_z)
        r = f(x_r + (h * m_r) @ r_r + q_r)
        if reset_after:
            c = g(x_c + r * ((h * m_c) @ r_c + q_c))
        else:
            c = g(x_c + (r * h * m_c) @ r_c)
        new = z * h + (1.0 - z) * c
        if masks[t] is None:
            h = output = new
        else:
            valid = masks[t][:, tf.newaxis]
            h = tf.where(valid, new, h)
            repeated = tf.zeros_like(h) if zero_output_for_mask else output
            output = tf.where(valid, new, repeated)
        outputs.append(output)
    return tf.stack(outputs, axis=0 if time_major else 1), h
