"""The CUDA kernels on this machine's GPU: checked, then timed beside cuDNN.

    python benchmarks/gpu.py --json gpu.json

needs torch with CUDA, which holds the memory, brings cuBLAS and cuDNN, and
times; ml_dtypes, to check bfloat16; no TensorFlow. First every kernel is
compared with the float64 reference, then forward and forward+backward of a GRU
are timed beside torch.nn.GRU. "graph" is the same call replayed from a CUDA graph,
which takes the host out of the time. Last the same for the kernels that run all
steps in one launch, in a process that is stopped if it hangs. The file is
written again and again on the way: it holds what there is, whatever happens
later. With --checks nothing is timed, which is for compute-sanitizer.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import checkout  # noqa: F401
from device import Place, Torch
from gpu_checks import TOLERANCES, check, type_of
from gpu_times import MODES, limits, measure_shape, usable

BATCHES, UNITS, STEPS = (1, 16, 32, 64, 128), (128, 256, 512, 1024), (1, 50, 1000)
# What the kernels of one launch are for; step by step has the whole grid.
PERSISTENT_BATCHES, PERSISTENT_STEPS = (1, 16), (50,)
PERSISTENT = "FUSED_RNN_CUDA_PERSISTENT"
PERSISTENT_SECONDS = 45


class Record(dict):
    """What was found, kept in a file if one is named."""

    def __init__(self, path):
        super().__init__()
        self.path = path and pathlib.Path(path)
        self._written = 0.0

    def save(self, *, at_most_each=0.0):
        """Replaces the file, unless it is younger than so many seconds."""
        now = time.monotonic()
        if not self.path or now - self._written < at_most_each:
            return
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text(json.dumps(self, indent=1), encoding="utf-8")
        os.replace(beside, self.path)
        self._written = now


def heading():
    return (
        f"{'':34}{'fused_rnn':>10}{'graph':>10}{'cuDNN':>10}{'ratio':>7}"
        f"{'TFLOP/s':>9}{'%':>4}{'GB/s':>7}{'%':>4}"
    )


def line(row):
    """A row of the table."""
    direction = "both" if "+" in row["direction"] else "forward"
    shape = f"T{row['steps']} H{row['units']} B{row['batch']}"
    text = f"{direction:9}{row['mode']:9}{shape:16}"
    for name in ("fused_rnn", "graph", "cudnn"):
        text += f"{row[name] * 1e6:9.0f}u" if row.get(name) else f"{'-':>10}"
    if row.get("fused_rnn"):
        ratio = row["cudnn"] / row["fused_rnn"] if row.get("cudnn") else 0
        text += f"{ratio:7.2f}" if ratio else f"{'-':>7}"
        text += (
            f"{row['flop/s'] / 1e12:9.1f}{100 * row['of flop/s']:4.0f}"
            f"{row['bytes/s'] / 1e9:7.0f}{100 * row['of bytes/s']:4.0f}"
        )
    for name, message in row["errors"].items():
        text += f"\n  {name}: {message}"
    return text


def run_checks(torch, record):
    """Whether all is right. A broken device ends the checks."""
    for mode in TOLERANCES:
        if not type_of(mode):
            print(f"{mode} is not checked: the package ml_dtypes is missing")
    record["checks"] = results = []
    for result in check(Place(Torch())):
        results.append(result)
        record.save(at_most_each=5)
        if not result["ok"]:
            print("FAILED", result, flush=True)
            if not usable(torch):
                print("the GPU can no longer be used by this process")
                break
    wrong = sum(not one["ok"] for one in results)
    worst = {}
    for one in results:
        error = one["error"] / one["tolerance"]
        worst[one["mode"]] = max(worst.get(one["mode"], 0.0), error)
    print(f"{len(results)} checks, {wrong} failed; largest error of a result,"
          " of what is tolerated:",
          {mode: f"{error:.2g}" for mode, error in worst.items()}, flush=True)
    record.save()
    return wrong == 0


def run_times(torch, record, options, end):
    """Times every shape of the grid until the clock says `end`."""
    record["limits"] = found = limits(torch)
    print({name: f"{value:.3g}" for name, value in found.items()})
    print(heading(), flush=True)
    record["times"], record["left out"] = rows, left = [], []
    for steps, units, batch, mode in itertools.product(
        options.steps, options.units, options.batches, MODES
    ):
        shape = {"batch": batch, "units": units, "steps": steps}
        if time.monotonic() > end:
            left.append({"mode": mode, **shape})
            continue
        for row in measure_shape(torch, mode, **shape, limits=found,
                                 seconds=options.seconds):
            rows.append(row)
            print(line(row), flush=True)
            if row["errors"] and not usable(torch):
                print("the GPU can no longer be used by this process")
                return
        record.save(at_most_each=5)
    if left:
        print(f"{len(left)} shapes were left out: time was up")


def run_persistent(options):
    """The record of a run of this program with all steps in one launch."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "persistent.json")
        command = [
            sys.executable, __file__, "--json", str(file),
            "--seconds", str(options.seconds),
            "--minutes", str(PERSISTENT_SECONDS * 0.9 / 60),
            "--batches", *map(str, PERSISTENT_BATCHES),
            "--steps", *map(str, PERSISTENT_STEPS),
            "--units", *map(str, options.units),
        ]
        status = "ran"
        try:
            done = subprocess.run(
                command, env={**os.environ, PERSISTENT: "1"},
                timeout=PERSISTENT_SECONDS,
            )
            if done.returncode:
                status = f"exit status {done.returncode}"
        except subprocess.TimeoutExpired:
            status = f"stopped after {PERSISTENT_SECONDS} s"
        found = json.loads(file.read_text()) if file.exists() else {}
    print(f"all steps in one launch: {status}")
    return {**found, "status": status}


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="results are put there")
    parser.add_argument("--checks", action="store_true", help="time nothing")
    parser.add_argument("--seconds", type=float, default=0.02,
                        help="of each measurement, at least three calls")
    parser.add_argument("--minutes", type=float, default=3.7,
                        help="of all; what does not fit is left out")
    for name, values in (("batches", BATCHES), ("units", UNITS),
                         ("steps", STEPS)):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=values)
    return parser.parse_args(arguments)


def main(arguments=None):
    end = time.monotonic()
    options = options_of(arguments)
    end += 60 * options.minutes
    try:
        import torch
    except ImportError:
        print("benchmarks/gpu.py needs torch with CUDA", file=sys.stderr)
        return 1
    from fused_rnn import cuda

    if not cuda.available():
        print(f"no GPU kernels can run: {cuda.describe()}", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print("torch finds no GPU: is it a build for CUDA?", file=sys.stderr)
        return 1
    record = Record(options.json)
    whole = not os.environ.get(PERSISTENT)
    record |= {
        "machine": cuda.describe(), "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "all steps in one launch": not whole,
    }
    print(record["machine"], flush=True)
    right = run_checks(torch, record)
    if options.checks:
        return int(not right)
    try:
        run_times(torch, record, options,
                  end - PERSISTENT_SECONDS if whole else end)
    finally:
        record.save()
    if whole:
        record["persistent"] = run_persistent(options)
        record.save()
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
