"""TensorFlow's own GRUBlockCell in a while loop: reset before."""

from fused_rnn.bench import worker


def load():
    import tensorflow as tf

    import block_cell
    import tensorflow_gru
    from fused_rnn import weights

    tensorflow_gru.limit_threads(tf)
    block_cell.register_gradient(tf)

    def loop(x, h0, w_ru, b_ru, w_c, b_c):
        steps = x.shape[0]
        inputs = tf.TensorArray(tf.float32, steps).unstack(x)
        outputs = tf.TensorArray(tf.float32, steps)

        def step(t, h, outputs):
            cell = tf.raw_ops.GRUBlockCell(
                x=inputs.read(t), h_prev=h, w_ru=w_ru, w_c=w_c, b_ru=b_ru,
                b_c=b_c,
            )
            return t + 1, cell.h, outputs.write(t, cell.h)

        _, last, outputs = tf.while_loop(
            lambda t, *_: t < steps, step, (0, h0, outputs),
            parallel_iterations=1, maximum_iterations=steps,
        )
        return outputs.stack(), last

    def prepare(case):
        if case.reset_after:
            raise worker.Unsupported("GRUBlockCell is reset before only")
        case.require("float32")
        converted = weights.keras_to_block_cell(*case.weights())
        variables = [tf.Variable(array) for array in converted]
        # Time-major, the layout that a loop over steps likes best.
        x, h0, d_outputs = (
            tf.constant(array) for array in (
                worker.time_major(case.x), case.h0,
                worker.time_major(case.d_outputs),
            )
        )
        if not case.training:
            infer = tf.function(lambda x, h0: loop(x, h0, *variables))
            return lambda: infer(x, h0), lambda result: results(*result)

        @tf.function
        def train(x, h0, d_outputs):
            with tf.GradientTape() as tape:
                tape.watch([x, h0])
                outputs, state = loop(x, h0, *variables)
            return outputs, state, tape.gradient(
                outputs, [x, h0, *variables], output_gradients=d_outputs
            )

        return lambda: train(x, h0, d_outputs), lambda result: results(*result)

    def results(outputs, state, gradients=()):
        values = {
            "outputs": outputs.numpy().swapaxes(0, 1), "state": state.numpy()
        }
        if gradients:
            d_x, d_h0, *d_weights = (value.numpy() for value in gradients)
            d_weights = weights.block_cell_to_keras(*d_weights)
            values |= {
                "d_x": d_x.swapaxes(0, 1), "d_h0": d_h0,
                "d_kernel": d_weights.kernel,
                "d_recurrent_kernel": d_weights.recurrent_kernel,
                "d_bias": d_weights.bias,
            }
        return values

    return {"TensorFlow": tf.__version__}, prepare


worker.serve(load)
