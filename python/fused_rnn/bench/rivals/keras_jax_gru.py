"""Keras' GRU on JAX, compiled by jit; both conventions."""

from fused_rnn.bench import worker


def load():
    import os

    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    import jax_gru

    def prepare(case):
        layer = keras.layers.GRU(
            case.units, reset_after=case.reset_after, return_sequences=True,
            return_state=True, dtype=case.dtype,
        )
        layer.build((case.batch, case.steps, case.inputs))
        layer.set_weights(case.weights())
        state = [v.value for v in layer.non_trainable_variables]

        def forward(x, h0, *weights):
            (outputs, last), _ = layer.stateless_call(
                weights, state, x, initial_state=h0, training=case.training
            )
            return outputs, last

        arguments = jax_gru.typed(
            jax, case, case.x, case.h0, *case.weights()
        )
        return jax_gru.computations(
            jax, case, forward, arguments, batch_major=True
        )

    return {"Keras": keras.__version__, "JAX": jax.__version__}, prepare


worker.serve(load)
