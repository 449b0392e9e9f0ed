"""The block cells on NumPy arrays: values, gradients, what is refused."""

import threading

import ml_dtypes
import numpy as np
import pytest
from helpers import (
    CELL_SHAPES,
    DTYPES,
    cell_arguments,
    cell_gradients,
    run_python,
)
from helpers_numpy_block import BLOCK_CELLS
from helpers_numpy import same_bits
from helpers_reference import check_gradients

import fused_rnn.numpy as rnn

each_cell = pytest.mark.parametrize(
    "cell", BLOCK_CELLS.values(), ids=BLOCK_CELLS
)
PEEPHOLES = ("wci", "wcf", "wco")


def sample(cell, shape, dtype="float32"):
    batch, inputs, units = CELL_SHAPES[shape]
    return (
        cell.arguments(1, batch, inputs, units, DTYPES[dtype]),
        cell.incoming(2, batch, units, DTYPES[dtype]),
    )


def run(cell, inputs, incoming):
    return cell.run(rnn, inputs, incoming)


@each_cell
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CELL_SHAPES)
def test_oracle(shape, dtype, cell, isas):
    inputs, incoming = sample(cell, shape, dtype)
    expected, d_expected = cell.oracle(inputs, incoming)
    bounds, d_bounds = cell.bounds(DTYPES[dtype], inputs, incoming)
    for name in isas:
        rnn.select_isa(name)
        actual = run(cell, inputs, incoming)
        for output, bound in bounds.items():
            bound.check(actual[output], expected[output], output)
        for output, bound in d_bounds.items():
            bound.check(actual[f"d_{output}"], d_expected[output], output)


@each_cell
def test_finite_differences(cell):
    inputs = cell.arguments(3, 3, 2, 4, np.dtype(np.float64))
    incoming = cell.incoming(4, 3, 4, np.dtype(np.float64))

    def loss():
        outputs = run(cell, inputs, incoming)
        return sum(
            np.sum(incoming[f"d_{name}"] * outputs[name])
            for name in cell.outputs
        )

    d = run(cell, inputs, incoming)
    check_gradients(loss, inputs, {
        name: d.get(f"d_{name}", np.zeros_like(value))
        for name, value in inputs.items()
    })


@each_cell
def test_gradients_that_do_not_arrive_are_zeros(cell):
    inputs, incoming = sample(cell, "primes")
    zeros = np.zeros((13, 53), np.float32)
    for name in incoming:
        one = {name: incoming[name]}
        padded = {**dict.fromkeys(incoming, zeros), **one}
        same_bits(run(cell, inputs, one), run(cell, inputs, padded))


@each_cell
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_anywhere(dtype, cell):
    """Rows may be apart, misaligned for vectors, reversed or all the same."""
    inputs, incoming = sample(cell, "primes", dtype)
    expected = run(cell, inputs, incoming)

    def spread(value):
        wide = np.full(
            (2 * len(value), *(n + 5 for n in value.shape[1:])), 7, value.dtype
        )
        view = wide[::-2, 3:-2] if value.ndim == 2 else wide[1:1 + len(value)]
        view[...] = value
        return view

    same_bits(
        run(
            cell, {name: spread(value) for name, value in inputs.items()},
            {name: spread(value) for name, value in incoming.items()},
        ),
        expected,
    )
    same_rows = {**inputs, "x": np.broadcast_to(inputs["x"][:1], (13, 31))}
    copied = {**inputs, "x": same_rows["x"].copy()}
    same_bits(run(cell, same_rows, incoming), run(cell, copied, incoming))


@each_cell
def test_arguments_are_left_alone(cell):
    inputs, incoming = sample(cell, "primes")
    for value in (*inputs.values(), *incoming.values()):
        value.flags.writeable = False
    before = {name: value.tobytes() for name, value in inputs.items()}
    run(cell, inputs, incoming)
    assert before == {name: v.tobytes() for name, v in inputs.items()}


def test_peepholes_that_are_not_used_are_not_looked_at():
    cell = BLOCK_CELLS["lstm"]
    inputs, incoming = sample(cell, "primes")
    expected = run(cell, inputs, incoming)
    for value in (None, np.full(53, np.nan, np.float32), np.ones(3), "none"):
        given = {**inputs, **dict.fromkeys(PEEPHOLES, value)}
        same_bits(run(cell, given, incoming), expected)
    assert not any(f"d_{name}" in expected for name in PEEPHOLES)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_clip_is_rounded_as_the_states_are(dtype):
    """So that the gradient knows what was cut off, though 0.1 has no such
    number."""
    cell = BLOCK_CELLS["lstm"]
    inputs, incoming = sample(cell, "primes", dtype)
    outputs = rnn.lstm_block_cell(**inputs, cell_clip=0.1)
    cut = np.abs(outputs.cs) == DTYPES[dtype].type(0.1)
    assert cut.sum() > 300
    assert (np.abs(outputs.cs) <= DTYPES[dtype].type(0.1)).all()
    d = rnn.lstm_block_cell_grad(
        **inputs, **{name: getattr(outputs, name) for name in cell.kept},
        d_cs=incoming["d_cs"], cell_clip=0.1,
    )
    np.testing.assert_array_equal(d.cs_prev != 0, ~cut)


