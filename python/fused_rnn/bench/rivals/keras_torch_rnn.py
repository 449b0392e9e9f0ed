"""Keras' layers on PyTorch, a GRU's both conventions."""

from fused_rnn.bench import worker


def load():
    import os

    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import torch

    import keras_layer

    torch.set_num_threads(worker.THREADS)
    torch.set_num_interop_threads(1)

    def prepare(case):
        dtype = getattr(torch, case.dtype)
        layer = keras_layer.build(keras, case)
        x, states, _ = keras_layer.split(case, case.arguments())
        d_outputs, *data = (
            torch.tensor(array, dtype=dtype)
            for array in (case.d_outputs, x, *states)
        )

        def forward():
            x, *states = data
            return layer(x, initial_state=states, training=case.training)

        def infer():
            with torch.inference_mode():
                return forward(), ()

        def train():
            found = forward()
            return found, torch.autograd.grad(found[0], inputs, d_outputs)

        def read(result):
            (outputs, *states), gradients = result
            values = case.named(outputs, states, gradients)
            return {
                name: value.detach().to(torch.float64).numpy()
                for name, value in values.items()
            }

        if not case.training:
            return infer, read
        inputs = [*(tensor.requires_grad_() for tensor in data),
                  *(v.value for v in layer.trainable_variables)]
        return train, read

    return {"Keras": keras.__version__, "PyTorch": torch.__version__}, prepare


worker.serve(load)
