"""The functions of fused_rnn.numpy on a GPU: NumPy arrays in and out."""

from functools import partialmethod

import numpy as np

from fused_rnn import cuda, numpy


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


# name -> classes of what fused_rnn.numpy gives: results, reserve, gradients.
_CLASSES = {
    "gru": (numpy.GRUOutput, numpy.GRUReserve, numpy.GRUGradients),
    "lstm": (numpy.LSTMOutput, numpy.LSTMReserve, numpy.LSTMGradients),
    "simple_rnn": (
        numpy.SimpleRNNOutput, numpy.SimpleRNNReserve, numpy.SimpleRNNGradients
    ),
}
# The same array has another name in fused_rnn.cuda.
_RENAMED = {"gates": "reserve"}


def _sizes(given):
    """Batch rows, steps and units."""
    batch, steps = given["x"].shape[:2]
    if given.get("time_major"):
        batch, steps = steps, batch
    return batch, steps, len(given["recurrent_kernel"])


class Place:
    """Functions over sequences of NumPy arrays, on a kind of memory."""

    def __init__(self, memory):
        self.memory = memory

    def run(self, function, arguments):
        size = function(**arguments)
        assert function(**arguments, workspace=self.memory.bytes(size)) == size

    def up(self, given):
        """Arguments of fused_rnn.numpy as those of fused_rnn.cuda."""
        lifted = {"dtype": np.dtype(given["x"].dtype).name}
        for name, value in given.items():
            is_array = value is None or isinstance(value, np.ndarray)
            lifted[name] = self.memory.up(value) if is_array else value
        return lifted

    def _down(self, arrays):
        return {
            name: None if array is None else self.memory.down(array)
            for name, array in arrays.items()
        }

    def _forward(self, name, return_reserve=False, **given):
        make_output, make_reserve, _ = _CLASSES[name]
        x, (batch, steps, units) = given["x"], _sizes(given)
        shapes = {
            "outputs": (*x.shape[:2], units), "state": (batch, units),
            "cell_state": (batch, units), "gates": (steps, batch, 4 * units),
            "cell_states": (steps, batch, units),
        }
        names = [n for n in make_output._fields if n != "reserve"]
        if return_reserve:
            names += make_reserve._fields[1:]
        made = {n: self.memory.empty(shapes[n], x.dtype) for n in names}
        self.run(getattr(cuda, name), {
            **self.up(given),
            **{_RENAMED.get(n, n): array for n, array in made.items()},
        })
        got = self._down(made)
        reserve = None
        if return_reserve:
            reserve = make_reserve(*(got[n] for n in make_reserve._fields))
        return make_output(
            **{n: got[n] for n in make_output._fields if n in got},
            reserve=reserve,
        )

    def _backward(self, name, reserve, **given):
        make_gradients = _CLASSES[name][2]
        x, (batch, steps, units) = given["x"], _sizes(given)
        gates = units if name == "simple_rnn" else 4 * units
        shapes = dict.fromkeys(("h0", "c0"), (batch, units))
        for argument in ("x", "kernel", "recurrent_kernel", "bias"):
            if given.get(argument) is not None:
                shapes[argument] = given[argument].shape
        made = {
            n: self.memory.empty(shapes[n], x.dtype) if n in shapes else None
            for n in make_gradients._fields
        }
        kept = {
            _RENAMED.get(n, n): self.memory.up(array)
            for n, array in reserve._asdict().items()
        }
        self.run(getattr(cuda, f"{name}_grad"), {
            **self.up(given), **kept,
            "d_gates": self.memory.empty((steps, batch, gates), x.dtype),
            **{f"d_{n}": array for n, array in made.items()},
        })
        return make_gradients(**self._down(made))

    gru = partialmethod(_forward, "gru")
    gru_grad = partialmethod(_backward, "gru")
    lstm = partialmethod(_forward, "lstm")
    lstm_grad = partialmethod(_backward, "lstm")
    simple_rnn = partialmethod(_forward, "simple_rnn")
    simple_rnn_grad = partialmethod(_backward, "simple_rnn")
