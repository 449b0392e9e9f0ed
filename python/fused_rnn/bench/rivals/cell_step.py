"""A step of the block cell inside tf.function: "ours" or TensorFlow's own.

Modes beside inference and training: "chained inference" and "chained training"
take worker.CHAIN steps in one call, each from the state that the last one left.
"""

import os
import sys

from fused_rnn.bench import worker


def load():
    ours = sys.argv[1] == "ours"
    os.environ["FUSED_RNN_NO_TENSORFLOW"] = "0" if ours else "1"
    import tensorflow as tf

    import tensorflow_rnn

    tensorflow_rnn.limit_threads(tf)
    versions = {"TensorFlow": tf.__version__}
    if ours:
        import fused_rnn

        step = fused_rnn.gru_block_cell
        versions["fused_rnn"] = fused_rnn.__version__
    else:
        import block_cell

        block_cell.register_gradient(tf)

        def step(x, h_prev, w_ru, w_c, b_ru, b_c):
            return tf.raw_ops.GRUBlockCell(
                x=x, h_prev=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c
            )

    def prepare(case):
        x, h_prev, d_h = (
            tf.constant(array) for array in (case.x, case.h_prev, case.d_h)
        )
        weights = [
            tf.Variable(array)
            for array in (case.w_ru, case.w_c, case.b_ru, case.b_c)
        ]

        chained = case.mode.startswith("chained")

        def steps(x, h_prev):
            for _ in range(worker.CHAIN if chained else 1):
                cell = step(x, h_prev, *weights)
                h_prev = cell.h
            return cell

        @tf.function
        def infer(x, h_prev):
            cell = steps(x, h_prev)
            return cell.r, cell.u, cell.c, cell.h

        @tf.function
        def train(x, h_prev, d_h):
            with tf.GradientTape() as tape:
                tape.watch([x, h_prev])
                cell = steps(x, h_prev)
            gradients = tape.gradient(
                cell.h, [x, h_prev, *weights], output_gradients=d_h
            )
            return cell.r, cell.u, cell.c, cell.h, *gradients

        def read(results):
            names = (
                "r", "u", "c", "h", "d_x", "d_h_prev", "d_w_ru", "d_w_c",
                "d_b_ru", "d_b_c",
            )
            return {name: value.numpy() for name, value in zip(names, results)}

        if case.training:
            return lambda: train(x, h_prev, d_h), read
        return lambda: infer(x, h_prev), read

    return versions, prepare


worker.serve(load)
