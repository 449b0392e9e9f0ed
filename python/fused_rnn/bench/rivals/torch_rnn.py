"""PyTorch's nn.GRU, reset after, nn.LSTM and nn.RNN."""

from fused_rnn.bench import worker


def load():
    import torch

    from fused_rnn import weights

    torch.set_num_threads(worker.THREADS)
    # Gradients are summed by one backward pass; nothing else is parallel.
    torch.set_num_interop_threads(1)
    layers = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM, "rnn": torch.nn.RNN}

    def numpy(tensor):
        """NumPy knows no bfloat16; a double holds all of them."""
        return tensor.detach().to(torch.float64).numpy()

    def prepare(case):
        if case.convention == "before":
            raise worker.Unsupported("nn.GRU is reset after only")
        dtype = getattr(torch, case.dtype)
        layer = layers[case.cell](case.inputs, case.units, dtype=dtype)
        state = weights.keras_to_torch(*case.weights())
        layer.load_state_dict(
            {name: torch.tensor(value) for name, value in state.items()}
        )
        x = torch.tensor(worker.time_major(case.x), dtype=dtype)
        states = [
            torch.tensor(getattr(case, name), dtype=dtype)[None]
            for name in case.states
        ]
        first = tuple(states) if case.cell == "lstm" else states[0]

        def last(states):
            return [
                numpy(state)
                for state in (states if case.cell == "lstm" else [states])
            ]

        if not case.training:

            def infer():
                with torch.inference_mode():
                    return layer(x, first)

            return infer, lambda result: case.named(
                numpy(result[0].transpose(0, 1)), last(result[1])
            )

        x.requires_grad_()
        for state in states:
            state.requires_grad_()
        d_outputs = torch.tensor(
            worker.time_major(case.d_outputs), dtype=dtype
        )
        parameters = dict(layer.named_parameters())
        inputs = [x, *states, *parameters.values()]

        def train():
            outputs, states = layer(x, first)
            return outputs, states, torch.autograd.grad(
                outputs, inputs, d_outputs
            )

        def read(result):
            outputs, states, (d_x, *gradients) = result
            d_states, d_weights = (
                gradients[:len(case.states)], gradients[len(case.states):]
            )
            found = {
                name: numpy(value) for name, value in zip(parameters, d_weights)
            }
            if case.cell != "gru":
                # The conversion adds two biases; each has the whole gradient.
                found["bias_hh_l0"] *= 0
            return case.named(
                numpy(outputs.transpose(0, 1)), last(states),
                [numpy(d_x.transpose(0, 1)), *map(numpy, d_states),
                 *weights.torch_to_keras(found)],
            )

        return train, read

    versions = {
        "PyTorch": torch.__version__,
        "PyTorch instruction set": torch.backends.cpu.get_cpu_capability(),
    }
    return versions, prepare


worker.serve(load)
