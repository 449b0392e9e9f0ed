"""fused_rnn's ops inside tf.function, and what all workers on TensorFlow share.

Modes beside inference and training: "parallel" and "sequential" run two
independent GRUs in one function, the second either free to run beside the
first or made to wait for it.
"""

import os

from fused_rnn.bench import worker


def limit_threads(tf):
    tf.config.threading.set_intra_op_parallelism_threads(worker.THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(worker.THREADS)


def computations(tf, case, forward, arguments, *, jit_compile=False):
    """(call, read) of a function from arguments to (outputs, *last states).

    Everything is [B, T, ...]. Variables among the arguments are read inside
    the function, as a layer's are.
    """

    def results(result):
        (outputs, *states), gradients = result
        return case.named(
            outputs.numpy(), [state.numpy() for state in states],
            [gradient.numpy() for gradient in gradients],
        )

    count = 1 + len(case.states)
    data, weights = arguments[:count], arguments[count:]
    if not case.training:

        @tf.function(jit_compile=jit_compile)
        def infer(*data):
            return tuple(forward(*data, *weights)), ()

        return lambda: infer(*data), results

    @tf.function(jit_compile=jit_compile)
    def train(d_outputs, *data):
        with tf.GradientTape() as tape:
            tape.watch(data)
            found = tuple(forward(*data, *weights))
        return found, tape.gradient(
            found[0], [*data, *weights], output_gradients=d_outputs
        )

    d_outputs = tf.cast(case.d_outputs, case.dtype)
    return lambda: train(d_outputs, *data), results


def load():
    os.environ["FUSED_RNN_NO_TENSORFLOW"] = "0"
    import tensorflow as tf

    limit_threads(tf)
    import fused_rnn

    def branches(case, arguments):
        @tf.function
        def both(*arguments):
            first = case.function(fused_rnn)(*arguments)
            wait = [first.state] if case.mode == "sequential" else []
            with tf.control_dependencies(wait):
                second = case.function(fused_rnn)(
                    *arguments, go_backwards=True
                )
            return first, second

        return lambda: both(*arguments), lambda result: {}

    def prepare(case):
        arguments = [tf.cast(array, case.dtype) for array in case.arguments()]
        count = 1 + len(case.states)
        arguments[count:] = map(tf.Variable, arguments[count:])
        if case.mode in ("parallel", "sequential"):
            return branches(case, arguments)
        mask = tf.constant(case.mask) if case.has("mask") else None

        def forward(*arguments):
            return case.function(fused_rnn)(*arguments, mask=mask)

        return computations(tf, case, forward, arguments)

    versions = {
        "fused_rnn": fused_rnn.__version__, "TensorFlow": tf.__version__
    }
    return versions, prepare


if __name__ == "__main__":
    worker.serve(load)
