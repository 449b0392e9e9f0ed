"""The benchmarks: what they make of times, their records and their tables."""

import io
import json
import os
import subprocess
import sys

import pytest

import helpers

FOLDER = helpers.ROOT / "benchmarks"
sys.path.insert(0, str(FOLDER))

from fused_rnn.bench import (  # noqa: E402
    cases, harness, pacing, processes, tables, worker,
)

import cell  # noqa: E402
import report  # noqa: E402
import reproduce  # noqa: E402
import scaling  # noqa: E402
from helpers_bench import record_of, result  # noqa: E402

SHAPE = (2, 3, 4, 5)
RESULT_FIELDS = {
    "name": str, "shape": list, "mode": str, "convention": str, "status": str,
    "calls": int, "median": float, "low": float, "high": float, "rounds": list,
}


# ---- Statistics.


def test_summary_is_of_the_middle():
    rounds = [3.0, 1.0, None, 2.0, 1000.0, 4.0]
    assert harness.summary(rounds) == {"median": 3.0, "low": 2.0, "high": 4.0}
    assert harness.summary([7.0])["high"] == 7.0
    assert harness.summary([None, None]) is None


def test_ratio_compares_within_a_round():
    # The machine slows down to a third; one is always twice as fast.
    ours = [1.0, 1.0, 3.0, 3.0, 3.0, None]
    theirs = [2.0, 2.0, 6.0, 6.0, None, 6.0]
    assert harness.ratio(theirs, ours) == 2.0
    assert harness.ratio([None, 1.0], [1.0, None]) is None


def test_geometric_mean():
    assert harness.geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)
    assert harness.geometric_mean([]) is None


class Clockwork:
    """A clock that only calls advance."""

    def __init__(self, durations):
        self.now = 0.0
        self.durations = list(durations)
        self.calls = 0

    def __call__(self):
        return self.now

    def call(self):
        index = min(self.calls, len(self.durations) - 1)
        self.now += self.durations[index]
        self.calls += 1


def test_measure_leaves_the_first_calls_out():
    # Ten seconds: the first call is slow, the others take one second each.
    clock = Clockwork([5.0, 1.0])
    found = worker.measure(clock.call, 10, clock)
    assert found == {
        "calls": 10, "min": 1.0, "low": 1.0, "median": 1.0, "high": 1.0
    }
    assert clock.calls == 11


def test_measure_warms_up_for_a_tenth_and_counts_once_at_least():
    clock = Clockwork([0.25])
    assert worker.measure(clock.call, 10, clock)["calls"] == 40
    assert clock.calls == 44
    clock = Clockwork([100.0, 60.0])
    assert worker.measure(clock.call, 1, clock) == {
        "calls": 1, "min": 60.0, "low": 60.0, "median": 60.0, "high": 60.0
    }


def test_statistics_interpolate():
    assert worker.statistics([4.0, 1.0, 2.0, 3.0]) == {
        "calls": 4, "min": 1.0, "low": 1.75, "median": 2.5, "high": 3.25
    }


class Scripted:
    """A worker whose calls take given times; it writes down its turns."""

    def __init__(self, times, log):
        self.times = iter(times)
        self.log = log

    def ask(self, command, key, *_, **__):
        self.log.append(key)
        time = next(self.times)
        if time is None:
            raise processes.WorkerFailed("ended by SIGSEGV")
        return {"median": time, "calls": 10}


def test_rounds_are_interleaved_and_a_failure_ends_one_entry():
    log = []
    entries = [
        harness.Entry(Scripted(times, log), name, name=name)
        for name, times in {
            "a": [1.0, 2.0, 3.0, 4.0], "b": [1.0, None], "c": [5.0] * 4
        }.items()
    ]
    pace = pacing.Pace(pacing.Progress(io.StringIO()), [3], 4, 0.1)
    pace.begin("")
    harness.interleave(entries, pace)
    assert [e.rounds for e in entries] == [
        [1.0, 2.0, 3.0, 4.0], [1.0, None, None, None], [5.0] * 4
    ]
    assert entries[1].failure == "ended by SIGSEGV"
    # Every round runs everybody once, and not always in the same order.
    assert sorted(log[:3]) == sorted(log[3:6]) == ["a", "b", "c"]
    assert sorted(log[6:8]) == ["a", "c"]
    orders = {tuple(log[:3]), tuple(log[3:6])}
    assert len(orders) == 2 or log[6:8] != log[8:10]


# ---- Programs.


