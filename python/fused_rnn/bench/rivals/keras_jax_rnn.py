"""Keras' layers on JAX, compiled by jit; a GRU's both conventions."""

from fused_rnn.bench import worker


def load():
    import os

    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    import jax_rnn
    import keras_layer

    def prepare(case):
        layer = keras_layer.build(keras, case)
        state = [v.value for v in layer.non_trainable_variables]

        def forward(*arguments):
            x, states, weights = keras_layer.split(case, arguments)
            found, _ = layer.stateless_call(
                weights, state, x, initial_state=states, training=case.training
            )
            return tuple(found)

        return jax_rnn.computations(
            jax, case, forward, jax_rnn.typed(jax, case, *case.arguments()),
            batch_major=True,
        )

    return {"Keras": keras.__version__, "JAX": jax.__version__}, prepare


worker.serve(load)
