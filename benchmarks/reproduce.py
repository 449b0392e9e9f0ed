"""Measures everything and makes every table and plot anew: one command.

    python benchmarks/reproduce.py --python rivals/bin/python

Results go to docs/performance.json, from there to README.md and docs/. It takes
hours, and wants a machine that does nothing else. Ctrl-C ends it; the tables
are then made of what there is.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import accuracy
import cell
import checkout  # noqa: F401
import core
import report
import rivals
import scaling
from fused_rnn import cli

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs/performance.json"
PLOT = ROOT / "docs/performance.png"
PAGES = [ROOT / page for page in (
    "README.md", "docs/performance.md", "docs/numerics.md")]
INTERRUPTED = 130


def core_program(folder):
    """Builds the core's benchmark alone; returns its path."""
    for command in (
        ["cmake", "-S", ROOT, "-B", folder, "-DFUSED_RNN_TF=OFF",
         "-DFUSED_RNN_PYTHON=OFF", "-DFUSED_RNN_BENCHMARKS=ON"],
        ["cmake", "--build", folder, "--target", "core_benchmark"],
    ):
        subprocess.run([str(word) for word in command], check=True,
                       stdout=subprocess.DEVNULL)
    return str(pathlib.Path(folder) / "core_benchmark")


def steps(options, folder):
    """(what, how) of everything that is measured."""
    kept = ["--json", str(options.results)]
    threads = ["--threads", str(options.threads)]
    pythons = [word for path in options.python
               for word in ("--python", path)]
    small = ["--rounds", "1", "--budget", "0.01"] if options.quick else []
    shape = ["--shapes", "2,5,8,16"] if options.quick else []
    yield "core", lambda: core.main([
        core_program(folder), *kept,
        *(["--seconds", "0.001"] if options.quick else []),
    ])
    yield "cell", lambda: cell.main([
        *kept, *threads, *small, *(["--shapes", "2,8,16"] if shape else []),
    ])
    for number in dict.fromkeys((options.threads, 1)):
        yield f"rivals, {number} threads", lambda: rivals.main([
            *kept, "--threads", str(number), *pythons, *small, *shape,
        ])
    yield "scaling", lambda: scaling.main([
        *kept, *threads, *small,
        *(["--subjects", "branches"] if options.quick else []),
    ])
    yield "accuracy", lambda: accuracy.main([
        *kept, *threads, *pythons, *shape,
    ])
    numbers = sorted({1, options.threads})
    yield "bench", lambda: cli.main([
        "bench", *kept, "--threads", *map(str, numbers), *pythons, *small,
        *(["--shapes", "2,5,8,16", "2,5,32,32"] if shape else []),
    ])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", action="append", default=[],
                        help="an interpreter that has rivals")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--pages", type=pathlib.Path, nargs="*", default=PAGES)
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT)
    parser.add_argument("--quick", action="store_true",
                        help="tiny shapes and one round: does everything work?")
    options = parser.parse_args(arguments)
    status = 0
    with tempfile.TemporaryDirectory(prefix="fused_rnn_core_") as folder:
        for what, measure in steps(options, folder):
            print(f"---- {what}", file=sys.stderr)
            status = measure()
            if status == INTERRUPTED:
                break
    report.main([
        str(options.results), *map(str, options.pages),
        *(["--plot", str(options.plot)] if status == 0 else []),
    ])
    return status


if __name__ == "__main__":
    sys.exit(main())
