"""As much of torch as benchmarks/gpu.py uses, on NumPy, and a GPU that there is
not: what is launched has been done when the call returns.

Nothing but what is named here exists, so that a call of anything else fails.
"""

import contextlib
import types

import numpy as np


class Event:
    def __init__(self, enable_timing):
        assert enable_timing
        self.recorded = False

    def record(self):
        self.recorded = True

    def synchronize(self):
        assert self.recorded

    def elapsed_time(self, other):
        assert self.recorded and other.recorded
        return 0.25  # milliseconds


class Graph:
    def capture_begin(self):
        assert not Cuda.capturing
        Cuda.capturing = True

    def capture_end(self):
        assert Cuda.capturing
        Cuda.capturing = False

    def replay(self):
        assert not Cuda.capturing


class Cuda:
    """torch.cuda."""

    capturing = False
    Event = Event
    CUDAGraph = Graph
    Stream = object
    is_available = staticmethod(lambda: True)
    empty_cache = staticmethod(lambda: None)
    stream = staticmethod(contextlib.nullcontext)

    @staticmethod
    def synchronize():
        assert not Cuda.capturing, "not while a graph is captured"

    @staticmethod
    def current_stream():
        return types.SimpleNamespace(cuda_stream=0)


class Tensor:
    def __init__(self, array):
        self.array = array

    dtype = property(lambda self: self.array.dtype)
    nbytes = property(lambda self: self.array.nbytes)
    __cuda_array_interface__ = property(
        lambda self: self.array.__array_interface__
    )

    def __mul__(self, factor):
        return Tensor(self.array * np.float32(factor))

    def __matmul__(self, other):
        return Tensor(self.array)

    def to(self, kind):
        return Tensor(self.array.astype(kind))

    def view(self, kind):
        return Tensor(self.array.view(kind))

    def copy_(self, other):
        self.array[...] = other.array

    def element_size(self):
        return self.array.itemsize

    def requires_grad_(self):
        return self

    def cuda(self):
        return Tensor(self.array.copy())

    cpu = cuda

    def numpy(self):
        return self.array


class GRU:
    """torch.nn.GRU: says what it was called with, computes nothing."""

    def __init__(self, inputs, units):
        self.units, self.training = units, True

    def to(self, device, kind):
        assert device == "cuda"
        return self

    def eval(self):
        self.training = False
        return self

    def parameters(self):
        return [Tensor(np.zeros(1))] * 4

    def __call__(self, x, h0):
        assert h0.array.shape == (1, x.array.shape[1], self.units)
        return x, h0


def gradients(outputs, wanted, incoming):
    assert outputs.array.shape == incoming.array.shape


def made(fill):
    def function(shape, dtype=np.float32, device=None):
        assert device == "cuda" or shape == (1,)
        return Tensor(fill(shape, dtype))

    return function


def module():
    """It, to be put into sys.modules."""
    import ml_dtypes

    space = types.SimpleNamespace
    return space(
        __version__="0", cuda=Cuda, no_grad=contextlib.nullcontext,
        bfloat16=np.dtype(ml_dtypes.bfloat16),
        **{
            name: np.dtype(name)
            for name in ("float32", "float16", "uint8", "int16", "int32", "int64")
        },
        empty=made(np.empty), randn=made(np.ones), from_numpy=Tensor,
        empty_like=lambda tensor: Tensor(np.empty_like(tensor.array)),
        nn=space(GRU=GRU), autograd=space(grad=gradients),
        backends=space(
            cudnn=space(version=lambda: 0, allow_tf32=False),
            cuda=space(matmul=space(allow_tf32=False)),
        ),
    )


@contextlib.contextmanager
def on_the_cpu(torch, monkeypatch):
    """The real torch, told that its processor is a GPU."""
    monkeypatch.setattr(torch, "cuda", Cuda)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 0)
    monkeypatch.setattr(
        torch.Tensor, "__cuda_array_interface__",
        property(lambda tensor: tensor.detach().numpy().__array_interface__),
    )

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            def here(value):
                there = isinstance(value, (str, torch.device))
                return "cpu" if there and "cuda" in str(value) else value

            if function is torch.Tensor.cuda:
                return args[0].clone()
            return function(
                *map(here, args),
                **{name: here(value) for name, value in (kwargs or {}).items()},
            )

    with Mode():
        yield torch
