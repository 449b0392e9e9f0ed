"""Keras' GRU on TensorFlow, both conventions; with "jit" compiled by XLA, with "unroll"
without a loop."""

import sys

from fused_rnn.bench import worker

# Steps: to trace and optimise a longer graph takes minutes.
MAX_UNROLLED = 100


def load():
    import keras
    import tensorflow as tf

    import tensorflow_gru

    tensorflow_gru.limit_threads(tf)
    jit_compile, unroll = "jit" in sys.argv[1:], "unroll" in sys.argv[1:]

    def prepare(case):
        if unroll and case.steps > MAX_UNROLLED:
            raise worker.Unsupported("too long a graph")
        layer = keras.layers.GRU(
            case.units, reset_after=case.reset_after, return_sequences=True,
            return_state=True, unroll=unroll, dtype=case.dtype,
        )
        layer.build((case.batch, case.steps, case.inputs))
        layer.set_weights(case.weights())

        def forward(x, h0, *_):
            return layer(x, initial_state=h0, training=case.training)

        variables = [v.value for v in layer.trainable_variables]
        return tensorflow_gru.computations(
            tf, case, forward,
            [tf.cast(case.x, case.dtype), tf.cast(case.h0, case.dtype),
             *variables],
            jit_compile=jit_compile,
        )

    return {"Keras": keras.__version__, "TensorFlow": tf.__version__}, prepare


worker.serve(load)
