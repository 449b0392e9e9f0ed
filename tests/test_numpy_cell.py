"""The block cell on NumPy arrays: values, gradients, what is refused."""

import threading

import ml_dtypes
import numpy as np
import pytest
from bounds import bounded_cell, bounded_cell_grad
from helpers import (
    CELL_INPUTS,
    CELL_OUTPUTS,
    CELL_SHAPES,
    DTYPES,
    cell_arguments,
    cell_gradients,
    run_python,
)

import fused_rnn.numpy as rnn
from fused_rnn import reference


def sample(shape, dtype="float32"):
    batch, inputs, units = CELL_SHAPES[shape]
    values = cell_arguments(1, batch, inputs, units, DTYPES[dtype])
    return values, cell_gradients(2, batch, units, DTYPES[dtype])


def cell_and_gradient(inputs, incoming):
    """All results of both functions, by name."""
    cell = rnn.gru_block_cell(**inputs)
    gradients = rnn.gru_block_cell_grad(
        **inputs, r=cell.r, u=cell.u, c=cell.c, **incoming
    )
    return {
        **cell._asdict(),
        **{f"d_{name}": d for name, d in gradients._asdict().items()},
    }


def check_same_bits(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert value.tobytes() == expected[name].tobytes(), name


@pytest.fixture
def threads():
    """Changes the number of threads, and puts it back."""
    before = rnn.get_num_threads()
    yield rnn.set_num_threads
    rnn.set_num_threads(before)


@pytest.fixture
def isa():
    before = rnn.active_isa()
    yield rnn.select_isa
    rnn.select_isa(before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CELL_SHAPES)
def test_oracle(shape, dtype, isa):
    inputs, incoming = sample(shape, dtype)
    expected = reference.gru_block_cell(**inputs)
    d_expected = reference.gru_block_cell_grad(**inputs, **incoming)
    bounds = bounded_cell(DTYPES[dtype], **inputs)
    d_bounds = bounded_cell_grad(DTYPES[dtype], **inputs, **incoming)
    for name in rnn.supported_isas():
        isa(name)
        actual = cell_and_gradient(inputs, incoming)
        for output, bound in zip(CELL_OUTPUTS, bounds):
            bound.check(actual[output], getattr(expected, output), output)
        for output, bound in d_bounds.items():
            bound.check(actual[f"d_{output}"], d_expected[output], output)


def test_gradients_that_do_not_arrive_are_zeros():
    inputs, incoming = sample("primes")
    zeros = np.zeros_like(incoming["d_h"])
    for name in incoming:
        one = {name: incoming[name]}
        padded = {**dict.fromkeys(incoming, zeros), **one}
        check_same_bits(
            cell_and_gradient(inputs, one), cell_and_gradient(inputs, padded)
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_anywhere(dtype):
    """Rows may be apart, misaligned for vectors, reversed or all the same."""
    inputs, incoming = sample("primes", dtype)
    expected = cell_and_gradient(inputs, incoming)

    def spread(value):
        wide = np.full(
            (2 * len(value), *(n + 5 for n in value.shape[1:])), 7, value.dtype
        )
        view = wide[::-2, 3:-2] if value.ndim == 2 else wide[1:1 + len(value)]
        view[...] = value
        return view

    check_same_bits(
        cell_and_gradient(
            {name: spread(value) for name, value in inputs.items()},
            {name: spread(value) for name, value in incoming.items()},
        ),
        expected,
    )
    same_rows = {**inputs, "x": np.broadcast_to(inputs["x"][:1], (13, 31))}
    copied = {**inputs, "x": same_rows["x"].copy()}
    check_same_bits(
        cell_and_gradient(same_rows, incoming),
        cell_and_gradient(copied, incoming),
    )


def test_arguments_are_left_alone():
    inputs, incoming = sample("primes")
    for value in (*inputs.values(), *incoming.values()):
        value.flags.writeable = False
    before = {name: value.tobytes() for name, value in inputs.items()}
    cell_and_gradient(inputs, incoming)
    assert before == {name: v.tobytes() for name, v in inputs.items()}


@pytest.mark.parametrize("name", CELL_INPUTS)
def test_refused_arguments(name):
    """The error's class; a message with the name, what was expected, what
    came."""
    inputs, incoming = sample("primes")
    value = inputs[name]

    def refused(bad, error, *words):
        with pytest.raises(error) as caught:
            rnn.gru_block_cell(**{**inputs, name: bad})
        for word in (name, *words):
            assert word in str(caught.value), str(caught.value)

    refused(value.tolist(), TypeError, "numpy.ndarray", "list")
    refused(None, TypeError, "numpy.ndarray", "NoneType")
    refused(value.astype(np.int32), TypeError, "float32", "int32")
    refused(value.astype(np.longdouble), TypeError, "float64", "longdouble"
            if np.dtype(np.longdouble).name == "longdouble" else "float128")
    refused(value.astype(">f4"), TypeError, "native", ">f4")
    if name != "x":
        refused(value.astype(np.float64), TypeError, "float32", "float64")
        more = np.concatenate([value, value[:1]])
        refused(more, ValueError, str(list(value.shape)), str(list(more.shape)))
    refused(value[np.newaxis], ValueError, str([1, *value.shape]))
    apart = np.repeat(value, 2, axis=-1)[..., ::2]
    refused(apart, ValueError, "contiguous rows", f"{apart.strides[-1]}]")
    refused(value[..., ::-1], ValueError, "contiguous rows", "-4]")
    raw = np.empty(value.nbytes + 1, np.uint8)[1:]
    refused(raw.view(np.float32).reshape(value.shape), ValueError, "aligned")


@pytest.mark.parametrize("name", ["r", "u", "c", "d_r", "d_u", "d_c", "d_h"])
def test_refused_gradient_arguments(name):
    inputs, incoming = sample("primes")
    cell = rnn.gru_block_cell(**inputs)._asdict()
    del cell["h"]
    values = {**inputs, **cell, **incoming}
    bad = np.ones((13, 54), np.float32)
    with pytest.raises(ValueError, match=rf"{name} .*\[13, 53\].*\[13, 54\]"):
        rnn.gru_block_cell_grad(**{**values, name: bad})
    with pytest.raises(TypeError, match=f"{name} .*float32.*float64"):
        rnn.gru_block_cell_grad(
            **{**values, name: np.ones((13, 53), np.float64)}
        )


def test_bytes_of_bfloat16_are_not_taken_for_another_type():
    inputs, _ = sample("primes", "bfloat16")
    assert rnn.gru_block_cell(**inputs).h.dtype == ml_dtypes.bfloat16
    other = {
        name: value.astype(ml_dtypes.float8_e5m2)
        for name, value in inputs.items()
    }
    with pytest.raises(TypeError, match="x must have dtype .*float8_e5m2"):
        rnn.gru_block_cell(**other)


def test_thread_counts_give_the_same_bits(threads):
    values = cell_arguments(3, 65, 257, 160, np.dtype(np.float32))
    incoming = cell_gradients(4, 65, 160, np.dtype(np.float32))
    threads(1)
    expected = cell_and_gradient(values, incoming)
    for count in (2, 4, 8):
        threads(count)
        assert rnn.get_num_threads() == count
        check_same_bits(cell_and_gradient(values, incoming), expected)
    with pytest.raises(ValueError, match="threads .* 1, got 0"):
        threads(0)


def test_many_callers_while_the_pool_changes(threads):
    values = cell_arguments(3, 64, 64, 96, np.dtype(np.float32))
    incoming = cell_gradients(4, 64, 96, np.dtype(np.float32))
    expected = cell_and_gradient(values, incoming)
    failures = []

    def call():
        try:
            for _ in range(20):
                check_same_bits(cell_and_gradient(values, incoming), expected)
        except AssertionError as error:
            failures.append(error)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for count in range(1, 9):
        threads(count)
    for caller in callers:
        caller.join()
    assert not failures


def test_python_runs_while_a_kernel_does(threads):
    """Without the GIL the loop below turns while the kernel works."""
    threads(1)
    values = cell_arguments(3, 512, 512, 512, np.dtype(np.float64))
    running = threading.Event()
    turns = 0

    def call():
        running.set()
        for _ in range(20):
            rnn.gru_block_cell(**values)
        running.clear()

    caller = threading.Thread(target=call)
    caller.start()
    running.wait()
    while running.is_set():
        turns += 1
    caller.join()
    # Holding the GIL, the calls let the loop turn between them at most: for 20
    # switch intervals, if it were to wait for each.
    assert turns > 10_000


def test_instruction_sets(isa):
    assert rnn.supported_isas()[0] == "baseline"
    with pytest.raises(ValueError, match="no_such_set.*baseline"):
        isa("no_such_set")
    run_python(
        """
        import numpy as np, fused_rnn.numpy as rnn
        try:
            rnn.gru(np.ones((1, 1, 1)), None, np.ones((1, 3)), np.ones((1, 3)))
        except ValueError as error:
            assert "no_such_set" in str(error) and "baseline" in str(error)
        else:
            raise AssertionError("no error")
        """,
        FUSED_RNN_ISA="no_such_set", FUSED_RNN_NO_TENSORFLOW=1,
    )


def test_without_tensorflow_and_ml_dtypes():
    """Neither is imported, and both may be missing."""
    run_python(
        """
        import sys
        sys.modules["tensorflow"] = sys.modules["ml_dtypes"] = None
        import numpy as np, fused_rnn.numpy as rnn
        cell = rnn.gru_block_cell(
            np.ones((2, 3)), np.zeros((2, 4)), np.ones((7, 8)),
            np.ones((7, 4)), np.ones(8), np.zeros(4))
        assert cell.h.shape == (2, 4)
        """,
        FUSED_RNN_NO_TENSORFLOW=1,
    )


def test_fork_and_exit():
    """A child makes threads of its own; exit waits for nobody."""
    run_python(
        """
        import multiprocessing, os, threading
        import numpy as np, fused_rnn.numpy as rnn

        rnn.set_num_threads(4)
        rng = np.random.default_rng(0)
        values = [rng.standard_normal(shape).astype(np.float32) for shape in (
            (64, 96), (64, 128), (224, 256), (224, 128), (256,), (128,))]

        def work():
            return rnn.gru_block_cell(*values).h.tobytes()

        expected = work()
        pid = os.fork()
        if pid == 0:
            same = rnn.get_num_threads() == 4 and work() == expected
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert work() == expected

        # A thread that still works does not keep the interpreter from ending.
        def forever():
            while True:
                work()
        threading.Thread(target=forever, daemon=True).start()
        work()
        """,
        timeout=60, FUSED_RNN_NO_TENSORFLOW=1,
    )
