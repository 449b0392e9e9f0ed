"""`fused-rnn bench`: its course, its record, its listing and its plots."""

import importlib.util
import io
import json
import sys

import numpy as np
import pytest

import helpers
from fused_rnn import cli
from fused_rnn.bench import (
    cases, command, fleet, harness, limits, listing, summary,
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
        result("jax", shape, "inference", 0.004),
        {"name": "torch", "shape": list(shape), "mode": "inference",
         "convention": "after", "threads": 2, "status": "ended by SIGSEGV"},
    )
    rows = {line[2:28].strip(): line for line in
            listing.listing(record).splitlines() if line.startswith("  ")}
    assert rows["oneDNN"].endswith(" 0.50x fused_rnn")
    assert rows["Keras"].endswith(" 10.00x fused_rnn in tf.function")
    assert rows["JAX"].endswith(
        " 4.00x fused_rnn, 2.00x fused_rnn in tf.function"
    )
    assert rows["PyTorch"].endswith("not timed: ended by SIGSEGV")
    assert "±" in rows["fused_rnn"] and "x fused" not in rows["fused_rnn"]


def test_short_table_has_every_loss():
    first, second = (1, 2, 3, 4), (5, 6, 7, 8)
    record = record_of(
        result("ours", first, "inference", 1.0),
        result("ours", second, "inference", 1.0),
        result("onednn", first, "inference", 4.0),
        result("onednn", second, "inference", 0.25),
    )
    text = summary.speed(record)
    assert ("| fused_rnn | oneDNN | 1.00 | 0.25 at (5, 6, 7, 8) | 4.00 at (1, 2, 3, 4) |"
            in text)
    assert "- fused_rnn against oneDNN, inference at (5, 6, 7, 8): 0.250" in text
    assert text.count("\n- ") == 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_tells_the_time_that_is_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])
    stream = Terminal()
    progress = command.Progress(stream)
    now[0] += 30
    progress.show("runs", 0.25)
    progress.finished("nothing on a terminal")
    progress.clear()
    assert stream.getvalue() == (
        "\r\x1b[K[#####...............] 1:30 left  runs\r\x1b[K"
    )
    pipe = io.StringIO()
    progress = command.Progress(pipe)
    progress.show("nothing in a pipe", 0.5)
    now[0] += 7
    progress.finished("a shape")
    assert pipe.getvalue() == "     7 s  a shape\n"


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
    assert not path.exists()
    one = result("keras", (1, 2, 3, 4), "inference", 1.0)
    two = result("keras", (1, 8, 3, 4), "inference", 2.0)
    figure = figures.make(record_of(one, two))
    assert [axes.get_xlabel() for axes in figure.axes] == ["steps T"]


# ---- The command.


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_the_command(dtype, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "plot.png"
    assert cli.main(helpers.bench_command(
        tmp_path, "--only", "torch", "--dtype", dtype, "--shapes",
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
    if not importlib.util.find_spec("torch"):
        assert {r["status"] for r in record["results"] if r["name"] == "torch"
                } == {"torch is not installed"}
    for timed in done:
        assert len(timed["rounds"]) == 2 and timed["median"] > 0
        assert timed["threads"] == 1 and timed["ulp"]["forward"]["max"] < 50
    printed = capsys.readouterr().out
    assert "(B,T,I,H) = (2, 3, 4, 5), inference, reset after" in printed
    assert plot.stat().st_size > 10_000


def test_what_is_missing_is_said_before_anything_is_measured(
    tmp_path, capsys, monkeypatch
):
    find = bench.importlib.util.find_spec
    monkeypatch.setattr(
        bench.importlib.util, "find_spec",
        lambda name: None if name == "matplotlib" else find(name),
    )
    plot = str(tmp_path / "plot.png")
    assert cli.main(helpers.bench_command(tmp_path, "--plot", plot)) == 1
    assert "pip install 'fused-rnn[bench]'" in capsys.readouterr().err
    assert cli.main(helpers.bench_command(tmp_path, "--json", "/nowhere/a.json")) == 1
    assert "no folder for" in capsys.readouterr().err


def test_a_module_is_looked_for_in_every_interpreter(tmp_path):
    workers = fleet.Fleet(
        {"none": fleet.Program("torch_gru.py", module="no_such_module")}, 1,
        [sys.executable, sys.executable], tmp_path,
    )
    with pytest.raises(harness.WorkerFailed,
                       match="no_such_module is not installed"):
        workers.get("none")


def test_one_shape_is_drawn_as_bars():
    """Nothing varies, so there is no line to be drawn."""
    pytest.importorskip("matplotlib")
    from fused_rnn.bench import figures

    shape = (16, 50, 64, 64)
    (axes,) = figures.make(record_of(
        result("keras", shape, "inference", 0.004),
        result("ours-tf", shape, "inference", 0.001),
    )).axes
    assert axes.get_xlabel() == "ms" and "T = 50" in axes.get_title()
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([4, 1])
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["Keras", "fused_rnn in tf.function"]


@pytest.mark.parametrize("arguments, status, words", [
    (["bench", "--only", "nobody"], 2, "unknown: nobody"),
    (["bench", "--threads", "0"], 2, "--threads must be between"),
    (["bench", "--rounds", "0"], 2, "whole number above 0, got '0'"),
    (["bench", "--budget", "nan"], 2, "a number above 0, got 'nan'"),
    (["bench", "--json", "/"], 1, "a file for results, got the folder /"),
    (["profile", "--json", "/nowhere/x", "/"], 1, "no folder for /nowhere/x"),
    (["bench", "--shape", "2,5,3"], 2, "B,T,I,H, four positive numbers"),
    (["bench", "--shape", "a,b,c,d"], 2, "B,T,I,H, four positive numbers"),
    (["bench", "--python", "/nope"], 1, "there is no interpreter /nope"),
    (["bench", "--plot", "x.txt"], 1, "ends in .png, got x.txt"),
    (["profile", "--batch", "0", "x"], 2, "whole number above 0, got '0'"),
    (["profile", "--steps", "-3", "x"], 2, "whole number above 0, got '-3'"),
])
def test_wrong_arguments(arguments, status, words, capsys):
    try:
        found = cli.main(arguments)
    except SystemExit as error:
        found = error.code
    assert found == status
    assert words in capsys.readouterr().err
