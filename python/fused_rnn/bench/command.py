"""What the benchmark programs share: their command line and their course."""

import argparse
import contextlib
import os
import pathlib
import signal
import sys
import tempfile

from fused_rnn.bench import harness, pacing
from fused_rnn.cli import _arguments


def parser(description, *, rounds=0, budget=0.0):
    """A parser with the options of every program of benchmarks/.

    Without rounds nothing is timed.
    """
    result = argparse.ArgumentParser(
        description=description, formatter_class=_arguments.Help
    )
    result.add_argument("--threads", type=int, default=2)
    add_options(result, rounds=rounds, budget=budget)
    return result


def add_options(known, *, rounds, budget):
    """How long to measure, and where results go."""
    add = known.add_argument
    if rounds:
        add("--rounds", type=_arguments.COUNT, default=rounds,
            help="turns of each computation")
        add("--budget", type=_arguments.SECONDS, default=budget,
            help="seconds of each turn")
        add("--minutes", type=_arguments.MINUTES,
            help="how long it may take: each shape gets its share of the time,"
            f" and at least {pacing.LEAST_ROUNDS} rounds")
    add("--json", metavar="FILE", help="results are put there")
    known.set_defaults(dtype="float32", cell="gru")
    if not rounds:
        known.set_defaults(rounds=0, budget=0.0, minutes=None)


def pace_of(options, progress, jobs):
    """The pace of blocks with so many jobs, as the options ask for."""
    return pacing.Pace(
        progress, jobs, options.rounds, options.budget, options.minutes
    )


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
    progress = pacing.Progress(sys.stderr)
    try:
        with tempfile.TemporaryDirectory(prefix="fused_rnn_bench_") as folder:
            yield progress, pathlib.Path(folder)
    except KeyboardInterrupt:
        record["interrupted"] = True
    finally:
        progress.clear()
        harness.finish_record(record)


def run(options, section, measure):
    """Calls measure(record) and saves the record; returns it.

    What is not of a GRU goes into a section of its own.
    """
    record = harness.start_record(
        threads=options.threads, rounds=options.rounds, budget=options.budget,
        dtype=options.dtype,
    )
    if options.cell != "gru":
        section += f"-{options.cell}"
        record["settings"]["cell"] = options.cell
    with one_interrupt() as ignore_others:
        measure(record)
        ignore_others()
        if options.json and (record["results"] or not record["interrupted"]):
            harness.save(options.json, section, record)
    return record


@contextlib.contextmanager
def one_interrupt():
    """The first Ctrl-C or SIGTERM raises KeyboardInterrupt, and later ones do
    nothing until the program ends: what ends the workers, saves what there is
    and removes temporary files must not be interrupted.

    Gives a function after whose call the first does nothing either.
    """
    interrupted = False

    numbers = [
        number for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) != signal.SIG_IGN
    ]

    def ignore():
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    def interrupt(*_):
        nonlocal interrupted
        interrupted = True
        ignore()
        raise KeyboardInterrupt

    handlers = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield ignore
    finally:
        if not interrupted:
            for number, handler in zip(numbers, handlers):
                signal.signal(number, handler)


def exit_code(record):
    return 130 if record["interrupted"] else 0
