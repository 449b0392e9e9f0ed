"""Derivatives of the sequence ops, of any order, and of what they must equal.

``rnn`` is a function like the package's: ``helpers_rnn.fused`` of a cell, or
``plain_rnn.plain``.
"""

import numpy as np
import tensorflow as tf
from helpers import rnn_arguments
from helpers_rnn import differentiable


def tensors_of(cell, seed=0, shape=(3, 4, 2, 3), **optional):
    """Tensors to differentiate by, and the other arguments."""
    values = rnn_arguments(cell, seed, *shape, np.float64, **optional)
    tensors = [
        tf.constant(values[name]) for name in differentiable(cell)
        if values[name] is not None
    ]
    others = {
        name: tf.constant(values[name])
        for name in ("mask", "recurrent_dropout_mask")
        if values[name] is not None
    }
    return tensors, dict(others, **cell.options)


def scalar(results):
    """Weighs all elements differently, and twice differentiably."""
    return sum(
        tf.reduce_sum(
            tf.sin(value + tf.reshape(
                tf.range(tf.size(value, tf.int64), dtype=value.dtype),
                tf.shape(value),
            ))
        )
        for value in results
    )


def assert_close(actual, expected):
    # Two float64 computations of a few thousand terms.
    for a, e in zip(actual, expected, strict=True):
        largest = np.max(np.abs(e), initial=1.0)
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-11 * largest)


def first_order(rnn, tensors, **options):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        loss = scalar(rnn(*tensors, **options))
    return tape.gradient(loss, tensors)


def second_order(rnn, tensors, **options):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        penalty = scalar(first_order(rnn, tensors, **options))
    return tape.gradient(penalty, tensors)


def third_order(rnn, tensors, **options):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        penalty = scalar(second_order(rnn, tensors, **options))
    return tape.gradient(penalty, tensors)


def jvp(rnn, tensors, **options):
    tangents = [tf.cos(tensor) for tensor in tensors]
    with tf.autodiff.ForwardAccumulator(tensors, tangents) as accumulator:
        results = rnn(*tensors, **options)
    return [accumulator.jvp(result) for result in results]


def hessian_product(rnn, tensors, **options):
    tangents = [tf.cos(tensor) for tensor in tensors]
    with tf.autodiff.ForwardAccumulator(tensors, tangents) as accumulator:
        gradients = first_order(rnn, tensors, **options)
    return [accumulator.jvp(gradient) for gradient in gradients]
