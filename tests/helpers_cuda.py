"""The emulation of the CUDA path, as a kind of memory for benchmarks/device.py.
"""

import glob
import sys

import native
import numpy as np

sys.path.insert(0, str(native.ROOT / "benchmarks"))

from device import Place, Torch  # noqa: E402, F401  for tests to use


class _Array:
    """What __cuda_array_interface__ needs of memory that is the process' own."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__array_interface__


class Emulation:
    """Kernels as plain C++, memory of the process."""

    def up(self, array):
        return None if array is None else _Array(np.asarray(array))

    def empty(self, shape, dtype):
        # Large in every type, so that an element which nobody wrote is noticed.
        array = np.empty(shape, dtype)
        array.view(np.uint8)[...] = 0x5A
        return _Array(array)

    def down(self, array):
        return array.array

    def bytes(self, size):
        # As GPU allocators align it.
        memory = np.full(size + 256, 0xFF, np.uint8)
        start = -memory.ctypes.data % 256
        return _Array(memory[start : start + size])


def emulated_library():
    """The library of kernels as plain C++."""
    (path,) = glob.glob(str(native.core() / "libfused_rnn_cuda_emulated.so"))
    return path
