"""What the tests share: element types, edge shapes, arguments, processes."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
from helpers_reference import CASES

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Where the package under test lies: site-packages, or a checkout's python/.
PACKAGES = os.path.dirname(
    os.path.dirname(importlib.util.find_spec("fused_rnn").origin)
)

# name -> NumPy's type.
DTYPES = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}

# (B, I, H) of a cell by the edge that each one hits. The widest vector holds
# 16 floats, the block of the micro-kernel 8 rows and 48 columns.
CELL_SHAPES = {
    "single": (1, 1, 1),
    "serving": (1, 40, 64),
    "few_rows": (3, 24, 32),
    "vector_less_one": (8, 16, 15),
    "vector_and_one": (8, 17, 17),
    "row_block_and_one": (9, 8, 16),
    "row_block_less_one": (7, 5, 48),
    "primes": (13, 31, 53),
    "deep": (2, 1031, 3),
    "wide": (2, 3, 521),
    "split": (67, 20, 40),
    "no_batch": (0, 3, 4),
    "no_inputs": (3, 0, 5),
    "no_units": (3, 4, 0),
    "nothing": (0, 0, 0),
}


# (B, T, I, H) of a sequence, likewise.
SEQUENCE_SHAPES = {
    "single": (1, 1, 1, 1),
    "serving": (1, 7, 40, 64),
    "one_step": (9, 1, 5, 17),
    "vector_less_one": (8, 3, 16, 15),
    "vector_and_one": (8, 3, 17, 17),
    "row_block_and_one": (9, 4, 8, 16),
    "row_block_less_one": (7, 3, 5, 48),
    "primes": (13, 5, 31, 53),
    "deep": (2, 3, 515, 3),
    "wide": (2, 3, 3, 259),
    "split": (67, 3, 20, 40),
    "long": (2, 61, 3, 5),
    "no_batch": (0, 2, 3, 4),
    "no_steps": (2, 0, 3, 4),
    "no_inputs": (3, 2, 0, 5),
    "no_units": (3, 2, 4, 0),
    "nothing": (0, 0, 0, 0),
}


CELL_INPUTS = ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c")
CELL_OUTPUTS = ("r", "u", "c", "h")


def cell_arguments(seed, batch, inputs, units, dtype) -> dict:
    """The six inputs of the block cell, in order."""
    rng = np.random.default_rng(seed)
    rows = inputs + units
    scale = max(rows, 1) ** -0.5  # Keeps the gates away from saturation.
    return {
        "x": draw(rng, (batch, inputs), dtype),
        "h_prev": draw(rng, (batch, units), dtype),
        "w_ru": draw(rng, (rows, 2 * units), dtype, scale),
        "w_c": draw(rng, (rows, units), dtype, scale),
        "b_ru": draw(rng, (2 * units,), dtype),
        "b_c": draw(rng, (units,), dtype),
    }


def cell_gradients(seed, batch, units, dtype) -> dict:
    """Incoming gradients of the block cell's four outputs."""
    rng = np.random.default_rng(seed)
    return {
        f"d_{name}": draw(rng, (batch, units), dtype) for name in CELL_OUTPUTS
    }


def first_states(cell):
    return tuple(state + "0" for state in cell.states)


def rnn_arguments(
    cell, seed, batch, steps, inputs, units, dtype, *, absent=(), mask=False,
    dropout=False,
) -> dict:
    """Arguments by name, the differentiable ones first.

    Those that `absent` names are None, as are masks not asked for; `dropout`
    may be "shared", for one mask of all gates.
    """
    rng = np.random.default_rng(seed)
    columns = cell.gates * units

    def weights(rows):
        return draw(rng, (rows, columns), dtype, max(rows, 1) ** -0.5)

    values = {
        "x": draw(rng, (batch, steps, inputs), dtype),
        **{
            name: draw(rng, (batch, units), dtype)
            for name in first_states(cell)
        },
        "kernel": weights(inputs),
        "recurrent_kernel": weights(units),
        "bias": draw(rng, cell.bias_shape(units), dtype),
        "mask": rng.random((batch, steps)) < 0.7,
        # Kept entries are scaled as Keras scales them.
        "recurrent_dropout_mask": (
            (rng.random((cell.gates, batch, units)) < 0.75) / 0.75
        ).astype(dtype),
    }
    if dropout == "shared":
        values["recurrent_dropout_mask"] = values["recurrent_dropout_mask"][:1]
    for name, wanted in (("mask", mask), ("recurrent_dropout_mask", dropout)):
        if not wanted:
            values[name] = None
    return {**values, **dict.fromkeys(absent)}


def gru_arguments(
    seed, batch, steps, inputs, units, dtype, *, reset_after, h0=True,
    bias=True, mask=False, dropout=False,
) -> dict:
    """Arguments of ``reference.gru`` by name; those not asked for are None."""
    given = {"h0": h0, "bias": bias}
    return rnn_arguments(
        CASES["gru_after" if reset_after else "gru_before"], seed, batch, steps,
        inputs, units, dtype, mask=mask, dropout=dropout,
        absent=[name for name, wanted in given.items() if not wanted],
    )


def draw(rng, shape, dtype, scale=1.0) -> np.ndarray:
    """Values that the element type holds exactly."""
    return (scale * rng.standard_normal(shape)).astype(dtype)


def run_python(code, *arguments, timeout=300, **environment) -> str:
    """Runs code in a fresh interpreter that finds the package.

    Returns what it printed; fails the test, with the output, if it failed. A
    variable of None is removed from the environment.
    """
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    path = [PACKAGES, str(ROOT / "tests")]
    variables["PYTHONPATH"] = os.pathsep.join(
        path + [p for p in [variables.get("PYTHONPATH")] if p]
    )
    for name, value in environment.items():
        variables.pop(name, None)
        if value is not None:
            variables[name] = str(value)
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env=variables, capture_output=True, text=True, timeout=timeout,
    )
    assert process.returncode == 0, (
        f"exit status {process.returncode}\n{process.stdout}{process.stderr}"
    )
    return process.stdout


def processes_with(mark):
    """Processes in whose environment that text is."""
    found = []
    for environment in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(mark).encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
        except OSError:
            pass
    return found


def bench_command(folder, *arguments):
    """Arguments of `fused-rnn bench` for a small shape; results.json is its."""
    return [
        "bench", "--threads", "1", "--shape", "2,3,4,5", "--rounds", "2",
        "--budget", "0.01", "--json", str(folder / "results.json"),
        *arguments,
    ]


def heed_interrupts():
    """For a child to be interrupted: tests may run with SIGINT ignored, which
    children inherit."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
