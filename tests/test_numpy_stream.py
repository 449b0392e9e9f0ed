"""Streams of single steps on NumPy arrays."""

import shutil
import subprocess
import threading

import numpy as np
import pytest
from bounds_rnn import BoundedRnn
from helpers import DTYPES, first_states, rnn_arguments, run_python
from helpers_rnn import CELLS

import fused_rnn.numpy as rnn

each_cell = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)


def stream_class(cell):
    return getattr(rnn, f"{cell.keras}Stream")


def sample(cell, batch, steps, inputs, units, dtype, bias=True):
    """x, the weights, the first states."""
    values = rnn_arguments(
        cell, 1, batch, steps, inputs, units, dtype,
        absent=() if bias else ["bias"],
    )
    return (
        values["x"],
        {n: values[n] for n in ("kernel", "recurrent_kernel", "bias")},
        {name: values[name] for name in first_states(cell)},
    )


def states(cell, stream):
    """Copies, as the oracle names what a step starts from."""
    names = ("state", "cell_state")
    return {
        state: getattr(stream, name).copy()
        for state, name in zip(first_states(cell), names)
    }


@each_cell
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [
    (1, 1, 1), (1, 40, 64), (3, 17, 33), (1, 0, 5), (17, 8, 48), (2, 5, 259),
])
def test_oracle(shape, dtype, cell, isas):
    """Each step from the states that the one before left."""
    batch, inputs, units = shape
    x, weights, first = sample(cell, batch, 2, inputs, units, DTYPES[dtype])
    stream = stream_class(cell)(**weights, batch=batch, **cell.options)
    stream.reset(**first)
    for isa in (*isas, *isas):
        rnn.select_isa(isa)
        for t in range(2):
            before = states(cell, stream)
            step = x[:, t:t + 1]
            _, *expected = cell.sequence(
                step, **before, **weights, **cell.options
            )
            state = stream.step(x[:, t])
            assert state is stream.state
            bounds = BoundedRnn(cell, DTYPES[dtype], step, **before, **weights)
            after = states(cell, stream).values()
            for name, actual, value in zip(cell.states, after, expected):
                bounds.states[name].check(actual, value, f"{isa} {t} {name}")


@each_cell
@pytest.mark.parametrize("activation", ["relu", "softsign"])
def test_options_and_absent_arguments(activation, cell):
    x, weights, _ = sample(cell, 1, 5, 3, 7, np.float64, bias=False)
    options = dict(
        **cell.options,
        **cell.activation_options(activation, "hard_sigmoid"),
    )
    stream = stream_class(cell)(
        weights["kernel"], weights["recurrent_kernel"], **options
    )
    zeros = dict.fromkeys(first_states(cell))
    _, *expected = cell.sequence(x, **zeros, **weights, **options)
    for x_t in x[0]:  # [I] will do for one row.
        state = stream.step(x_t)
    for actual, value in zip(states(cell, stream).values(), expected):
        np.testing.assert_allclose(actual, value, rtol=0, atol=1e-14)
    assert state is stream.state and state.shape == (1, 7)
    stream.reset()
    assert not any(value.any() for value in states(cell, stream).values())


@each_cell
def test_weights_are_its_own(cell):
    x, weights, _ = sample(cell, 1, 2, 3, 17, np.float32)
    stream = stream_class(cell)(**weights, **cell.options)
    expected = stream.step(x[:, 0]).copy()
    stream.reset()
    for value in weights.values():
        value[...] = np.nan
    weights.clear()
    np.testing.assert_array_equal(stream.step(x[:, 0]), expected)


@each_cell
def test_number_of_threads_may_change(cell, threads):
    x, weights, _ = sample(cell, 4, 6, 64, 512, np.float32)
    left = []
    for counts in ([1] * 6, [4] * 6, [1, 2, 8, 1, 4, 2]):
        stream = stream_class(cell)(**weights, batch=4, **cell.options)
        for t, count in enumerate(counts):
            threads(count)
            stream.step(x[:, t])
        left.append(
            [value.tobytes() for value in states(cell, stream).values()]
        )
    assert left[0] == left[1] == left[2]


