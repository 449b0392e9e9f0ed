"""Keras' layers on TensorFlow, a GRU's both conventions; with "jit" compiled by
XLA, with "unroll" without a loop."""

import sys

from fused_rnn.bench import worker

# Steps: to trace and optimise a longer graph takes minutes.
MAX_UNROLLED = 100


def load():
    import keras
    import tensorflow as tf

    import keras_layer
    import tensorflow_rnn

    tensorflow_rnn.limit_threads(tf)
    jit_compile, unroll = "jit" in sys.argv[1:], "unroll" in sys.argv[1:]

    def prepare(case):
        if unroll and case.steps > MAX_UNROLLED:
            raise worker.Unsupported("too long a graph")
        layer = keras_layer.build(keras, case, unroll=unroll)

        def forward(*arguments):
            x, states, _ = keras_layer.split(case, arguments)
            return layer(x, initial_state=states, training=case.training)

        x, states, _ = keras_layer.split(case, case.arguments())
        return tensorflow_rnn.computations(
            tf, case, forward,
            [*(tf.cast(array, case.dtype) for array in (x, *states)),
             *(v.value for v in layer.trainable_variables)],
            jit_compile=jit_compile,
        )

    return {"Keras": keras.__version__, "TensorFlow": tf.__version__}, prepare


worker.serve(load)
