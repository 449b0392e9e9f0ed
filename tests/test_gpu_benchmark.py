"""benchmarks/gpu.py where there is no GPU: all of it, on the emulated kernels.

It may have to do on a GPU that is lent for minutes: nothing in it may fail
there for the first time but what needs that GPU.
"""

import json
import subprocess
import sys

import fake_torch
import helpers_cuda
import pytest

import gpu
import gpu_checks
import gpu_times

GRID = ["--batches", "1", "3", "--units", "8", "--steps", "1", "4",
        "--seconds", "0"]


@pytest.fixture(params=["fake", "torch"])
def torch(request, monkeypatch):
    monkeypatch.setenv(
        "FUSED_RNN_CUDA_LIBRARY", helpers_cuda.emulated_library()
    )
    if request.param == "fake":
        module = fake_torch.module()
        monkeypatch.setitem(sys.modules, "torch", module)
        yield module
        return
    real = pytest.importorskip("torch")
    with fake_torch.on_the_cpu(real, monkeypatch):
        yield real


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(gpu_checks, "CHECKED", [(3, 5, 7, 17), (2, 3, 4, 8)])
    monkeypatch.setattr(gpu_times, "COPIED", 1000)
    monkeypatch.setattr(gpu_times, "SIDE", 16)
    # It is a process of its own, which would not see what is emulated here.
    monkeypatch.setattr(gpu, "run_persistent", lambda options: {"status": "-"})


def run(tmp_path, *more):
    """(exit status, record) of a run."""
    file = tmp_path / "gpu.json"
    status = gpu.main(["--json", str(file), *GRID, *more])
    return status, json.loads(file.read_text())


def test_run(torch, tmp_path, capsys):
    status, record = run(tmp_path)
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert {one["mode"] for one in record["checks"]} == set(gpu.TOLERANCES)
    assert all(one["ok"] for one in record["checks"])
    assert record["left out"] == [] and record["persistent"]
    # Two directions, four modes.
    assert len(record["times"]) == 2 * 4 * 4
    for row in record["times"]:
        assert row["errors"] == {}
        for name in ("fused_rnn", "graph", "cudnn", "flop/s", "bytes/s",
                     "of flop/s", "of bytes/s"):
            assert row[name] > 0, name
        assert gpu.line(row) in printed
        assert len(gpu.line(row)) == len(gpu.heading())


def test_time_is_up(torch, tmp_path, capsys):
    status, record = run(tmp_path, "--minutes", "0")
    assert status == 0
    assert record["times"] == [] and len(record["left out"]) == 4 * 4
    assert "16 shapes were left out" in capsys.readouterr().out


def test_what_fails_hurts_nobody_else(torch, tmp_path, monkeypatch, capsys):
    """Neither a rival, nor a graph, nor a shape for which memory is short."""
    make = gpu_times.ours

    def ours(torch, batch, *arguments):
        if batch == 3:
            raise RuntimeError("out of memory\nin detail")
        return make(torch, batch, *arguments)

    def cudnn(*arguments):
        raise RuntimeError("not supported")

    def captured(*arguments):
        raise RuntimeError("not to be captured")

    for function in (ours, cudnn, captured):
        monkeypatch.setattr(gpu_times, function.__name__, function)
    status, record = run(tmp_path)
    assert status == 0
    assert len(record["times"]) == 2 * 4 * 4
    for row in record["times"]:
        assert ("fused_rnn" in row) == (row["batch"] == 1)
        assert "cudnn" not in row and not row.get("graph")
    printed = capsys.readouterr().out
    for message in ("fused_rnn: out of memory\n", "cudnn: not supported\n",
                    "graph: not to be captured\n"):
        assert message in printed


def test_checks_go_on_after_a_failure(torch, tmp_path, monkeypatch, capsys):
    check_case = gpu_checks.check_case

    def broken(place, mode, *arguments, **options):
        if mode == "float16":
            raise RuntimeError("illegal address")
        return check_case(place, mode, *arguments, **options)

    monkeypatch.setattr(gpu_checks, "check_case", broken)
    status, record = run(tmp_path, "--checks")
    assert status == 1 and "times" not in record
    wrong = {one["mode"] for one in record["checks"] if not one["ok"]}
    assert wrong == {"float16"}
    assert "illegal address" in capsys.readouterr().out


def test_a_device_that_is_lost_ends_the_run(torch, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "usable", lambda torch: False)
    monkeypatch.setattr(
        gpu_checks, "check_case", lambda *_, **__: float("nan")
    )
    status, record = run(tmp_path, "--checks")
    assert status == 1 and len(record["checks"]) == 1


def test_without_a_gpu():
    """One sentence, whichever is missing first."""
    done = subprocess.run(
        [sys.executable, gpu.__file__], capture_output=True, text=True,
        env={**helpers_cuda.native.os.environ,
             "FUSED_RNN_CUDA_LIBRARY": "/no/such/library.so"},
    )
    assert done.returncode == 1 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "torch" in done.stderr or "no GPU kernels can run" in done.stderr


@pytest.mark.parametrize("ends", ["well", "badly", "never"])
def test_persistent_kernels_have_a_process_of_their_own(
    ends, monkeypatch, tmp_path
):
    monkeypatch.undo()
    program = tmp_path / "program.py"
    program.write_text(f"""
import json, os, sys, time
file = sys.argv[sys.argv.index("--json") + 1]
json.dump({{"persistent": os.environ[{gpu.PERSISTENT!r}]}}, open(file, "w"))
sys.exit(3) if {ends == "badly"} else time.sleep(60 * {ends == "never"})
""")
    monkeypatch.setattr(gpu, "__file__", str(program))
    monkeypatch.setattr(gpu, "PERSISTENT_SECONDS", 2 if ends == "never" else 60)
    found = gpu.run_persistent(gpu.options_of(GRID))
    assert found["persistent"] == "1"
    assert found["status"] == {
        "well": "ran", "badly": "exit status 3", "never": "stopped after 2 s",
    }[ends]
