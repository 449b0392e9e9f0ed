"""The functions of fused_rnn.numpy on a GPU: NumPy arrays in and out."""

import numpy as np

from fused_rnn import cuda
from fused_rnn.numpy import GRUGradients, GRUOutput, GRUReserve


class Torch:
    """A GPU, with torch to hold its memory."""

    def __init__(self):
        import torch

        self.torch = torch

    # The protocol has no bfloat16: all arrays travel as integers of their size.
    def up(self, array):
        if array is None:
            return None
        array = np.asarray(array)
        whole = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}")
        return self.torch.from_numpy(whole).cuda()

    def empty(self, shape, dtype):
        kind = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
        size = np.dtype(dtype).itemsize
        made = self.torch.empty(
            shape, dtype=getattr(self.torch, kind[size]), device="cuda"
        )
        made.dtype_of_values = np.dtype(dtype)
        return made

    def down(self, array):
        return array.cpu().numpy().view(array.dtype_of_values)

    def bytes(self, size):
        return self.empty([size], np.uint8)


class Place:
    """`gru` and `gru_grad` of NumPy arrays, on a kind of memory."""

    def __init__(self, memory):
        self.memory = memory

    def _run(self, function, arguments):
        size = function(**arguments)
        assert function(**arguments, workspace=self.memory.bytes(size)) == size

    def _common(self, x, h0, kernel, recurrent_kernel, bias, options):
        up = self.memory.up
        arguments = {
            "x": up(x), "h0": up(h0), "kernel": up(kernel),
            "recurrent_kernel": up(recurrent_kernel), "bias": up(bias),
            "dtype": np.dtype(x.dtype).name, **options,
        }
        for name in ("mask", "recurrent_dropout_mask"):
            if name in arguments:
                arguments[name] = up(arguments[name])
        return arguments

    def gru(self, x, h0, kernel, recurrent_kernel, bias=None, *,
            return_reserve=False, **options):
        batch, steps = x.shape[:2]
        if options.get("time_major"):
            batch, steps = steps, batch
        units = recurrent_kernel.shape[0]
        empty, down = self.memory.empty, self.memory.down
        outputs = empty((*x.shape[:2], units), x.dtype)
        state = empty((batch, units), x.dtype)
        reserve = empty((steps, batch, 4 * units), x.dtype)
        self._run(cuda.gru, {
            **self._common(x, h0, kernel, recurrent_kernel, bias, options),
            "outputs": outputs, "state": state,
            "reserve": reserve if return_reserve else None,
        })
        kept = None
        if return_reserve:
            kept = GRUReserve(down(outputs), down(reserve))
        return GRUOutput(down(outputs), down(state), kept)

    def gru_grad(self, x, h0, kernel, recurrent_kernel, bias=None, *,
                 reserve, d_outputs=None, d_state=None, **options):
        empty, up, down = self.memory.empty, self.memory.up, self.memory.down
        batch = reserve.gates.shape[1]
        shapes = {
            "x": x.shape, "h0": (batch, recurrent_kernel.shape[0]),
            "kernel": kernel.shape, "recurrent_kernel": recurrent_kernel.shape,
            "bias": None if bias is None else bias.shape,
        }
        results = {
            name: None if shape is None else empty(shape, x.dtype)
            for name, shape in shapes.items()
        }
        self._run(cuda.gru_grad, {
            **self._common(x, h0, kernel, recurrent_kernel, bias, options),
            "outputs": up(reserve.outputs), "reserve": up(reserve.gates),
            "d_gates": empty(reserve.gates.shape, x.dtype),
            "d_outputs": up(d_outputs), "d_state": up(d_state),
            **{f"d_{name}": array for name, array in results.items()},
        })
        return GRUGradients(**{
            name: None if array is None else down(array)
            for name, array in results.items()
        })
