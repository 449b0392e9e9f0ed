"""Streams of single steps on NumPy arrays."""

import shutil
import subprocess
import threading

import numpy as np
import pytest
from bounds_rnn import BoundedRnn
from helpers import DTYPES, gru_arguments, run_python
from helpers_reference import CASES

import fused_rnn.numpy as rnn
from fused_rnn import reference


def sample(batch, steps, inputs, units, dtype, reset_after, bias=True):
    """x, the weights, h0."""
    values = gru_arguments(
        1, batch, steps, inputs, units, dtype, reset_after=reset_after,
        bias=bias,
    )
    weights = {
        name: values[name] for name in ("kernel", "recurrent_kernel", "bias")
    }
    return values["x"], weights, values["h0"]


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [
    (1, 1, 1), (1, 40, 64), (3, 17, 33), (1, 0, 5), (17, 8, 48), (2, 5, 259),
])
def test_oracle(shape, dtype, reset_after):
    """Each step from the state that the one before left."""
    batch, inputs, units = shape
    x, weights, h0 = sample(
        batch, 4, inputs, units, DTYPES[dtype], reset_after
    )
    stream = rnn.GRUStream(**weights, reset_after=reset_after, batch=batch)
    stream.reset(h0)
    for isa in (rnn.active_isa(), rnn.supported_isas()[0], rnn.active_isa()):
        rnn.select_isa(isa)
        for t in range(4):
            before = stream.state.copy()
            step = x[:, t:t + 1]
            _, expected = reference.gru(
                step, before, **weights, reset_after=reset_after
            )
            state = stream.step(x[:, t])
            bounds = BoundedRnn(
                CASES["gru_after" if reset_after else "gru_before"],
                DTYPES[dtype], step, before, **weights,
            )
            bounds.states["h"].check(state, expected, f"{isa} {t}")


@pytest.mark.parametrize("activation", ["relu", "softsign"])
def test_options_and_absent_arguments(activation):
    x, weights, _ = sample(1, 5, 3, 7, np.float64, True, bias=False)
    options = dict(
        activation=activation, recurrent_activation="hard_sigmoid"
    )
    stream = rnn.GRUStream(
        weights["kernel"], weights["recurrent_kernel"], **options
    )
    _, expected = reference.gru(x, None, **weights, reset_after=True, **options)
    for x_t in x[0]:  # [I] will do for one row.
        state = stream.step(x_t)
    np.testing.assert_allclose(state, expected, rtol=0, atol=1e-14)
    assert state is stream.state and state.shape == (1, 7)
    stream.reset()
    assert not state.any()


def test_weights_are_its_own():
    x, weights, _ = sample(1, 2, 3, 17, np.float32, True)
    stream = rnn.GRUStream(**weights)
    expected = stream.step(x[:, 0]).copy()
    stream.reset()
    for value in weights.values():
        value[...] = np.nan
    weights.clear()
    np.testing.assert_array_equal(stream.step(x[:, 0]), expected)


def test_number_of_threads_may_change():
    x, weights, _ = sample(4, 6, 64, 512, np.float32, True)
    threads = rnn.get_num_threads()
    states = []
    try:
        for counts in ([1] * 6, [4] * 6, [1, 2, 8, 1, 4, 2]):
            stream = rnn.GRUStream(**weights, batch=4)
            for t, count in enumerate(counts):
                rnn.set_num_threads(count)
                state = stream.step(x[:, t])
            states.append(state.tobytes())
    finally:
        rnn.set_num_threads(threads)
    assert states[0] == states[1] == states[2]


def test_refused_arguments():
    x, weights, h0 = sample(2, 1, 3, 5, np.float32, True)
    stream = rnn.GRUStream(**weights, batch=2)
    for bad, error, words in (
        (x, ValueError, r"x_t .*\[2, 3\], got \[2, 1, 3\]"),
        (x[0, 0], ValueError, r"x_t .*\[2, 3\], got \[3\]"),
        (x[:, 0].astype(np.float64), TypeError, "x_t .*float32.*float64"),
        ([[0.0] * 3] * 2, TypeError, "x_t must be a numpy.ndarray, got list"),
    ):
        with pytest.raises(error, match=words):
            stream.step(bad)
    with pytest.raises(ValueError, match=r"h0 .*\[2, 5\], got \[1, 5\]"):
        stream.reset(h0[:1])
    with pytest.raises(ValueError, match="batch must not be negative, got -1"):
        rnn.GRUStream(**weights, batch=-1)
    with pytest.raises(ValueError, match=r"bias .*\[15\], got \[2, 15\]"):
        rnn.GRUStream(**weights, reset_after=False)
    with pytest.raises(ValueError, match="activation must be one of"):
        rnn.GRUStream(**weights, activation="gelu")
    assert not stream.state.any()


def test_two_threads_in_one_stream():
    """One gets an error, never a torn state."""
    x, weights, _ = sample(64, 1, 64, 512, np.float32, True)
    stream = rnn.GRUStream(**weights, batch=64)
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
    assert all("another thread" in error for error in errors)
    alone = rnn.GRUStream(**weights, batch=64)
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


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_step_allocates_nothing(counting, threads):
    counted = run_python(
        """
        import ctypes, sys
        import numpy as np, fused_rnn.numpy as rnn
        rnn.set_num_threads(int(sys.argv[1]))
        # Enough for several threads.
        stream = rnn.GRUStream(
            np.ones((40, 1536), np.float32), np.ones((512, 1536), np.float32))
        x = np.ones(40, np.float32)
        allocations = ctypes.c_long.in_dll(ctypes.CDLL(None), "allocations")
        assert allocations.value > 0
        step = stream.step
        step(x)
        before = allocations.value
        for _ in range(1000):
            step(x)
        print(allocations.value - before)
        """,
        threads, LD_PRELOAD=counting, FUSED_RNN_NO_TENSORFLOW=1,
    )
    # The loop itself and reading the counter may ask for a few bytes once, and
    # so may a team while a thread of the step before is on its way out.
    assert int(counted) < 10
