"""PyTorch's nn.GRU: reset after."""

from fused_rnn.bench import worker


def load():
    import torch

    from fused_rnn import weights

    torch.set_num_threads(worker.THREADS)
    # Gradients are summed by one backward pass; nothing else is parallel.
    torch.set_num_interop_threads(1)

    def numpy(tensor):
        """NumPy knows no bfloat16; a double holds all of them."""
        return tensor.detach().to(torch.float64).numpy()

    def prepare(case):
        if not case.reset_after:
            raise worker.Unsupported("nn.GRU is reset after only")
        dtype = getattr(torch, case.dtype)
        layer = torch.nn.GRU(case.inputs, case.units, dtype=dtype)
        state = weights.keras_to_torch(*case.weights())
        layer.load_state_dict(
            {name: torch.tensor(value) for name, value in state.items()}
        )
        x = torch.tensor(worker.time_major(case.x), dtype=dtype)
        h0 = torch.tensor(case.h0, dtype=dtype)[None]
        if not case.training:

            def infer():
                with torch.inference_mode():
                    return layer(x, h0)

            return infer, lambda result: {
                "outputs": numpy(result[0].transpose(0, 1)),
                "state": numpy(result[1]),
            }

        x.requires_grad_()
        h0.requires_grad_()
        d_outputs = torch.tensor(
            worker.time_major(case.d_outputs), dtype=dtype
        )
        parameters = dict(layer.named_parameters())
        inputs = [x, h0, *parameters.values()]

        def train():
            outputs, last = layer(x, h0)
            return outputs, last, torch.autograd.grad(
                outputs, inputs, d_outputs
            )

        def read(result):
            outputs, last, (d_x, d_h0, *d_weights) = result
            d_weights = weights.torch_to_keras({
                name: numpy(value) for name, value in zip(parameters, d_weights)
            })
            return {
                "outputs": numpy(outputs.transpose(0, 1)),
                "state": numpy(last),
                "d_x": numpy(d_x.transpose(0, 1)),
                "d_h0": numpy(d_h0),
                "d_kernel": d_weights.kernel,
                "d_recurrent_kernel": d_weights.recurrent_kernel,
                "d_bias": d_weights.bias,
            }

        return train, read

    versions = {
        "PyTorch": torch.__version__,
        "PyTorch instruction set": torch.backends.cpu.get_cpu_capability(),
    }
    return versions, prepare


worker.serve(load)
