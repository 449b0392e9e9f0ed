"""Threads of TensorFlow's pool, and many callers at once."""

import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf
from helpers import rnn_arguments, run_python
from helpers_block import BLOCK_CELLS
from helpers_rnn import CELLS, fused

SESSIONS = """
    import hashlib, sys
    import numpy as np, tensorflow as tf, fused_rnn
    from helpers import rnn_arguments
    from helpers_block import BLOCK_CELLS
    from helpers_rnn import CELLS, differentiable, fused
    tf.compat.v1.disable_eager_execution()

    def cell(seed, *shape, name="gru"):
        case = BLOCK_CELLS[name]
        inputs = case.arguments(seed, *shape, np.float32)
        tensors = {n: tf.constant(value) for n, value in inputs.items()}
        outputs = list(case.fused(*tensors.values()))
        # Not the peepholes' gradients: TensorFlow computes those.
        return outputs + tf.gradients(outputs, [
            tensor for n, tensor in tensors.items()
            if n not in ("wci", "wcf", "wco")])

    def sequence(seed, *shape, name):
        case = CELLS[name]
        values = rnn_arguments(case, seed, *shape, np.float32, mask=True)
        tensors = {n: tf.constant(v) for n, v in values.items()
                   if v is not None}
        outputs = list(fused(case)(**tensors, **case.options, training=True))
        return outputs + tf.gradients(
            outputs, [tensors[n] for n in differentiable(case)])

    for threads in (1, 2, 4, 8):
        digest = hashlib.sha256()
        for function, shape, options in [
            (cell, (1, 300, 700), {}),
            (cell, (3, 64, 256), {}),
            (cell, (67, 130, 200), {}),
            (cell, (256, 40, 33), {}),
            (cell, (1, 300, 700), dict(name="lstm")),
            (cell, (67, 130, 200), dict(name="lstm_peephole")),
            (sequence, (1, 20, 100, 300), dict(name="gru_after")),
            (sequence, (1, 20, 100, 300), dict(name="gru_before")),
            (sequence, (1, 20, 100, 300), dict(name="lstm")),
            (sequence, (1, 20, 100, 300), dict(name="simple_rnn")),
            (sequence, (3, 9, 64, 128), dict(name="gru_after")),
            (sequence, (3, 9, 64, 128), dict(name="lstm")),
            (sequence, (37, 9, 30, 70), dict(name="gru_before")),
            (sequence, (37, 9, 30, 70), dict(name="simple_rnn")),
            (sequence, (64, 5, 20, 33), dict(name="gru_after")),
            (sequence, (64, 5, 20, 33), dict(name="lstm")),
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
    case = list(BLOCK_CELLS.values())[index % 3]
    values = case.arguments(index, 1 + 33 * (index // 2), 20, 40, np.float32)
    return case.fused(*values.values()).h


def sequence(index):
    case = list(CELLS.values())[index % len(CELLS)]
    values = rnn_arguments(
        case, index, 1 + 7 * (index % 3), 9, 20, 70, np.float32
    )
    return fused(case)(**values, **case.options).outputs


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
