"""The benchmarks' processes: who fails hurts nobody, and nobody stays behind."""

import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import uuid

import pytest

import helpers

FOLDER = helpers.ROOT / "benchmarks"
sys.path.insert(0, str(FOLDER))

from fused_rnn.bench import (  # noqa: E402
    cases, fleet, harness, pacing, processes, programs, tables,
)

SHAPE = (2, 3, 4, 5)

# A worker that computes with the oracle, or misbehaves as its argument says.
WORKER = """
import os, signal, sys, time

from fused_rnn.bench import worker


def load():
    fault = sys.argv[1]
    if fault == "missing":
        import a_library_that_nobody_has
    from fused_rnn import reference

    def prepare(case):
        if fault == "crash in prepare":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "unable":
            raise worker.Unsupported("cannot")
        print("libraries print")

        def call():
            if fault == "crash in run" and calls:
                os.kill(os.getpid(), signal.SIGABRT)
            calls.append(1)
            return reference.gru(
                case.x, case.h0, *case.weights(), reset_after=case.reset_after
            )

        def read(result):
            outputs, state = result
            return {
                "outputs": outputs + (fault == "wrong") * 0.01, "state": state
            }

        calls = []
        return call, read

    return {"Oracle": "1"}, prepare


worker.serve(load)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(WORKER))
    return lambda fault="none": fleet.Program(str(path), (fault,), own=True)


def measured(chosen, tmp_path, modes=("inference",)):
    workers = fleet.Fleet(chosen, 1, [sys.executable], tmp_path)
    record = harness.start_record(threads=1, rounds=2, budget=0.01)
    case = cases.SequenceCase(tmp_path / "case", SHAPE)
    try:
        for mode in modes:
            jobs = programs.jobs_of(workers, chosen, case, mode, ["after"])
            pace = pacing.Pace(pacing.Progress(io.StringIO()), [len(jobs)], 2,
                               0.01)
            fleet.measure(jobs, pace, "", tmp_path, record)
    finally:
        workers.close()
    record["versions"] = workers.versions
    harness.finish_record(record)
    return record


def test_who_fails_is_reported_and_hurts_nobody(program, tmp_path):
    faults = (
        "missing", "crash in prepare", "crash in run", "wrong", "unable"
    )
    chosen = {"good": program()}
    chosen |= {fault: program(fault) for fault in faults}
    chosen["absent"] = fleet.Program("no_such_program.py", own=True)
    chosen["no header"] = fleet.Program(
        "none.cc", header="no/such/header.h", library="libnone.so*"
    )
    record = measured(chosen, tmp_path)
    results = {result["name"]: result for result in record["results"]}
    good = results.pop("good")
    assert good["status"] == "ok" and good["error"] < 1e-6
    assert len(good["rounds"]) == 2 and all(good["rounds"])
    assert record["versions"]["good"] == {"Oracle": "1"}
    # Not a word about a case that a library has nothing for.
    assert results.keys() == {*chosen, "good"} - {"good", "unable"}
    for name, words in {
        "missing": "a_library_that_nobody_has",
        "crash in prepare": "SIGSEGV",
        "crash in run": "SIGABRT",
        "wrong": "computes something else",
        "absent": "no_such_program",
        "no header": "no/such/header.h",
    }.items():
        assert words in results[name]["status"], name
        assert not any(results[name].get("rounds") or [])
    text = tables.rivals(record, "inference")
    assert "SIGSEGV" in text and "computes something else" in text


def test_a_worker_that_hangs_is_ended(program, tmp_path):
    process = processes.Worker(
        [sys.executable, "-c",
         "import sys, time; print('{\"versions\": {}}', flush=True);"
         " time.sleep(600)"],
        threads=1,
    )
    with pytest.raises(processes.WorkerFailed, match="no answer within 1 s"):
        process.ask("run", "key", 1, seconds=1)
    process.close()
    assert not pathlib.Path(f"/proc/{process.pid}").exists()


def test_a_worker_is_stopped_when_it_is_not_its_turn(program, tmp_path):
    workers = fleet.Fleet({"good": program()}, 1, [sys.executable], tmp_path)
    try:
        good = workers.get("good")
        for _ in range(3):
            for stat in pathlib.Path(f"/proc/{good.pid}/task").glob("*/stat"):
                state = stat.read_text().rsplit(")")[1].split()[0]
                assert state == "T", stat
            assert good.ask("drop") == {}
    finally:
        workers.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_stays_behind(number, program, tmp_path):
    mark = uuid.uuid4().hex
    results = tmp_path / "results.json"
    code = (
        "import sys, rivals\n"
        "from fused_rnn.bench import fleet, programs\n"
        "program = fleet.Program(sys.argv[1], ('none',), own=True)\n"
        "programs.PROGRAMS = {'one': program, 'two': program}\n"
        "sys.exit(rivals.main(['--threads', '1', '--shape', '2,3,4,5',"
        " '--modes', 'inference', '--rounds', '100000', '--budget', '0.01',"
        " '--json', sys.argv[2]]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, program().file, str(results)],
        env={**os.environ, "BENCHMARK_MARK": mark,
             "PYTHONPATH": f"{FOLDER}{os.pathsep}{helpers.PACKAGES}"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=helpers.heed_interrupts,
    )
    try:
        deadline = time.monotonic() + 60
        while len(helpers.processes_with(mark)) < 3:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline, "the workers did not start"
            time.sleep(0.1)
        time.sleep(2)  # Into the rounds.
        process.send_signal(number)
        printed, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    deadline = time.monotonic() + 10
    while helpers.processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert helpers.processes_with(mark) == []
    if number == signal.SIGKILL:
        return
    assert process.returncode == 130, errors
    record = json.loads(results.read_text())["rivals-1"]
    assert record["interrupted"]
    # What there is.
    assert "Interrupted." in printed
    assert record["results"] and all(
        result["status"] == "ok" for result in record["results"]
    )
