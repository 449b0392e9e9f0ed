"""fused_rnn.numpy; with "stream" its streams, which keep packed weights."""

import sys

import numpy as np

from fused_rnn.bench import worker


def load():
    import fused_rnn
    import fused_rnn.numpy as rnn

    rnn.set_num_threads(worker.THREADS)

    def typed(case, *arrays):
        dtype = worker.element_type(case.dtype)
        return [np.ascontiguousarray(array, dtype) for array in arrays]

    def sequence(case):
        *arguments, d_outputs = typed(case, *case.arguments(), case.d_outputs)
        mask = case.mask if case.has("mask") else None
        forward, backward = case.function(rnn), case.function(rnn, "_grad")
        # Of the simple RNN the outputs are all that is kept.
        overwrite = {} if case.cell == "rnn" else {"overwrite_reserve": True}

        def infer():
            return forward(*arguments, mask=mask)

        def train():
            result = forward(*arguments, mask=mask, return_reserve=True)
            return result, backward(
                *arguments, mask=mask, d_outputs=d_outputs,
                reserve=result.reserve, **overwrite,
            )

        def read(result):
            gradients = ()
            if case.training:
                result, gradients = result
            outputs, *states, _ = result
            return case.named(outputs, states, gradients)

        return (train if case.training else infer), read

    streams = {
        "gru": rnn.GRUStream, "lstm": rnn.LSTMStream, "rnn": rnn.SimpleRNNStream
    }

    def stream(case):
        if case.training or case.steps > 1 or case.has("mask"):
            raise worker.Unsupported("inference of single steps only")
        x, *others = typed(case, *case.arguments())
        states, weights = others[:len(case.states)], others[len(case.states):]
        after = {"reset_after": case.reset_after} if case.cell == "gru" else {}
        one = streams[case.cell](*weights, batch=case.batch, **after)
        one.reset(*states)
        x_t = np.ascontiguousarray(x[:, 0])
        return lambda: one.step(x_t), lambda state: case.named(
            state, [state, *([one.cell_state] if case.cell == "lstm" else [])]
        )

    versions = {
        "fused_rnn": fused_rnn.__version__,
        "fused_rnn instruction set": rnn.active_isa(),
    }
    return versions, stream if "stream" in sys.argv[1:] else sequence


worker.serve(load)
