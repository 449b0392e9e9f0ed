"""Measures everything and makes every table and plot anew: one command.

    python benchmarks/reproduce.py --python rivals/bin/python --minutes 60

Results go to docs/performance.json, part by part, from there to README.md and
docs/. It wants a machine that does nothing else. Each part gets its share of the
minutes: more of them are more rounds, never more shapes. Ctrl-C ends it; the
tables are then made of what there is. A part that fails does not end the
others, and --parts measures it again.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import accuracy
import cell
import checkout  # noqa: F401
import core
import report
import rivals
import scaling
from fused_rnn import cli
from fused_rnn.bench import cases, harness, processes
from fused_rnn.cli import _arguments

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs/performance.json"
PLOT = ROOT / "docs/performance.png"
PAGES = [ROOT / page for page in (
    "README.md", "docs/performance.md", "docs/numerics.md")]
INTERRUPTED = 130
# In minutes of an hour, on two processors. To compile and to check takes about
# half of it, whatever the number of rounds.
SHARES = {
    "core": 2, "cell": 5, "rivals": 14, "rivals-1": 12, "rivals-lstm": 6,
    "rivals-rnn": 5, "scaling": 5, "accuracy": 5, "bench": 6,
}
# They are in the tables of "rivals", and would take most of the plots' time.
NOT_DRAWN = "keras-jit,keras-unroll,keras-jax,keras-torch,onednn-plain"


def tool(name):
    """A program beside this interpreter, else of PATH."""
    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", "")]
    return shutil.which(name, path=os.pathsep.join(folders)) or name


def core_program(folder):
    """Builds the core's benchmark alone; returns its path."""
    cmake = tool("cmake")
    processes.call([
        cmake, "-S", ROOT, "-B", folder, "-DFUSED_RNN_TF=OFF",
        "-DFUSED_RNN_PYTHON=OFF", "-DFUSED_RNN_BENCHMARKS=ON",
    ])
    processes.call([
        cmake, "--build", folder, "--target", "core_benchmark", "--parallel",
        len(os.sched_getaffinity(0)),
    ])
    return str(pathlib.Path(folder) / "core_benchmark")


class Parts:
    """What is measured: a method a part, which gets its minutes."""

    def __init__(self, options):
        self.kept = ["--json", str(options.results)]
        self.threads = options.threads
        self.pythons = [word for path in options.python
                        for word in ("--python", path)]
        self.quick = options.quick

    def _timed(self, minutes):
        if self.quick:
            return ["--rounds", "1", "--budget", "0.01"]
        return ["--minutes", f"{minutes:.2f}"]

    def _tiny(self, *arguments):
        return list(arguments) if self.quick else []

    def core(self, minutes):
        with tempfile.TemporaryDirectory(prefix="fused_rnn_core_") as folder:
            return core.main([
                core_program(folder), *self.kept,
                *self._tiny("--seconds", "0.001"),
            ])

    def cell(self, minutes):
        return cell.main([
            *self.kept, "--threads", str(self.threads), *self._timed(minutes),
            *self._tiny("--shapes", "2,8,16"),
        ])

    def rivals(self, minutes, threads=None, cell="gru"):
        return rivals.main([
            *self.kept, "--threads", str(threads or self.threads),
            "--cell", cell, *self.pythons, *self._timed(minutes),
            *self._tiny("--shapes", "2,5,8,16"),
        ])

    def rivals_1(self, minutes):
        return self.rivals(minutes, 1)

    def rivals_lstm(self, minutes):
        return self.rivals(minutes, cell="lstm")

    def rivals_rnn(self, minutes):
        return self.rivals(minutes, cell="rnn")

    def scaling(self, minutes):
        return scaling.main([
            *self.kept, "--threads", str(self.threads), *self._timed(minutes),
            *self._tiny("--subjects", "branches"),
        ])

    def accuracy(self, minutes):
        for each in cases.CONVENTIONS:
            status = accuracy.main([
                *self.kept, "--threads", str(self.threads), "--cell", each,
                *self.pythons, *self._tiny("--shapes", "2,5,8,16"),
            ])
            if status:
                return status
        return 0

    def bench(self, minutes):
        numbers = sorted({1, self.threads})
        return cli.main([
            "bench", *self.kept, "--threads", *map(str, numbers),
            *self.pythons, *self._timed(minutes), "--without", NOT_DRAWN,
            *self._tiny("--shapes", "2,5,8,16", "2,5,32,32"),
        ])


def measure(options):
    """Runs the parts; returns (whether interrupted, the parts that failed)."""
    parts, failed = Parts(options), []
    names = [
        name for name in options.parts
        if name != "rivals-1" or options.threads > 1  # "rivals" has it then.
    ]
    shares = {name: SHARES[name] for name in names}
    scale = options.minutes / sum(shares.values())
    say("About " + ", ".join(
        f"{name} {scale * share:.0f}" for name, share in shares.items()
    ) + f": {options.minutes:.0f} minutes in all.")
    end = time.monotonic() + 60 * options.minutes
    for number, name in enumerate(names):
        left = (end - time.monotonic()) / 60
        minutes = max(
            left * SHARES[name] / sum(SHARES[n] for n in names[number:]), 0.1
        )
        say(f"---- {name}")
        try:
            status = getattr(parts, name.replace("-", "_"))(minutes)
        except KeyboardInterrupt:
            return True, failed
        except (Exception, SystemExit):
            traceback.print_exc()
            status = 1
        if status == INTERRUPTED:
            return True, failed
        if status:
            failed.append(name)
    return False, failed


def say(text):
    print(text, file=sys.stderr, flush=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", action="append", default=[],
                        help="an interpreter that has rivals")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=_arguments.MINUTES, default=60.0,
                        help="how long it may take (default: %(default)g)")
    parser.add_argument("--parts", nargs="+", choices=SHARES, default=SHARES)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--pages", type=pathlib.Path, nargs="*", default=PAGES)
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT)
    parser.add_argument("--quick", action="store_true",
                        help="tiny shapes and one round: does everything work?")
    options = parser.parse_args(arguments)
    interrupted, failed = measure(options)
    drawn = "bench" in harness.load(options.results)
    report.main([
        str(options.results), *map(str, options.pages),
        *(["--plot", str(options.plot)] if drawn else []),
    ])
    if failed:
        say(f"failed: {', '.join(failed)}; measure anew with --parts")
    return INTERRUPTED if interrupted else int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
