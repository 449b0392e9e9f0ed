"""fused_rnn.numpy; with "stream" its GRUStream, which keeps packed weights."""

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
        x, h0, d_outputs, *weights = typed(
            case, case.x, case.h0, case.d_outputs, *case.weights()
        )
        options = dict(
            reset_after=case.reset_after,
            mask=case.mask if case.has("mask") else None,
        )

        def infer():
            return rnn.gru(x, h0, *weights, **options)

        def train():
            result = rnn.gru(x, h0, *weights, return_reserve=True, **options)
            return result, rnn.gru_grad(
                x, h0, *weights, d_outputs=d_outputs, reserve=result.reserve,
                overwrite_reserve=True, **options,
            )

        def read(result):
            gradients = {}
            if case.training:
                result, found = result
                gradients = {
                    f"d_{name}": value
                    for name, value in found._asdict().items()
                }
            return {
                "outputs": result.outputs, "state": result.state, **gradients
            }

        return (train if case.training else infer), read

    def stream(case):
        if case.training or case.steps > 1 or case.has("mask"):
            raise worker.Unsupported("inference of single steps only")
        x_t, h0, *weights = typed(
            case, case.x[:, 0], case.h0, *case.weights()
        )
        one = rnn.GRUStream(
            *weights, reset_after=case.reset_after, batch=case.batch
        )
        one.reset(h0)
        return lambda: one.step(x_t), lambda state: {
            "outputs": state, "state": state
        }

    versions = {
        "fused_rnn": fused_rnn.__version__,
        "fused_rnn instruction set": rnn.active_isa(),
    }
    return versions, stream if "stream" in sys.argv[1:] else sequence


worker.serve(load)