def run_program(name, *arguments):
    done = subprocess.run(
        [sys.executable, FOLDER / name, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": helpers.PACKAGES},
        capture_output=True, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_record(record):
    assert record["schema"] == harness.SCHEMA and not record["interrupted"]
    assert record["started"] <= record["finished"]
    assert {"processor", "processors", "instruction sets"} <= set(
        record["machine"]
    )
    for result in record["results"]:
        assert result["status"] == "ok", result
        for name, kind in RESULT_FIELDS.items():
            assert isinstance(result[name], kind), name
        assert len(result["rounds"]) == record["settings"]["rounds"]
        assert result["error"] < 1e-5


@pytest.mark.parametrize("of", cases.CONVENTIONS)
def test_rivals_with_our_own_workers(of, tmp_path):
    conventions = cases.CONVENTIONS[of]
    path = tmp_path / "results.json"
    path.write_text('{"other": {}}')
    printed = run_program(
        "rivals.py", "--cell", of, "--threads", 1, "--only", "ours", "--shapes",
        "2,1,4,5", "--rounds", 2, "--budget", 0.01, "--json", path,
    )
    records = json.loads(path.read_text())
    section = "rivals-1" if of == "gru" else f"rivals-1-{of}"
    assert records.keys() == {"other", section}
    record = records[section]
    check_record(record)
    names = {(r["name"], r["mode"], r["convention"]) for r in record["results"]}
    expected = {
        (name, mode, convention) for name in ("ours", "ours-tf")
        for mode in cases.MODES for convention in conventions
    }
    expected |= {("ours-stream", "inference", c) for c in conventions}
    assert names == expected
    assert "(2, 1, 4, 5)" in printed and "fused_rnn in tf.function" in printed
    for convention in conventions:
        assert f"{tables.CONVENTIONS[convention]}: (B,T,I,H)" in printed


def test_cell(tmp_path):
    path = tmp_path / "results.json"
    printed = run_program(
        "cell.py", "--threads", 1, "--shapes", "2,4,5", "--rounds", 2,
        "--budget", 0.01, "--json", path,
    )
    record = json.loads(path.read_text())["cell"]
    check_record(record)
    assert {r["name"] for r in record["results"]} == {"ours", "tensorflow"}
    assert "(2, 4, 5)" in printed and "Inference: " in printed
    assert f"{worker.CHAIN} steps a call" in printed and "Chained training: " in printed


def test_bad_arguments():
    for arguments, words in (
        (["--only", "nobody"], "unknown: nobody"),
        (["--shape", "1,2,3"], "invalid"),
        (["--threads", "0"], "--threads must be between"),
    ):
        done = subprocess.run(
            [sys.executable, FOLDER / "rivals.py", *arguments],
            env={**os.environ, "PYTHONPATH": helpers.PACKAGES},
            capture_output=True, text=True,
        )
        assert done.returncode == 2 and words in done.stderr


# ---- Tables.


def test_table_of_rivals():
    about = (SHAPE, "inference", "after")
    record = record_of(
        result("bare", SHAPE, "inference", "plain", 0.002, 0.002),
        result("bare", SHAPE, "inference", "packed", 0.001, 0.001),
        result("ours", *about, 0.002, 0.002),
        result("onednn", *about, 0.003, 0.003),
        result("onnxruntime", *about, 0.0015, 0.0015),
        result("ours-tf", *about, 0.004, 0.004),
        result("keras", *about, 0.016, 0.016),
        # Who needs no framework is not met by the op in TensorFlow.
        {"name": "torch", "shape": list(SHAPE), "mode": "inference",
         "convention": "after", "status": "ended by SIGSEGV"},
    )
    text = tables.rivals(record, "inference")
    assert "| (2, 3, 4, 5) | 1 | 2.00 | ONNX Runtime 1.50 | 0.75 |" in text
    assert "| (2, 3, 4, 5) | 1 | 4.00 | Keras 16.00 | 4.00 |" in text
    assert "fused_rnn against ONNX Runtime, 0.75×" in text
    assert "against oneDNN" not in text
    assert "- PyTorch: ended by SIGSEGV" in text
    assert record["machine"]["processor"] in text


def test_tables_of_scaling():
    def rounds(subject, shape, mode, time, convention="after", **about):
        return result("ours", shape, mode, convention, time, time,
                      subject=subject, **about)

    shape, mode = scaling.PADDED_SHAPES[0], "training"
    batch, steps, *sizes = shape
    branch = scaling.BRANCH_SHAPES[0]
    length = scaling.LENGTH_SIZES[0]
    length = (length[0], 10, *length[1:])
    table_shape = cases.SHAPES[0]
    peak = {
        "name": "ours", "subject": "memory", "status": "ok",
        "shape": [1, 1024, 256, 256], "mode": mode, "convention": "before",
        "peak": 5 << 20,
    }
    record = record_of(
        rounds("padding", shape, mode, 1e-3, valid=steps),
        rounds("padding", (batch, 2 * steps, *sizes), mode, 1.05e-3,
               valid=steps),
        rounds("branches", branch, "parallel", 1e-3),
        rounds("branches", branch, "sequential", 2e-3),
        rounds("length", length, mode, 1e-3),
        rounds("threads", table_shape, mode, 2e-3, threads=1),
        rounds("threads", table_shape, mode, 1e-3, threads=2),
        rounds("threads", table_shape, mode, 1.3e-3, "before", threads=2),
        peak,
    )
    for subject, expected in {
        "padding": "| 1.05 |", "branches": "| 0.50 |", "length": "| 100 ± 0 |",
        "threads": "| 2.00 |", "conventions": "| 1.30 |",
        "memory": "| 5.0 | 5.0 |",
    }.items():
        assert expected in scaling.page(record, subject), subject


def test_table_of_the_cell():
    shape = (1, 40, 64)
    record = record_of(*(
        result(name, shape, mode, "before", time, time)
        for name, time in (("ours", 1e-4), ("tensorflow", 2e-4))
        for mode in cases.MODES
    ))
    text = cell.page(record)
    assert "| (1, 40, 64) | 100 ± 0 | 200 ± 0 | 2.00 |" in text
    assert "Training: 2.00 times faster in the geometric mean" in text


def test_page_is_filled_between_its_markers():
    page = (
        "Before.\n<!-- table: cell -->\nold\n<!-- end -->\nBetween.\n"
        "<!-- table: rivals-2 training -->\n<!-- end -->\nAfter.\n"
    )
    record = record_of(result("ours", (1, 2, 3), "training", "before", 1.0))
    filled = report.fill(page, {"cell": record})
    assert "old" not in filled and "(1, 2, 3)" in filled
    assert "Not measured yet." in filled
    for text in ("Before.\n", "\nBetween.\n", "\nAfter.\n"):
        assert text in filled
    assert report.fill(filled, {"cell": record}) == filled
    with pytest.raises(ValueError, match="2 tables and 1 ends"):
        report.fill(page.replace("<!-- end -->", "", 1), {})


def test_the_page_is_what_its_results_make():
    results = str(helpers.ROOT / "docs" / "performance.json")
    for page in reproduce.PAGES:
        assert "<!-- table: " in page.read_text()
        assert report.main([results, str(page), "--check"]) == 0, page


def test_pages_are_written_and_plots_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    results, plot = tmp_path / "results.json", tmp_path / "plot.png"
    pages = [tmp_path / name for name in ("one.md", "two.md")]
    subjects = ("bench limits", "bench plots", "core", "accuracy",
                "rivals-2 summary")
    for page in pages:
        page.write_text("".join(
            f"<!-- table: {subject} -->\n<!-- end -->\n" for subject in subjects
        ))
    about = (SHAPE, "inference", "after")
    longer = (SHAPE[0], 9, *SHAPE[2:])
    bench = record_of(
        result("keras", *about, 1.0, threads=2),
        result("keras", longer, *about[1:], 2.0, threads=2),
    )
    bench["limits"] = [{
        "threads": 2, "operations": 1.5e11, "bytes": [[8192, 2e11]],
    }]
    ulp = {"forward": {"max": 7.0, "mean": 1.0}}
    core = record_of({
        "kernel": "forward_after", "rows": 8, "depth": 0, "columns": 64,
        "seconds": 4e-7, "compute seconds": 0.0, "read seconds": 1e-7,
    })
    core["operations"] = 1.2e11
    results.write_text(json.dumps({
        "bench": bench, "core": core,
        "accuracy": record_of(result("ours", *about, 1.0, ulp=ulp)),
        "rivals-2": record_of(result("ours-tf", *about, 1.0),
                              result("torch", *about, 3.0)),
    }))
    arguments = [str(results), *map(str, pages)]
    assert report.main([*arguments, "--check"]) == 1
    assert report.main([*arguments, "--plot", str(plot)]) == 0
    assert report.main([*arguments, "--check"]) == 0
    for page in pages:
        text = page.read_text()
        for words in (
            "| products, GFLOP/s | 150 |", "| reads of 8 KiB a thread, GB/s | 200 |",
            "![plots](performance.png)", "| forward after | 8 × 64 | 400 |"
            " 100 (reading) | 25 % |", "| fused_rnn | 7 | 1 | – | – |",
            "| PyTorch | 3.00 |", "No losses.",
        ):
            assert words in text, words
    assert plot.read_bytes().startswith(b"\x89PNG")
