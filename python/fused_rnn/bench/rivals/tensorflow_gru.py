"""fused_rnn.gru inside tf.function, and what all workers on TensorFlow share.

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
    """(call, read) of a function from arguments to (outputs, state).

    Everything is [B, T, ...]. Variables among the arguments are read inside
    the function, as a layer's are.
    """

    def results(outputs, state, gradients=()):
        names = ("d_x", "d_h0", "d_kernel", "d_recurrent_kernel", "d_bias")
        return {
            "outputs": outputs.numpy(), "state": state.numpy(),
            **{name: gradient.numpy()
               for name, gradient in zip(names, gradients)},
        }

    x, h0, *weights = arguments
    if not case.training:
        infer = tf.function(
            lambda x, h0: forward(x, h0, *weights), jit_compile=jit_compile
        )
        return lambda: infer(x, h0), lambda result: results(*result)

    @tf.function(jit_compile=jit_compile)
    def train(x, h0, d_outputs):
        with tf.GradientTape() as tape:
            tape.watch([x, h0])
            outputs, state = forward(x, h0, *weights)
        gradients = tape.gradient(
            outputs, [x, h0, *weights], output_gradients=d_outputs
        )
        return outputs, state, gradients

    d_outputs = tf.cast(case.d_outputs, case.dtype)
    return lambda: train(x, h0, d_outputs), lambda result: results(*result)


def load():
    os.environ["FUSED_RNN_NO_TENSORFLOW"] = "0"
    import tensorflow as tf

    limit_threads(tf)
    import fused_rnn

    def branches(case, arguments):
        @tf.function
        def both(x, h0, *weights):
            first = fused_rnn.gru(
                x, h0, *weights, reset_after=case.reset_after
            )
            wait = [first.state] if case.mode == "sequential" else []
            with tf.control_dependencies(wait):
                second = fused_rnn.gru(
                    x, h0, *weights, reset_after=case.reset_after,
                    go_backwards=True,
                )
            return first, second

        return lambda: both(*arguments), lambda result: {}

    def prepare(case):
        x, h0 = tf.cast(case.x, case.dtype), tf.cast(case.h0, case.dtype)
        weights = [
            tf.Variable(tf.cast(array, case.dtype)) for array in case.weights()
        ]
        if case.mode in ("parallel", "sequential"):
            return branches(case, [x, h0, *weights])
        mask = tf.constant(case.mask) if case.has("mask") else None

        def forward(x, h0, *weights):
            return fused_rnn.gru(
                x, h0, *weights, reset_after=case.reset_after, mask=mask
            )

        return computations(tf, case, forward, [x, h0, *weights])

    versions = {
        "fused_rnn": fused_rnn.__version__, "TensorFlow": tf.__version__
    }
    return versions, prepare


if __name__ == "__main__":
    worker.serve(load)