@pytest.mark.parametrize("name", ["gru", "lstm_peephole_clip"])
def test_refused_arguments(name):
    """The error's class; a message with the name, what was expected, what
    came."""
    cell = BLOCK_CELLS[name]
    inputs, _ = sample(cell, "primes")

    def refused(name, bad, error, *words):
        with pytest.raises(error) as caught:
            getattr(rnn, cell.name)(**{**inputs, name: bad}, **cell.options)
        for word in (name, *words):
            assert word in str(caught.value), str(caught.value)

    for name in cell.inputs:
        value = inputs[name]
        refused(name, value.tolist(), TypeError, "numpy.ndarray", "list")
        refused(name, None, TypeError, "numpy.ndarray", "NoneType")
        refused(name, value.astype(np.int32), TypeError, "float32", "int32")
        long = value.astype(np.longdouble)
        refused(name, long, TypeError, "float64", str(long.dtype))
        refused(name, value.astype(">f4"), TypeError, "native", ">f4")
        if name != "x":
            wide = value.astype(np.float64)
            refused(name, wide, TypeError, "float32", "float64")
            more = np.concatenate([value, value[:1]])
            refused(
                name, more, ValueError, str(list(value.shape)),
                str(list(more.shape)),
            )
        refused(name, value[np.newaxis], ValueError, str([1, *value.shape]))
        apart = np.repeat(value, 2, axis=-1)[..., ::2]
        refused(
            name, apart, ValueError, "contiguous rows", f"{apart.strides[-1]}]"
        )
        refused(name, value[..., ::-1], ValueError, "contiguous rows", "-4]")
        raw = np.empty(value.nbytes + 1, np.uint8)[1:].view(np.float32)
        refused(name, raw.reshape(value.shape), ValueError, "aligned")


@pytest.mark.parametrize("name", ["gru", "lstm_peephole_clip"])
def test_refused_gradient_arguments(name):
    cell = BLOCK_CELLS[name]
    inputs, incoming = sample(cell, "primes")
    outputs = getattr(rnn, cell.name)(**inputs)
    kept = {name: getattr(outputs, name) for name in cell.kept}
    for name in (*kept, *incoming):
        def refused(bad, error, words):
            with pytest.raises(error, match=words):
                getattr(rnn, f"{cell.name}_grad")(
                    **{**inputs, **kept, **incoming, name: bad}
                )

        refused(
            np.ones((13, 54), np.float32), ValueError,
            rf"^{name} .*\[13, 53\].*\[13, 54\]",
        )
        refused(np.ones((13, 53)), TypeError, f"^{name} .*float32.*float64")


def test_bytes_of_bfloat16_are_not_taken_for_another_type():
    inputs, _ = sample(BLOCK_CELLS["gru"], "primes", "bfloat16")
    assert rnn.gru_block_cell(**inputs).h.dtype == ml_dtypes.bfloat16
    other = {
        name: value.astype(ml_dtypes.float8_e5m2)
        for name, value in inputs.items()
    }
    with pytest.raises(TypeError, match="x must have dtype .*float8_e5m2"):
        rnn.gru_block_cell(**other)


@each_cell
def test_thread_counts_give_the_same_bits(cell, threads):
    inputs = cell.arguments(3, 65, 257, 160, np.dtype(np.float32))
    incoming = cell.incoming(4, 65, 160, np.dtype(np.float32))
    threads(1)
    expected = run(cell, inputs, incoming)
    for count in (2, 4, 8):
        threads(count)
        assert rnn.get_num_threads() == count
        same_bits(run(cell, inputs, incoming), expected)
    for wrong in (-1, 0, 1025, 1 << 40):
        with pytest.raises(
            ValueError, match=f"threads must be from 1 to 1024, got {wrong}$"
        ):
            threads(wrong)


def test_many_callers_while_the_pool_changes(threads):
    cell = BLOCK_CELLS["gru"]
    values = cell_arguments(3, 64, 64, 96, np.dtype(np.float32))
    incoming = cell_gradients(4, 64, 96, np.dtype(np.float32))
    expected = run(cell, values, incoming)
    failures = []

    def call():
        try:
            for _ in range(20):
                same_bits(run(cell, values, incoming), expected)
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


def test_instruction_sets(isas):
    assert isas[0] == "baseline"
    with pytest.raises(ValueError, match="no_such_set.*baseline"):
        rnn.select_isa("no_such_set")
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
