"""Threads of TensorFlow's pool, and many callers at once."""

import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf
from helpers import cell_arguments, gru_arguments, run_python

import fused_rnn

SESSIONS = """
    import hashlib, sys
    import numpy as np, tensorflow as tf, fused_rnn
    from helpers import cell_arguments, gru_arguments
    tf.compat.v1.disable_eager_execution()

    def cell(seed, *shape):
        inputs = cell_arguments(seed, *shape, np.float32)
        tensors = [tf.constant(value) for value in inputs.values()]
        outputs = list(fused_rnn.gru_block_cell(*tensors))
        # Not the weights' gradients: TensorFlow computes those.
        return outputs + tf.gradients(outputs, tensors[:2])

    def gru(seed, *shape, reset_after):
        values = gru_arguments(
            seed, *shape, np.float32, reset_after=reset_after, mask=True)
        tensors = {n: tf.constant(v) for n, v in values.items()
                   if v is not None}
        outputs = list(fused_rnn.gru(
            **tensors, reset_after=reset_after, training=True))
        names = ["x", "h0", "kernel", "recurrent_kernel", "bias"]
        return outputs + tf.gradients(outputs, [tensors[n] for n in names])

    for threads in (1, 2, 4, 8):
        digest = hashlib.sha256()
        for function, shape, options in [
            (cell, (1, 300, 700), {}),
            (cell, (3, 64, 256), {}),
            (cell, (67, 130, 200), {}),
            (cell, (256, 40, 33), {}),
            (gru, (1, 20, 100, 300), dict(reset_after=True)),
            (gru, (1, 20, 100, 300), dict(reset_after=False)),
            (gru, (3, 9, 64, 128), dict(reset_after=True)),
            (gru, (37, 9, 30, 70), dict(reset_after=False)),
            (gru, (64, 5, 20, 33), dict(reset_after=True)),
        ]:
            with tf.Graph().as_default():
                fetches = function(0, *shape, **options)
                config = tf.compat.v1.ConfigProto(
                    intra_op_parallelism_threads=threads)
                with tf.compat.v1.Session(config=config) as session:
                    for value in session.run(fetches):
                        digest.update(value.tobytes())
        print(digest.hexdigest())
"""


def test_same_bits_for_any_number_of_threads():
    # Gives every session a pool of its own instead of the process' first.
    output = run_python(SESSIONS, TF_OVERRIDE_GLOBAL_THREADPOOL=1)
    digests = output.split()
    assert len(digests) == 4 and len(set(digests)) == 1


def cell(index):
    values = cell_arguments(index, 1 + 33 * (index % 3), 20, 40, np.float32)
    return fused_rnn.gru_block_cell(**values).h


def sequence(index):
    reset_after = index % 2 == 0
    values = gru_arguments(
        index, 1 + 7 * (index % 3), 9, 20, 70, np.float32,
        reset_after=reset_after,
    )
    return fused_rnn.gru(**values, reset_after=reset_after).outputs


@pytest.mark.parametrize("call", [cell, sequence])
def test_many_at_once(call):
    """Branches of a graph in parallel, in graphs in parallel threads."""
    expected = [call(index).numpy() for index in range(6)]
    together = tf.function(lambda: [call(index) for index in range(6)])
    together()

    def check(_):
        for _ in range(10):
            for actual, wanted in zip(together(), expected):
                np.testing.assert_array_equal(actual, wanted)
            for index in range(6):
                np.testing.assert_array_equal(call(index), expected[index])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(check, range(4)))
