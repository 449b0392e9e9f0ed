"""`fused-rnn bench`: the work that rivals do, and how a run ends."""

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

program, folder, *modes = sys.argv[1:]
loads = []
worker.serve = loads.append
sys.path.insert(0, program.rpartition("/")[0])
sys.argv[1:] = []
runpy.run_path(program)
_, prepare = loads[0]()
# Every op is then run by itself, in loops too, and can be counted.
tf.config.run_functions_eagerly(True)

layer = keras.layers.GRU(5, return_sequences=True, return_state=True)
layer.build((2, 3, 4))


def by_hand(mode, x, h0, d_outputs):
    if mode == "inference":
        return layer(x, initial_state=h0, training=False)
    with tf.GradientTape() as tape:
        tape.watch([x, h0])
        outputs, state = layer(x, initial_state=h0, training=True)
    weights = [v.value for v in layer.trainable_variables]
    return outputs, state, tape.gradient(
        outputs, [x, h0, *weights], output_gradients=d_outputs
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
    case = worker.Case(folder, mode, "after", "float32", 2, 3, 4, 5)
    call, read = prepare(case)
    layer.set_weights(case.weights())
    values = [tf.constant(v) for v in (case.x, case.h0, case.d_outputs)]
    timed, result = work(call)
    hand, expected = work(lambda: by_hand(mode, *values))
    assert timed == hand, (timed - hand, hand - timed)
    assert sum(n for (op, _), n in hand.items() if op == "MatMul") >= 6
    for name, value in zip(
        ("outputs", "state", "d_x", "d_h0", "d_kernel", "d_recurrent_kernel",
         "d_bias"), tf.nest.flatten(expected),
    ):
        np.testing.assert_array_equal(read(result)[name], value.numpy())

# The number of calls that is reported is of those that were made and timed.
calls = []
clock = iter(range(10**6)).__next__
reported = worker.measure(lambda: calls.append(call()), 20, clock)
assert reported["calls"] < len(calls) <= reported["calls"] + 4
"""


def test_a_rival_does_the_work_of_a_hand_written_loop(tmp_path):
    pytest.importorskip("tensorflow")
    case = cases.SequenceCase(tmp_path / "case", (2, 3, 4, 5))
    helpers.run_python(
        WORK, fleet.PROGRAMS_FOLDER / "keras_gru.py", case.folder,
        *cases.MODES, FUSED_RNN_NO_TENSORFLOW=1,
    )


# ---- How it ends.

CRASHING = """
import os, sys
import time
from fused_rnn.bench import worker


def load():
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
}
sys.exit(cli.main(arguments))
"""


def test_interrupted_it_prints_what_there_is(tmp_path):
    """One rival crashed, another erred, and hangs when it is interrupted."""
    program = tmp_path / "rival.py"
    program.write_text(CRASHING)
    process = subprocess.Popen(
        [sys.executable, "-c", BENCH, program,
         *helpers.bench_command(tmp_path, "--shapes", "2,3,4,5", "2,4,4,5", "--mode",
                     "inference", "--only", "ours,torch,jax")],
        env={**os.environ, "PYTHONPATH": helpers.PACKAGES,
             "BENCHMARK_MARK": str(tmp_path), "FUSED_RNN_NO_TENSORFLOW": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=helpers.heed_interrupts,
    )
    try:
        for line in process.stderr:  # A line a shape that is done.
            if "(2, 3, 4, 5) inference" in line:
                break
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    first, second = (block.splitlines() for block in printed.split("\n\n")[:2])
    rows = {line[2:28].strip(): line for line in first}
    assert "ms ±" in rows["fused_rnn"]
    assert any("fused_rnn" in line and "not timed" in line for line in second)
    assert "SIGABRT" in rows["PyTorch"]
    assert "computes something else" in rows["JAX"]
    assert printed.rstrip().endswith("Interrupted.")
    record = json.loads((tmp_path / "results.json").read_text())["bench"]
    assert record["interrupted"]
    deadline = time.monotonic() + 10
    while helpers.processes_with(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert helpers.processes_with(tmp_path) == []
