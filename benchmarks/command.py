"""What the benchmark programs share: their command line and their course."""

import argparse
import contextlib
import os

import harness


def parser(description, *, rounds, budget):
    """A parser with the options of every program."""
    result = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = result.add_argument
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=rounds)
    add("--budget", type=float, default=budget,
        help="seconds of each computation in each round")
    add("--json", metavar="FILE", help="results are put there")
    return result


def parse(known, arguments):
    """The options; ends the program if there are not so many processors."""
    options = known.parse_args(arguments)
    available = len(os.sched_getaffinity(0))
    if not 1 <= options.threads <= available:
        known.error(
            f"--threads must be between 1 and {available}, the processors that"
            f" may be used, got {options.threads}"
        )
    return options


@contextlib.contextmanager
def measuring(workers, record):
    """Gives the progress bar; Ctrl-C ends the block and keeps what there is.

    workers: has close() and, afterwards, the `versions` that they reported.
    """
    progress = harness.Progress()
    try:
        yield progress
    except KeyboardInterrupt:
        record["interrupted"] = True
    finally:
        workers.close()
        progress.clear()
        record["versions"] = workers.versions
        harness.finish_record(record)


def run(options, section, measure):
    """Calls measure(record) and saves the record; returns it."""
    harness.interrupt_on_terminate()
    record = harness.start_record(
        threads=options.threads, rounds=options.rounds, budget=options.budget,
        dtype="float32",
    )
    measure(record)
    if options.json:
        harness.save(options.json, section, record)
    return record


def exit_code(record):
    return 130 if record["interrupted"] else 0
