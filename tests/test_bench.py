"""`fused-rnn bench`: its course, its record, its listing and its plots."""

import importlib.util
import json
import sys

import numpy as np
import pytest

import helpers
from fused_rnn import cli
from fused_rnn.bench import (
    cases, fleet, harness, limits, listing, processes, programs, summary,
)
from fused_rnn.cli import bench
from helpers_bench import LIMITS, record_of, result, steady

# ---- What it prints.


def rows_of(block):
    """The lines of a listing by the name in front."""
    return {line[2:28].strip(): line.split()[len(line[:28].split()):]
            for line in block.splitlines() if line.startswith("  ")}


def failed(name, shape, status, mode="inference"):
    return {"name": name, "shape": list(shape), "mode": mode,
            "convention": "after", "threads": 2, "status": status}


def test_listing_sets_each_rival_against_its_own_side():
    shape = (2, 3, 4, 5)
    text = listing.listing(record_of(
        failed("torch", shape, "ended by SIGSEGV"),
        steady("onednn", shape, "inference", 0.0005),
        steady("keras", shape, "inference", 0.02),
        result("jax", shape, "inference", "after", 0.004, threads=2),
        steady("ours", shape, "inference", 0.001),
        result("ours-tf", shape, "inference", "after", 0.002, 0.003, threads=2),
    ))
    rows = rows_of(text)
    # Ours first, then who was timed, then who was not.
    assert list(rows) == ["", "fused_rnn", "fused_rnn in tf.function", "oneDNN",
                          "JAX", "Keras", "PyTorch"]
    assert rows[""] == "ms × fused_rnn × fused_rnn in tf.function".split()
    assert rows["fused_rnn"] == ["1.00", "±", "0.00"]
    assert rows["fused_rnn in tf.function"] == ["2.50", "±", "0.25"]
    assert rows["oneDNN"] == ["0.500", "±", "0.000", "0.500"]
    assert rows["Keras"] == ["20.0", "±", "0.0", "8.33"]
    # One round has no spread.
    assert rows["JAX"] == ["4.00", "4.00", "2.00"]
    assert rows["PyTorch"] == "not timed: ended by SIGSEGV".split()
    # Points stand below each other.
    lines = [line for line in text.splitlines()
             if line.startswith("  ") and "±" in line]
    assert {line.index(".", 28) for line in lines} == {36}


def test_who_fails_everywhere_is_said_once():
    shapes = (1, 2, 3, 4), (5, 6, 7, 8)
    text = listing.listing(record_of(*(
        found for shape in shapes for found in (
            steady("ours", shape, "inference", 0.001),
            failed("torch", shape, "torch is not installed"),
            failed("jax", shape, f"no memory for {shape[0]} rows"),
        )
    )))
    assert text.count("torch is not installed") == 1
    first, second, missing, *_ = text.split("\n\n")
    for block, rows in ((first, 1), (second, 5)):
        assert f"not timed: no memory for {rows} rows" in block
        assert "PyTorch" not in block
    assert missing.splitlines()[0] == "Not timed anywhere:"
    assert rows_of(missing)["PyTorch"] == "torch is not installed".split()


def test_listing_of_nothing():
    text = listing.listing(record_of(interrupted=True))
    assert text.startswith("Measured on") and text.endswith("Interrupted.")
    assert "×" not in text


def test_short_table_has_every_loss():
    first, second = (1, 2, 3, 4), (5, 6, 7, 8)
    record = record_of(
        steady("ours", first, "inference", 1.0),
        steady("ours", second, "inference", 1.0),
        steady("onednn", first, "inference", 4.0),
        steady("onednn", second, "inference", 0.25),
    )
    text = summary.speed(record)
    assert ("| fused_rnn | oneDNN | 1.00 | 0.25 at (5, 6, 7, 8) | 4.00 at (1, 2, 3, 4) |"
            in text)
    assert "- fused_rnn against oneDNN, inference at (5, 6, 7, 8): 0.250" in text
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
    one = steady("ours", (1, 2, 3, 4), "training", 1.0)
    other = steady("ours", (5, 6, 7, 8), "training", 1.0)
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
    # An LSTM has four gates, where a GRU has three.
    assert limits.step_seconds(LIMITS, 1000, 100, 100, gates=4) == (
        pytest.approx(4 / 3 * many)
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


# ---- The command.


def test_programs_are_chosen_by_name():
    keras = [name for name in programs.PROGRAMS if name.startswith("keras")]
    assert len(keras) > 3 and list(programs.select(["keras"])) == keras
    # An exact name is that of its variants too.
    assert list(programs.select(["keras"], ["keras-jit"])) == [
        name for name in keras if name != "keras-jit"
    ]
    assert programs.select(None) == programs.PROGRAMS
    assert "torch" not in programs.select(None, ["torch"])


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


@pytest.mark.parametrize("cell, title", [
    ("lstm", "LSTM"), ("rnn", "simple RNN"),
])
def test_the_command_times_other_cells(cell, title, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "plot.png"
    assert cli.main(helpers.bench_command(
        tmp_path, "--cell", cell, "--only", "keras,tf-block", "--without",
        "keras-torch,keras-jax", "--shapes", "2,3,4,5", "2,3,9,9", "--plot",
        str(plot),
    )) == 0
    record = json.loads((tmp_path / "results.json").read_text())[f"bench-{cell}"]
    assert record["settings"]["cell"] == cell
    assert {r["convention"] for r in record["results"]} == {cell}
    done = {(r["name"], r["mode"]) for r in record["results"]
            if r["status"] == "ok"}
    expected = {
        (name, mode) for mode in cases.MODES
        for name in ("ours", "ours-tf", "keras", "keras-jit", "keras-unroll")
    }
    if cell == "lstm":
        expected |= {("tf-block", mode) for mode in cases.MODES}
    assert done == expected
    printed = capsys.readouterr().out
    assert f"(B,T,I,H) = (2, 3, 4, 5), training, {title}" in printed
    assert f"cell {cell}" in printed
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
        {"none": fleet.Program("torch_rnn.py", module="no_such_module")}, 1,
        [sys.executable, sys.executable], tmp_path,
    )
    with pytest.raises(processes.WorkerFailed,
                       match="no_such_module is not installed"):
        workers.get("none")


@pytest.mark.parametrize("arguments, status, words", [
    (["bench", "--only", "nobody"], 2, "unknown: nobody"),
    (["bench", "--without", "keras,nobody"], 2, "unknown: nobody"),
    (["bench", "--threads", "0"], 2, "--threads must be between"),
    (["bench", "--rounds", "0"], 2, "a whole number above 0, got '0'"),
    (["bench", "--budget", "nan"], 2, "seconds above 0, got 'nan'"),
    (["bench", "--minutes", "-1"], 2, "minutes above 0, got '-1'"),
    (["bench", "--json", "/"], 1, "a file for results, got the folder /"),
    (["profile", "--json", "/nowhere/x", "/"], 1, "no folder for /nowhere/x"),
    (["bench", "--cell", "lstm", "--convention", "after"], 2,
     "--conventions are a GRU's, got --cell lstm"),
    (["bench", "--cell", "fast"], 2, "choose from"),
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
