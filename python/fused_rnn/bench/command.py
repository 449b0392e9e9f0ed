"""What the benchmark programs share: their command line and their course."""

import argparse
import contextlib
import os
import pathlib
import sys
import tempfile
import time

from fused_rnn.bench import harness
from fused_rnn.cli import _arguments, _terminal


def parser(description, *, rounds, budget):
    """A parser with the options of every program of benchmarks/."""
    result = argparse.ArgumentParser(
        description=description, formatter_class=_arguments.Help
    )
    result.add_argument("--threads", type=int, default=2)
    add_options(result, rounds=rounds, budget=budget)
    return result


def add_options(known, *, rounds, budget):
    """How long to measure, and where results go."""
    add = known.add_argument
    add("--rounds", type=_arguments.COUNT, default=rounds,
        help="how many times each is timed, in turn")
    add("--budget", type=_arguments.SIZE, default=budget,
        help="seconds of each computation in each round")
    add("--json", metavar="FILE", help="results are put there")
    known.set_defaults(dtype="float32")


def parse(known, arguments):
    """The options; ends the program if there are not so many processors."""
    options = known.parse_args(arguments)
    error = threads_error([options.threads])
    if error:
        known.error(error)
    return options


def threads_error(numbers):
    """A sentence if one of them is no number of threads here, or None."""
    available = len(os.sched_getaffinity(0))
    for number in numbers:
        if not 1 <= number <= available:
            return (
                f"--threads must be between 1 and {available}, the processors"
                f" that may be used, got {number}"
            )
    return None


def output_error(*paths):
    """A sentence if results cannot be put into one of these, or None.

    Better said before they are measured. A path may be None.
    """
    for path in filter(None, paths):
        if not pathlib.Path(path).absolute().parent.is_dir():
            return f"there is no folder for {path}"
        if pathlib.Path(path).is_dir():
            return f"expected a file for results, got the folder {path}"
    return None


@contextlib.contextmanager
def measuring(record):
    """Gives the progress bar and a folder.

    Ctrl-C ends the block and keeps what there is.
    """
    progress = Progress()
    try:
        with tempfile.TemporaryDirectory(prefix="fused_rnn_bench_") as folder:
            yield progress, pathlib.Path(folder)
    except KeyboardInterrupt:
        record["interrupted"] = True
    finally:
        progress.clear()
        harness.finish_record(record)


def run(options, section, measure):
    """Calls measure(record) and saves the record; returns it."""
    harness.interrupt_on_terminate()
    record = harness.start_record(
        threads=options.threads, rounds=options.rounds, budget=options.budget,
        dtype=options.dtype,
    )
    measure(record)
    if options.json:
        harness.save(options.json, section, record)
    return record


def exit_code(record):
    return 130 if record["interrupted"] else 0


class Progress:
    """A bar on a terminal; elsewhere a line for what is finished."""

    WIDTH = 20

    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._shown = self._stream.isatty()
        self._started = time.monotonic()

    def show(self, text, part=0.0):
        """part: of the whole work, what is behind."""
        if not self._shown:
            return
        left = ""
        if part > 0:
            spent = time.monotonic() - self._started
            left = f" {_terminal.minutes(spent / part * (1 - part))} left"
        _terminal.redraw(
            self._stream, f"{_terminal.bar(self.WIDTH, part)}{left}  {text}"
        )

    def finished(self, text):
        if not self._shown:
            spent = time.monotonic() - self._started
            self._stream.write(f"{spent:6.0f} s  {text}\n")
            self._stream.flush()

    def clear(self):
        if self._shown:
            _terminal.redraw(self._stream, "")
