"""The CUDA path: the NumPy side's tests of sequences on it, and what it
refuses.

On every machine its kernels run as plain C++ (csrc/core/cuda/emulation.h); on
one that has a GPU, and torch to hold its memory, on that too.
"""

import numpy as np
import pytest
import test_numpy_gru as suite
from helpers import gru_arguments
from helpers_cuda import Emulation, Place, Torch, emulated_library

from fused_rnn import cuda

# Collected here as well, with the functions of a place.
from test_numpy_gru import (  # noqa: F401
    test_oracle_activations,
    test_oracle_options,
    test_oracle_shapes,
)


@pytest.fixture(
    params=["emulated", pytest.param("gpu", marks=pytest.mark.gpu)]
)
def place(request, monkeypatch):
    if request.param == "emulated":
        monkeypatch.setenv("FUSED_RNN_CUDA_LIBRARY", emulated_library())
        return Place(Emulation())
    if not cuda.available():
        pytest.skip(f"no GPU kernels can run: {cuda.describe()}")
    torch = pytest.importorskip("torch", reason="torch holds the GPU's memory")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    return Place(Torch())


@pytest.fixture(autouse=True)
def suite_on_place(place, monkeypatch):
    monkeypatch.setattr(suite, "rnn", place)


def test_strides_and_in_place(place):
    """Rows with gaps, time-major views, the state over h0."""
    if not isinstance(place.memory, Emulation):
        pytest.skip("copies to a GPU are contiguous")
    values = gru_arguments(5, 3, 4, 2, 5, np.float32, reset_after=True)
    expected = place.gru(**values)
    gaps = {
        name: np.repeat(value, 2, axis=0)[::2] if value.ndim == 2 else value
        for name, value in values.items()
        if value is not None
    }
    gaps["x"] = np.swapaxes(np.swapaxes(values["x"], 0, 1).copy(), 0, 1)
    for name, value in place.gru(**gaps)._asdict().items():
        if value is not None:
            np.testing.assert_array_equal(value, getattr(expected, name))
    state = place.memory.up(values["h0"].copy())
    arguments = {
        **place._common(
            *(values[n] for n in
              ("x", "h0", "kernel", "recurrent_kernel", "bias")), {}
        ),
        "h0": state, "state": state,
    }
    place._run(cuda.gru, arguments)
    np.testing.assert_array_equal(state.array, expected.state)


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"dtype": "int8"}, ValueError, "dtype must be float32, .* got int8"),
        ({"x": 3}, TypeError, "x must be an array on a GPU"),
        ({"dtype": "float64"}, TypeError, "x must have elements of 8 bytes"),
        ({"h0": (3, 6)}, ValueError, r"h0 must have shape .* = \[3, 5\], got"),
        ({"bias": (15,)}, ValueError, "bias must have shape .* reset_after"),
        ({"activation": "gelu"}, ValueError, "activation must be one of"),
    ],
)
def test_refused(place, change, error, message):
    values = gru_arguments(6, 3, 4, 2, 5, np.float32, reset_after=True)
    arguments = place._common(
        *(values[n] for n in ("x", "h0", "kernel", "recurrent_kernel", "bias")),
        {},
    )
    for name, value in change.items():
        if isinstance(value, tuple):
            value = place.memory.empty(value, np.float32)
        arguments[name] = value
    with pytest.raises(error, match=message):
        cuda.gru(**arguments)


def test_small_workspace(place):
    values = gru_arguments(6, 3, 4, 2, 5, np.float32, reset_after=True)
    arguments = place._common(
        *(values[n] for n in ("x", "h0", "kernel", "recurrent_kernel", "bias")),
        {},
    )
    size = cuda.gru(**arguments)
    with pytest.raises(ValueError, match=f"workspace must have {size} bytes"):
        cuda.gru(**arguments, workspace=place.memory.bytes(size - 1))


def test_no_library(monkeypatch, tmp_path):
    """Without the library of kernels there is a sentence, and no crash."""
    monkeypatch.setenv("FUSED_RNN_CUDA_LIBRARY", str(tmp_path / "none.so"))
    assert not cuda.available()
    assert "CUDA kernels of fused_rnn cannot be loaded" in cuda.describe()