@each_cell
def test_refused_arguments(cell):
    x, weights, first = sample(cell, 2, 1, 3, 5, np.float32)
    make = stream_class(cell)
    stream = make(**weights, batch=2, **cell.options)
    for bad, error, words in (
        (x, ValueError, r"x_t .*\[2, 3\], got \[2, 1, 3\]"),
        (x[0, 0], ValueError, r"x_t .*\[2, 3\], got \[3\]"),
        (x[:, 0].astype(np.float64), TypeError, "x_t .*float32.*float64"),
        ([[0.0] * 3] * 2, TypeError, "x_t must be a numpy.ndarray, got list"),
    ):
        with pytest.raises(error, match=words):
            stream.step(bad)
    for name, value in first.items():
        with pytest.raises(ValueError, match=rf"{name} .*\[2, 5\], got \[1, 5"):
            stream.reset(**{**first, name: value[:1]})
    with pytest.raises(ValueError, match="batch must not be negative, got -1"):
        make(**weights, batch=-1, **cell.options)
    wrong = {**weights, "bias": np.ones(4, np.float32)}
    with pytest.raises(ValueError, match=r"bias must have shape .*got \[4\]"):
        make(**wrong, **cell.options)
    with pytest.raises(ValueError, match="activation must be one of"):
        make(**weights, **cell.options, activation="gelu")
    # A call that was refused has changed nothing.
    assert not any(value.any() for value in states(cell, stream).values())


def test_streams_with_one_state_take_no_other():
    with pytest.raises(TypeError, match="c0"):
        rnn.GRUStream(np.ones((3, 12)), np.ones((4, 12))).reset(c0=None)
    assert not hasattr(rnn.SimpleRNNStream, "cell_state")


@each_cell
def test_two_threads_in_one_stream(cell):
    """One gets an error, never a torn state."""
    x, weights, _ = sample(cell, 64, 1, 64, 512, np.float32)
    stream = stream_class(cell)(**weights, batch=64, **cell.options)
    steps, errors = [], []

    def call():
        for _ in range(50):
            try:
                stream.step(x[:, 0])
                steps.append(1)
            except RuntimeError as error:
                errors.append(str(error))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    words = f"another thread is inside this {cell.keras}Stream"
    assert all(words in error for error in errors)
    alone = stream_class(cell)(**weights, batch=64, **cell.options)
    for _ in steps:
        alone.step(x[:, 0])
    assert alone.state.tobytes() == stream.state.tobytes()


COUNTING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
_Atomic long allocations;
void *malloc(size_t n) { ++allocations; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { ++allocations; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) {
  ++allocations;
  return __libc_realloc(p, n);
}
int posix_memalign(void **p, size_t a, size_t n) {
  ++allocations;
  *p = __libc_memalign(a, n);
  return *p ? 0 : 12;
}
"""


@pytest.fixture(scope="module")
def counting(tmp_path_factory):
    """A library that counts allocations where it is loaded first."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler to count allocations with")
    folder = tmp_path_factory.mktemp("counting")
    source, library = folder / "counting.c", folder / "counting.so"
    source.write_text(COUNTING)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", source, "-o", library],
        check=True,
    )
    return library


@pytest.mark.parametrize("count", [1, 2, 4])
@each_cell
def test_a_step_allocates_nothing(counting, count, cell):
    counted = run_python(
        """
        import ast, ctypes, sys
        import numpy as np, fused_rnn.numpy as rnn
        name, options, columns, threads = sys.argv[1:]
        rnn.set_num_threads(int(threads))
        # Enough for several threads.
        stream = getattr(rnn, name)(
            np.ones((40, int(columns)), np.float32),
            np.ones((1024, int(columns)), np.float32),
            **ast.literal_eval(options))
        x = np.ones(40, np.float32)
        allocations = ctypes.c_long.in_dll(ctypes.CDLL(None), "allocations")
        assert allocations.value > 0
        step = stream.step
        before = allocations.value
        for _ in range(300):
            step(x)
        print(allocations.value - before)
        """,
        stream_class(cell).__name__, cell.options, 1024 * cell.gates, count,
        LD_PRELOAD=counting, FUSED_RNN_NO_TENSORFLOW=1,
    )
    # The loop itself and reading the counter may ask for a few bytes once, and
    # so may the first team, or one made while a thread of the step before is on
    # its way out.
    assert int(counted) < 10
