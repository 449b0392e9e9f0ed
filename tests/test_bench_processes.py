"""`fused-rnn bench`: the work that rivals do, and how a run ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import helpers
from fused_rnn.bench import cases, fleet

# ---- The work that is timed is a hand-written loop's.

WORK = """
import collections, runpy, sys
import keras, numpy as np, tensorflow as tf
from tensorflow.python.framework import op_callbacks
from fused_rnn.bench import worker

program, folder, cell, convention, *modes = sys.argv[1:]
loads = []
worker.serve = loads.append
sys.path.insert(0, program.rpartition("/")[0])
sys.argv[1:] = []
runpy.run_path(program)
_, prepare = loads[0]()
# Every op is then run by itself, in loops too, and can be counted.
tf.config.run_functions_eagerly(True)

kind = {"gru": "GRU", "lstm": "LSTM", "rnn": "SimpleRNN"}[cell]
layer = getattr(keras.layers, kind)(5, return_sequences=True, return_state=True)
layer.build((2, 3, 4))


def by_hand(mode, x, states, d_outputs):
    if mode == "inference":
        return layer(x, initial_state=states, training=False)
    with tf.GradientTape() as tape:
        tape.watch([x, *states])
        outputs, *last = layer(x, initial_state=states, training=True)
    weights = [v.value for v in layer.trainable_variables]
    return outputs, *last, tape.gradient(
        outputs, [x, *states, *weights], output_gradients=d_outputs
    )


def work(function):
    counts = collections.Counter()

    def count(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        shapes = tuple(tuple(value.shape) for value in inputs)
        counts[op_type, shapes] += 1

    op_callbacks.add_op_callback(count)
    result = function()
    op_callbacks.remove_op_callback(count)
    return counts, result


for mode in modes:
    case = worker.Case(folder, mode, convention, "float32", cell, 2, 3, 4, 5)
    call, read = prepare(case)
    layer.set_weights(case.weights())
    states = [tf.constant(getattr(case, name)) for name in case.states]
    values = tf.constant(case.x), states, tf.constant(case.d_outputs)
    timed, result = work(call)
    hand, expected = work(lambda: by_hand(mode, *values))
    assert timed == hand, (timed - hand, hand - timed)
    assert sum(n for (op, _), n in hand.items() if op == "MatMul") >= 4
    found, expected = read(result), tf.nest.flatten(expected)
    assert len(found) == len(expected)
    for name, value in zip(found, expected):
        np.testing.assert_array_equal(found[name], value.numpy(), name)

# The number of calls that is reported is of those that were made and timed.
calls = []
clock = iter(range(10**6)).__next__
reported = worker.measure(lambda: calls.append(call()), 20, clock)
assert reported["calls"] < len(calls) <= reported["calls"] + 4
"""


@pytest.mark.parametrize("cell, convention", [
    ("gru", "after"), ("lstm", "lstm"), ("rnn", "rnn"),
])
def test_a_rival_does_the_work_of_a_hand_written_loop(
    cell, convention, tmp_path
):
    pytest.importorskip("tensorflow")
    case = cases.SequenceCase(tmp_path / "case", (2, 3, 4, 5), cell=cell)
    helpers.run_python(
        WORK, fleet.PROGRAMS_FOLDER / "keras_rnn.py", case.folder, cell,
        convention, *cases.MODES, FUSED_RNN_NO_TENSORFLOW=1,
    )


# ---- How it ends.

CRASHING = """
import os, sys
import time
from fused_rnn.bench import worker


def load():
    if sys.argv[1] == "starts slowly":
        print("starts", file=open(sys.argv[2], "w"))
        time.sleep(600)

    def prepare(case):
        if sys.argv[1] == "crash":
            os.abort()
        time.sleep(0.1 if case.steps == 3 else 600)
        return lambda: 0, lambda result: {
            "outputs": 0 * case.d_outputs, "state": case.h0
        }

    return {}, prepare


worker.serve(load)
"""
BENCH = """
import sys
from fused_rnn import cli
from fused_rnn.bench import fleet, programs

path, *arguments = sys.argv[1:]
programs.PROGRAMS = {
    "ours": programs.PROGRAMS["ours"],
    "torch": fleet.Program(path, ("crash",), own=True),
    "jax": fleet.Program(path, ("slow",), own=True),
    "keras-jax": fleet.Program(
        path, ("starts slowly", path + ".started"), own=True
    ),
}
sys.exit(cli.main(arguments))
"""


@contextlib.contextmanager
def bench_process(folder, *arguments):
    """A run of the bench with rivals that fail; none of it may stay behind."""
    program = folder / "rival.py"
    program.write_text(CRASHING)
    process = subprocess.Popen(
        [sys.executable, "-c", BENCH, program,
         *helpers.bench_command(folder, "--mode", "inference", *arguments)],
        env={**os.environ, "PYTHONPATH": helpers.PACKAGES,
             "BENCHMARK_MARK": str(folder), "FUSED_RNN_NO_TENSORFLOW": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=helpers.heed_interrupts,
    )
    try:
        yield process
    finally:
        process.kill()
    # It waits for those that it ends.
    assert helpers.processes_with(folder) == []


def interrupt(process):
    """Ctrl-C by somebody impatient; what the bench printed."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert " ".join(printed.split()).endswith("Interrupted.")
    return printed


def test_interrupted_it_prints_what_there_is(tmp_path):
    """One rival crashed, another erred, and hangs when it is interrupted."""
    with bench_process(tmp_path, "--shapes", "2,3,4,5", "2,4,4,5", "--only",
                       "ours,torch,jax") as process:
        for line in process.stderr:  # A line a shape that is done.
            if "(2, 3, 4, 5) inference" in line:
                break
        time.sleep(1)
        printed = interrupt(process)
    first, second = (block.splitlines() for block in printed.split("\n\n")[:2])
    rows = {line[2:28].strip(): line for line in first}
    assert "±" in rows["fused_rnn"]
    assert any("fused_rnn" in line and "not timed" in line for line in second)
    # Neither was ever timed.
    failures = printed.partition("Not timed anywhere:")[2]
    assert "computes something else" in failures and "SIGABRT" in failures
    record = json.loads((tmp_path / "results.json").read_text())["bench"]
    assert record["interrupted"] and "ours" in record["versions"]


def test_interrupted_while_a_worker_starts(tmp_path):
    started = tmp_path / "rival.py.started"
    with bench_process(tmp_path, "--only", "keras-jax") as process:
        deadline = time.monotonic() + 60
        while not started.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        printed = interrupt(process)
    assert "fused_rnn" in printed and "Keras on JAX" not in printed


def test_interrupted_at_once(tmp_path):
    """Nothing was measured, so an older file of results is left alone."""
    results = tmp_path / "results.json"
    results.write_text('{"bench": {}}')
    with bench_process(tmp_path) as process:
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert results.read_text() == '{"bench": {}}'


def test_an_orphan_ends_itself(tmp_path):
    """Its parent ended before the system could be asked to tell."""
    program = tmp_path / "rival.py"
    program.write_text(CRASHING)
    done = subprocess.run(
        [sys.executable, program, "slow"], stdin=subprocess.PIPE, timeout=60,
        stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": helpers.PACKAGES,
             "BENCHMARK_PARENT": "1"},
    )
    assert done.returncode and "the parent has ended" in done.stderr
