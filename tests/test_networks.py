"""The character models in plain NumPy against the fused ops, in float64."""

import pytest
from helpers_networks import check_against, every_network, stretches

tf = pytest.importorskip("tensorflow")

import fused_rnn  # noqa: E402


def op_loss(case, keras, dense, one_hot, targets, state):
    """Loss, gradients and states of the package's op, in float64."""
    keras, dense = (
        [tf.constant(value, tf.float64) for value in values]
        for values in (keras, dense)
    )
    with tf.GradientTape() as tape:
        tape.watch([keras, dense])
        outputs, *new = getattr(fused_rnn, case.name)(
            tf.constant(one_hot, tf.float64), *state, *keras, **case.options
        )
        W, b = dense
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                targets, outputs @ W + b
            )
        )
    assert loss.dtype == tf.float64
    d_keras, d_dense = tape.gradient(loss, [keras, dense])
    return loss, [d.numpy() for d in d_keras], d_dense, new


@every_network
@stretches
def test_equals_the_op(network, batch, steps):
    check_against(network, op_loss, batch, steps)
