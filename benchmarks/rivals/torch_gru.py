"""PyTorch's nn.GRU: reset after."""

import worker


def load():
    import torch

    from fused_rnn import weights

    torch.set_num_threads(worker.THREADS)
    # Gradients are summed by one backward pass; nothing else is parallel.
    torch.set_num_interop_threads(1)

    def prepare(case):
        if not case.reset_after:
            raise worker.Unsupported("nn.GRU is reset after only")
        layer = torch.nn.GRU(case.inputs, case.units)
        state = weights.keras_to_torch(*case.weights())
        layer.load_state_dict(
            {name: torch.tensor(value) for name, value in state.items()}
        )
        x = torch.tensor(worker.time_major(case.x))
        h0 = torch.tensor(case.h0)[None]
        if not case.training:

            def infer():
                with torch.inference_mode():
                    return layer(x, h0)

            return infer, lambda result: {
                "outputs": result[0].transpose(0, 1).numpy(),
                "state": result[1].numpy(),
            }

        x.requires_grad_()
        h0.requires_grad_()
        d_outputs = torch.tensor(worker.time_major(case.d_outputs))
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
                name: value.numpy() for name, value in zip(parameters, d_weights)
            })
            return {
                "outputs": outputs.detach().transpose(0, 1).numpy(),
                "state": last.detach().numpy(),
                "d_x": d_x.transpose(0, 1).numpy(),
                "d_h0": d_h0.numpy(),
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
