"""TensorFlow's own kernels: GRUBlockCell in a while loop, reset before, and
BlockLSTMV2, the whole sequence of an LSTM in one op."""

import numpy as np

from fused_rnn.bench import worker


def load():
    import tensorflow as tf

    import block_cell
    import tensorflow_rnn
    from fused_rnn import weights

    tensorflow_rnn.limit_threads(tf)
    block_cell.register_gradient(tf)

    def gru(x, h0, w_ru, b_ru, w_c, b_c):
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

    @tf.custom_gradient
    def block_lstm(x, h0, c0, w, b):
        no_peephole = tf.zeros_like(b[:h0.shape[1]])
        about = dict(
            seq_len_max=tf.constant(x.shape[0], tf.int64), x=x, cs_prev=c0,
            h_prev=h0, w=w, b=b, wci=no_peephole, wcf=no_peephole,
            wco=no_peephole,
        )
        found = tf.raw_ops.BlockLSTMV2(**about, cell_clip=0)

        def gradient(d_h, d_cs):
            # What TensorFlow registers takes the gates in another order.
            d = tf.raw_ops.BlockLSTMGradV2(
                **about, **found._asdict(), cs_grad=d_cs, h_grad=d_h,
                use_peephole=False,
            )
            return d.x_grad, d.h_prev_grad, d.cs_prev_grad, d.w_grad, d.b_grad

        return (found.h, found.cs), gradient

    def lstm(x, h0, c0, w, b):
        h, cs = block_lstm(x, h0, c0, tf.identity(w), tf.identity(b))
        return h, h[-1], cs[-1]

    def prepare(case):
        case.require("float32")
        if case.cell == "gru" and not case.reset_after:
            forward = gru
            converted = weights.keras_to_block_cell(*case.weights())
            to_keras = weights.block_cell_to_keras
        elif case.cell == "lstm":
            forward = lstm
            # Its gates lie in Keras' order.
            converted = (
                tf.concat([case.kernel, case.recurrent_kernel], 0), case.bias
            )

            def to_keras(d_w, d_b):
                return *np.split(d_w, [case.inputs]), d_b
        elif case.cell == "rnn":
            raise worker.Unsupported("there is no kernel of a simple RNN")
        else:
            raise worker.Unsupported("GRUBlockCell is reset before only")
        variables = [tf.Variable(array) for array in converted]
        # Time-major, the layout that a loop over steps likes best.
        x = tf.constant(worker.time_major(case.x))
        states = [tf.constant(getattr(case, name)) for name in case.states]
        d_outputs = tf.constant(worker.time_major(case.d_outputs))
        def results(result):
            (outputs, *states), gradients = result
            if gradients:
                d_x, *others = (value.numpy() for value in gradients)
                d_states = others[:len(case.states)]
                gradients = [
                    d_x.swapaxes(0, 1), *d_states,
                    *to_keras(*others[len(case.states):]),
                ]
            return case.named(
                outputs.numpy().swapaxes(0, 1),
                [state.numpy() for state in states], gradients,
            )

        if not case.training:
            infer = tf.function(lambda *data: (forward(*data, *variables), ()))
            return lambda: infer(x, *states), results

        @tf.function
        def train(d_outputs, *data):
            with tf.GradientTape() as tape:
                tape.watch(data)
                found = forward(*data, *variables)
            return found, tape.gradient(
                found[0], [*data, *variables], output_gradients=d_outputs
            )

        return lambda: train(d_outputs, x, *states), results

    return {"TensorFlow": tf.__version__}, prepare


worker.serve(load)
