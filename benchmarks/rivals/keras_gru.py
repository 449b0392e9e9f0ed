"""Keras' GRU on TensorFlow, both conventions; with "jit" compiled by XLA."""

import sys

import worker


def load():
    import keras
    import tensorflow as tf

    import tensorflow_gru

    tensorflow_gru.limit_threads(tf)
    jit_compile = "jit" in sys.argv[1:]

    def prepare(case):
        layer = keras.layers.GRU(
            case.units, reset_after=case.reset_after, return_sequences=True,
            return_state=True,
        )
        layer.build((case.batch, case.steps, case.inputs))
        layer.set_weights(case.weights())

        def forward(x, h0, *_):
            return layer(x, initial_state=h0, training=case.training)

        variables = [v.value for v in layer.trainable_variables]
        return tensorflow_gru.computations(
            tf, case, forward, [tf.constant(case.x), tf.constant(case.h0),
                                *variables],
            jit_compile=jit_compile,
        )

    return {"Keras": keras.__version__, "TensorFlow": tf.__version__}, prepare


worker.serve(load)
