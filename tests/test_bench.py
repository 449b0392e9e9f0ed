"""`fused-rnn bench`: its course, its record, its listing and its plots."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import helpers
from fused_rnn import cli
from fused_rnn.bench import (
    cases, fleet, harness, limits, listing, summary,
)
from fused_rnn.cli import bench

LIMITS = {
    "threads": 2, "instruction set": "avx512", "operations": 1e11,
    "bytes": [[1 << 15, 4e11], [1 << 20, 1e11], [1 << 27, 1e10]],
}


def result(name, shape, mode, seconds, threads=2, convention="after"):
    rounds = [seconds, seconds]
    return {
        "name": name, "shape": list(shape), "mode": mode, "status": "ok",
        "convention": convention, "threads": threads, "calls": 2,
        **harness.summary(rounds), "rounds": rounds,
    }


def record_of(*results, **about):
    record = harness.start_record(
        threads=[2], rounds=2, budget=0.1, dtype="float32"
    )
    return {**record, "results": list(results), "limits": [LIMITS], **about}


# ---- What it prints.


def test_listing_sets_each_rival_against_its_own_side():
    shape = (2, 3, 4, 5)
    record = record_of(
        result("ours", shape, "inference", 0.001),
        result("ours-tf", shape, "inference", 0.002),
        result("onednn", shape, "inference", 0.0005),
        result("keras", shape, "inference", 0.02),
        {"name": "torch", "shape": list(shape), "mode": "inference",
         "convention": "after", "threads": 2, "status": "ended by SIGSEGV"},
    )
    rows = {line[2:28].strip(): line for line in
            listing.listing(record).splitlines() if line.startswith("  ")}
    assert "0.50x" in rows["oneDNN"]
    assert "10.00x" in rows["Keras"]
    assert rows["PyTorch"].endswith("not timed: ended by SIGSEGV")
    assert "±" in rows["fused_rnn"] and "x the" not in rows["fused_rnn"]


def test_short_table_has_every_loss():
    first, second = (1, 2, 3, 4), (5, 6, 7, 8)
    record = record_of(
        result("ours", first, "inference", 1.0),
        result("ours", second, "inference", 1.0),
        result("onednn", first, "inference", 4.0),
        result("onednn", second, "inference", 0.25),
    )
    text = summary.speed(record)
    assert ("| oneDNN | 1.00 | 0.25 at (5, 6, 7, 8) | 4.00 at (1, 2, 3, 4) |"
            in text)
    assert "- oneDNN, inference at (5, 6, 7, 8): 0.250" in text
    assert text.count("\n- ") == 1


# ---- Accuracy.


def test_errors_in_ulp():
    want = {"outputs": np.array([1.0, 2.0, 1.5, 1e-9]),
            "d_x": np.array([1.0, 1.0])}
    unit = 2.0**-23
    found = {"outputs": want["outputs"] + unit * np.array([1, 4, 0, 1]),
             "d_x": want["d_x"] - unit * np.array([3, 0])}
    errors = cases.errors_in_ulp(found, want, "float32")
    # The unit at 2 is twice that at 1; a sum that cancelled has that of the
    # root mean square, which is between 1 and 2.
    assert errors == {"forward": {"max": 2.0, "mean": 1.0},
                      "gradients": {"max": 3.0, "mean": 1.5}}
    found["d_x"][0] = np.nan
    errors = cases.errors_in_ulp(found, want, "float32")
    assert np.isnan(errors["gradients"]["max"])


def test_table_of_accuracy():
    one = result("ours", (1, 2, 3, 4), "training", 1.0)
    other = result("ours", (5, 6, 7, 8), "training", 1.0)
    one["ulp"] = {"forward": {"max": 2.0, "mean": 0.5},
                  "gradients": {"max": 8.0, "mean": 1.0}}
    other["ulp"] = {"forward": {"max": 3.0, "mean": 1.0},
                    "gradients": {"max": 4.0, "mean": 2.0}}
    text = summary.accuracy(record_of(one, other))
    assert "| reset after | fused_rnn | 3 | 0.75 | 8 | 1.5 |" in text
    assert "Shapes (B,T,I,H): (1, 2, 3, 4), (5, 6, 7, 8)." in text


# ---- Limits.


def test_a_step_takes_as_long_as_its_limit():
    # Products: 2·B·3H·(I+H) operations.
    many = limits.step_seconds(LIMITS, 1000, 100, 100)
    assert many == pytest.approx(2 * 1000 * 300 * 200 / 1e11)
    assert limits.step_seconds(LIMITS, 1000, 100, 100, True) == (
        pytest.approx(3 * many)
    )
    # One row: 12·H² bytes, of which each of two threads reads half.
    assert limits.step_seconds(LIMITS, 1, 1, 400) == pytest.approx(
        12 * 400**2 / 1e11
    )
    assert limits.step_seconds(LIMITS, 1, 1, 4000, True) == pytest.approx(
        2 * 12 * 4000**2 / 1e10
    )


def test_the_probe_finds_what_a_processor_can_do():
    core = pytest.importorskip("fused_rnn._core")
    for threads in (1, 2):
        assert 1e8 < core.probe_multiply_adds(threads, 0.005) < 1e14
        assert 1e7 < core.probe_reads(5000, threads, 0.005) < 1e14


# ---- Plots.


def grid(*names):
    return [
        result(name, shape, mode, (index + 1) * 1e-5 * shape[1], threads)
        for threads in (1, 2) for shape in bench.SHAPES
        for mode in cases.MODES for index, name in enumerate(names)
    ]


def test_plots_have_their_axes(tmp_path):
    pytest.importorskip("matplotlib")
    from fused_rnn.bench import figures

    record = record_of(*grid("ours-tf", "keras", "torch"))
    figure = figures.make(record)
    panels = [axes for axes in figure.axes if axes.get_title()]
    labels = [(axes.get_xlabel(), axes.get_ylabel()) for axes in panels]
    for expected in (
        ("units H", "batch B"), ("units H", "µs a step"), ("steps T", "ms"),
        ("threads", "times as fast as one thread"),
    ):
        assert labels.count(expected) == len(cases.MODES), expected
    heat, _, step, *_ = panels
    assert [text.get_text() for text in heat.texts] == ["2.00×"] * 9
    names = [text.get_text() for text in step.get_legend().get_texts()]
    assert names == ["fused_rnn in tf.function", "PyTorch", "Keras",
                     "limit of this machine"]
    styles = {
        (line.get_marker(), line.get_linestyle()) for line in step.lines
    }
    assert len(styles) == len(names)  # Told apart without colours.
    times = step.lines[0].get_ydata()
    assert times == pytest.approx([10, 10, 10])
    path = tmp_path / "plot.png"
    assert figures.draw(record, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_plots_of_what_there_is(tmp_path):
    pytest.importorskip("matplotlib")
    from fused_rnn.bench import figures

    path = tmp_path / "plot.png"
    assert not figures.draw(record_of(), path)
    one = result("keras", (1, 2, 3, 4), "inference", 1.0)
    assert not figures.draw(record_of(one), path) and not path.exists()
    two = result("keras", (1, 8, 3, 4), "inference", 2.0)
    figure = figures.make(record_of(one, two))
    assert [axes.get_xlabel() for axes in figure.axes] == ["steps T"]


# ---- The command.


def options_of(tmp_path, *arguments):
    return [
        "bench", "--threads", "1", "--shape", "2,3,4,5", "--rounds", "2",
        "--budget", "0.01", "--json", str(tmp_path / "results.json"),
        *arguments,
    ]


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_the_command(dtype, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "plot.png"
    assert cli.main(options_of(
        tmp_path, "--only", "ours,torch", "--dtype", dtype, "--shapes",
        "2,3,4,5", "2,3,4,9", "--mode", "inference", "--plot", str(plot),
        "--python", sys.executable,
    )) == 0
    record = json.loads((tmp_path / "results.json").read_text())["bench"]
    assert record["schema"] == harness.SCHEMA and not record["interrupted"]
    assert record["settings"] == {
        "threads": [1], "rounds": 2, "budget": 0.01, "dtype": dtype
    }
    assert {"processor", "instruction sets", "caches"} <= set(record["machine"])
    measured, = record["limits"]
    assert measured["threads"] == 1 and measured["operations"] > 0
    assert [size for size, _ in measured["bytes"]] == list(limits.SIZES)
    assert "fused_rnn instruction set" in record["versions"]["ours"]
    done = [r for r in record["results"] if r["status"] == "ok"]
    assert {r["name"] for r in done} >= {"ours", "ours-tf"}
    for timed in done:
        assert len(timed["rounds"]) == 2 and timed["median"] > 0
        assert timed["threads"] == 1 and timed["ulp"]["forward"]["max"] < 50
    printed = capsys.readouterr().out
    assert "(B,T,I,H) = (2, 3, 4, 5), inference, reset after" in printed
    assert plot.stat().st_size > 10_000


@pytest.mark.parametrize("arguments, words", [
    (["--only", "nobody"], "unknown: nobody"),
    (["--threads", "0"], "--threads must be between"),
    (["--shape", "1,2"], "invalid"),
])
def test_wrong_arguments(arguments, words, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(options_of(tmp_path, *arguments))
    assert end.value.code == 2 and words in capsys.readouterr().err


def test_what_is_missing_is_said_before_anything_is_measured(
    tmp_path, capsys, monkeypatch
):
    find = bench.importlib.util.find_spec
    monkeypatch.setattr(
        bench.importlib.util, "find_spec",
        lambda name: None if name == "matplotlib" else find(name),
    )
    plot = str(tmp_path / "plot.png")
    assert cli.main(options_of(tmp_path, "--plot", plot)) == 1
    assert "pip install 'fused-rnn[bench]'" in capsys.readouterr().err
    assert cli.main(options_of(tmp_path, "--json", "/nowhere/a.json")) == 1
    assert "no folder for" in capsys.readouterr().err


def test_a_module_is_looked_for_in_every_interpreter(tmp_path):
    workers = fleet.Fleet(
        {"none": fleet.Program("torch_gru.py", module="no_such_module")}, 1,
        [sys.executable, sys.executable], tmp_path,
    )
    with pytest.raises(harness.WorkerFailed,
                       match="no_such_module is not installed"):
        workers.get("none")


# ---- The work that is timed is a hand-written loop's.

WORK = """
import collections, runpy, sys
import keras, numpy as np, tensorflow as tf
from tensorflow.python.framework import op_callbacks
from fused_rnn.bench import worker

