"""Keras' GRU on PyTorch, both conventions."""

from fused_rnn.bench import worker


def load():
    import os

    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import torch

    torch.set_num_threads(worker.THREADS)
    torch.set_num_interop_threads(1)

    def prepare(case):
        dtype = getattr(torch, case.dtype)
        layer = keras.layers.GRU(
            case.units, reset_after=case.reset_after, return_sequences=True,
            return_state=True, dtype=case.dtype,
        )
        layer.build((case.batch, case.steps, case.inputs))
        layer.set_weights(case.weights())
        x, h0, d_outputs = (
            torch.tensor(array, dtype=dtype)
            for array in (case.x, case.h0, case.d_outputs)
        )

        def forward():
            return layer(x, initial_state=h0, training=case.training)

        def infer():
            with torch.inference_mode():
                return (*forward(), ())

        def train():
            outputs, state = forward()
            return outputs, state, torch.autograd.grad(
                outputs, inputs, d_outputs
            )

        def read(result):
            outputs, state, gradients = result
            names = ("d_x", "d_h0", "d_kernel", "d_recurrent_kernel", "d_bias")
            values = {
                "outputs": outputs, "state": state, **dict(zip(names, gradients))
            }
            return {
                name: value.detach().to(torch.float64).numpy()
                for name, value in values.items()
            }

        if not case.training:
            return infer, read
        inputs = [x.requires_grad_(), h0.requires_grad_(),
                  *(v.value for v in layer.trainable_variables)]
        return train, read

    return {"Keras": keras.__version__, "PyTorch": torch.__version__}, prepare


worker.serve(load)
