"""benchmarks/reproduce.py: all parts in one command, whatever happens to one."""

import itertools
import json
import sys

import pytest

import helpers

sys.path.insert(0, str(helpers.ROOT / "benchmarks"))

import reproduce  # noqa: E402
from fused_rnn.bench import cases  # noqa: E402

PARTS = list(reproduce.SHARES)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs it with programs that leave their section behind, or do as the
    faults say, by part; returns the status and the calls."""
    results = tmp_path / "results.json"

    def do(*arguments, faults={}):
        calls = []

        def program(name, section):
            def main(arguments):
                part = name
                cell = name == "rivals" and word_after("--cell", arguments)
                if cell and cell != "gru":
                    part = f"rivals-{cell}"
                elif cell and word_after("--threads", arguments) == "1":
                    part = "rivals-1"
                calls.append((part, arguments))
                fault = faults.get(part, 0)
                if isinstance(fault, BaseException):
                    raise fault
                if section and not fault:
                    records = json.loads(results.read_text())
                    results.write_text(json.dumps({**records, section: {}}))
                return fault
            return main

        results.write_text("{}")
        for name in ("core", "cell", "rivals", "scaling", "accuracy"):
            monkeypatch.setattr(
                getattr(reproduce, name), "main", program(name, name)
            )
        monkeypatch.setattr(reproduce.report, "main", program("report", ""))
        monkeypatch.setattr(reproduce.cli, "main", program("bench", "bench"))
        monkeypatch.setattr(reproduce, "core_program", lambda folder: "built")
        status = reproduce.main(
            ["--results", str(results), "--python", "other", *arguments]
        )
        return status, calls

    do.results = str(results)
    return do


def word_after(option, arguments):
    return arguments[arguments.index(option) + 1]


def names_of(calls):
    """One name a part, which may have called its program several times."""
    return [name for name, _ in itertools.groupby(calls, lambda call: call[0])]


def test_every_part_is_measured_in_its_time(run, capsys):
    status, calls = run("--minutes", "30")
    assert status == 0
    assert names_of(calls) == [*PARTS, "report"]
    *measured, (_, pages) = calls
    assert [word_after("--cell", arguments) for name, arguments in measured
            if name == "accuracy"] == list(cases.CONVENTIONS)
    assert pages[:2] == [run.results, str(reproduce.PAGES[0])]
    assert word_after("--plot", pages) == str(reproduce.PLOT)
    left = 30.0
    for name, arguments in measured:
        assert word_after("--json", arguments) == run.results
        if name.startswith("rivals") or name in ("accuracy", "bench"):
            assert word_after("--python", arguments) == "other"
        if name not in ("core", "accuracy"):
            # Who took no time leaves his to the others.
            following = PARTS[PARTS.index(name):]
            share = reproduce.SHARES[name] / sum(
                reproduce.SHARES[n] for n in following
            )
            found = float(word_after("--minutes", arguments))
            assert found == pytest.approx(left * share, abs=0.1)
    said = capsys.readouterr().err
    assert "30 minutes in all" in said.splitlines()[0]
    assert all(name in said for name in PARTS)


@pytest.mark.parametrize("fault", [
    1, RuntimeError("broken"), SystemExit(2),
])
def test_a_part_that_fails_does_not_end_the_others(fault, run, capsys):
    status, calls = run(faults={"cell": fault})
    assert status == 1
    assert names_of(calls) == [*PARTS, "report"]
    assert capsys.readouterr().err.splitlines()[-1].startswith("failed: cell;")


@pytest.mark.parametrize("fault", [reproduce.INTERRUPTED, KeyboardInterrupt()])
def test_what_was_measured_before_an_interruption_gets_its_tables(fault, run):
    status, calls = run(faults={"rivals": fault})
    assert status == 130
    assert [name for name, _ in calls] == ["core", "cell", "rivals", "report"]
    # There is nothing to be drawn.
    assert "--plot" not in calls[-1][1]


def test_parts_can_be_chosen(run):
    assert [name for name, _ in run("--parts", "bench", "cell")[1]] == [
        "bench", "cell", "report"
    ]
    # One thread is the same as one thread.
    names = [name for name, _ in run("--threads", "1")[1]]
    assert names.count("rivals-1") == 1 and "rivals" not in names


def test_the_core_benchmark_is_built_with_the_tools_beside_python(
    monkeypatch
):
    commands = []
    monkeypatch.setattr(reproduce.processes, "call", commands.append)
    assert reproduce.core_program("folder") == "folder/core_benchmark"
    configure, build = commands
    assert "-DFUSED_RNN_BENCHMARKS=ON" in configure
    assert configure[0] == build[0] == reproduce.tool("cmake")
    assert reproduce.tool("no such program") == "no such program"