program, folder, mode = sys.argv[1:]
loads = []
worker.serve = loads.append
sys.path.insert(0, program.rpartition("/")[0])
sys.argv[1:] = []
runpy.run_path(program)
_, prepare = loads[0]()
# Every op is then run by itself, in loops too, and can be counted.
tf.config.run_functions_eagerly(True)
case = worker.Case(folder, mode, "after", "float32", 2, 3, 4, 5)
call, read = prepare(case)

layer = keras.layers.GRU(5, return_sequences=True, return_state=True)
layer.build((2, 3, 4))
layer.set_weights(case.weights())
x, h0, d_outputs = map(tf.constant, (case.x, case.h0, case.d_outputs))
sources = [x, h0, *(v.value for v in layer.trainable_variables)]


def by_hand():
    if mode == "inference":
        return layer(x, initial_state=h0, training=False)
    with tf.GradientTape() as tape:
        tape.watch([x, h0])
        outputs, state = layer(x, initial_state=h0, training=True)
    return outputs, state, tape.gradient(
        outputs, sources, output_gradients=d_outputs
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


timed, result = work(call)
hand, expected = work(by_hand)
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


@pytest.mark.parametrize("mode", cases.MODES)
def test_a_rival_does_the_work_of_a_hand_written_loop(mode, tmp_path):
    pytest.importorskip("tensorflow")
    case = cases.SequenceCase(tmp_path / "case", (2, 3, 4, 5))
    helpers.run_python(
        WORK, fleet.PROGRAMS_FOLDER / "keras_gru.py", case.folder, mode,
        FUSED_RNN_NO_TENSORFLOW=1,
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
         *options_of(tmp_path, "--shapes", "2,3,4,5", "2,4,4,5", "--mode",
                     "inference", "--only", "ours,torch,jax")],
        env={**os.environ, "PYTHONPATH": helpers.PACKAGES,
             "BENCHMARK_MARK": str(tmp_path), "FUSED_RNN_NO_TENSORFLOW": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
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
