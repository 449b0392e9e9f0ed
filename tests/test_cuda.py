"""The CUDA path: what the NumPy side's tests of sequences check, and what it
refuses.

On every machine its kernels run as plain C++ (csrc/core/cuda/emulation.h); on
one that has a GPU, and torch to hold its memory, on that too.
"""

import functools

import numpy as np
import pytest
from checks_rnn import check_activation, check_options, check_shape
from helpers import DTYPES, SEQUENCE_SHAPES, first_states, rnn_arguments
from helpers_cuda import Emulation, Place, Torch, emulated_library
from helpers_numpy import run
from helpers_rnn import CELLS

from fused_rnn import cuda, reference

each_cell = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)


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


@pytest.fixture
def run_here(place):
    return functools.partial(run, on=place)


@each_cell
@pytest.mark.parametrize("mask", [True, False])
def test_oracle_options(mask, cell, run_here):
    check_options(run_here, cell, mask)


@each_cell
@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_oracle_activations(name, cell, run_here):
    check_activation(run_here, cell, name)


@each_cell
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SEQUENCE_SHAPES)
def test_oracle_shapes(shape, dtype, cell, run_here):
    # Masks and dropout on every other shape: all paths, half the time.
    extra = list(SEQUENCE_SHAPES).index(shape) % 2 == 0
    check_shape([run_here], cell, shape, DTYPES[dtype], extra)


def small(cell):
    """Arguments of 3 rows, 4 steps, 2 inputs and 5 units; as fused_rnn.numpy
    takes them, and the function of fused_rnn.cuda."""
    values = rnn_arguments(cell, 5, 3, 4, 2, 5, np.float32)
    return {**values, **cell.options}, getattr(cuda, cell.name)


@each_cell
def test_strides_and_in_place(place, cell):
    """Rows with gaps, time-major views, the states over the first ones."""
    if not isinstance(place.memory, Emulation):
        pytest.skip("copies to a GPU are contiguous")
    values, function = small(cell)
    here = getattr(place, cell.name)
    _, *states, _ = expected = here(**values)
    gaps = {
        name: np.repeat(value, 2, axis=0)[::2]
        if isinstance(value, np.ndarray) and value.ndim == 2 else value
        for name, value in values.items()
    }
    gaps["x"] = np.swapaxes(np.swapaxes(values["x"], 0, 1).copy(), 0, 1)
    for actual, wanted in zip(here(**gaps), expected, strict=True):
        if wanted is not None:
            np.testing.assert_array_equal(actual, wanted)
    arguments = place.up(values)
    names = ("state", "cell_state")
    for name, first in zip(names, first_states(cell)):
        arguments[name] = arguments[first] = place.memory.up(
            values[first].copy()
        )
    place.run(function, arguments)
    for name, wanted in zip(names, states):
        np.testing.assert_array_equal(arguments[name].array, wanted)


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
    values, function = small(CELLS["gru_after"])
    arguments = place.up(values)
    for name, value in change.items():
        if isinstance(value, tuple):
            value = place.memory.empty(value, np.float32)
        arguments[name] = value
    with pytest.raises(error, match=message):
        function(**arguments)


@each_cell
def test_refused_shapes(place, cell):
    """Of what only some cells have, too."""
    columns = 5 * cell.gates
    shapes = {
        "kernel": (2, columns + 1), "recurrent_kernel": (5, columns + 1),
        "recurrent_dropout_mask": (cell.gates, 3, 6), "outputs": (4, 3, 5),
        **dict.fromkeys(first_states(cell), (3, 6)), "state": (2, 5),
    }
    if cell.keras != "SimpleRNN":
        shapes["reserve"] = (4, 3, 5)
    if "c" in cell.states:
        shapes.update(cell_state=(2, 5), cell_states=(3, 4, 5))
    values, function = small(cell)
    for name, shape in shapes.items():
        wrong = place.memory.empty(shape, np.float32)
        with pytest.raises(ValueError, match=f"^{name} must have shape"):
            function(**{**place.up(values), name: wrong})


@each_cell
def test_small_workspace(place, cell):
    values, function = small(cell)
    arguments = place.up(values)
    size = function(**arguments)
    with pytest.raises(ValueError, match=f"workspace must have {size} bytes"):
        function(**arguments, workspace=place.memory.bytes(size - 1))


def test_no_library(monkeypatch, tmp_path):
    """Without the library of kernels there is a sentence, and no crash."""
    monkeypatch.setenv("FUSED_RNN_CUDA_LIBRARY", str(tmp_path / "none.so"))
    assert not cuda.available()
    assert "CUDA kernels of fused_rnn cannot be loaded" in cuda.describe()
