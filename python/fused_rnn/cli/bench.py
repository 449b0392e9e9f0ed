"""`fused-rnn bench`: fused_rnn against every other library that is installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

from fused_rnn import _library
from fused_rnn.bench import cases, command, limits, listing, programs
from fused_rnn.cli import _arguments

# (B, T, I, H): a grid over batch and units, then a row over the steps.
GRID = tuple(
    (batch, 50, units, units) for batch in (1, 16, 64)
    for units in (64, 256, 512)
)
LENGTHS = tuple((16, steps, 64, 64) for steps in (1, 10, 200))
SHAPES = GRID + LENGTHS


def add_parser(subparsers) -> None:
    """Adds the command to the parser of `fused-rnn`."""
    parser = subparsers.add_parser(
        "bench",
        help="time a GRU, LSTM or simple RNN here against other libraries",
        description="Times a recurrence over a sequence, here and in every other"
        " library that is installed: each in a process of its own, in turn, after"
        " its results were compared with those of a reference in float64. Ctrl-C"
        " prints what there is.",
        epilog="Rivals that do not run on TensorFlow (PyTorch, JAX, ONNX"
        " Runtime, OpenVINO, oneDNN) are best installed into an environment of"
        " their own, whose interpreter --python names. Exit status: 0 when"
        " done, 1 when something is missing, 2 for wrong arguments, 130 when"
        " interrupted.",
        formatter_class=_arguments.Help,
    )
    add = parser.add_argument
    add("--shapes", "--shape", nargs="+", type=_arguments.shape,
        metavar="B,T,I,H", default=SHAPES,
        help="batch, steps, inputs and units (default: a grid of batch sizes and"
        " units, and several lengths%(default).0s)")
    add("--threads", nargs="+", type=int,
        default=[len(os.sched_getaffinity(0))], help="one number or several")
    # Keras' default.
    programs.add_options(parser, conventions=("after",))
    command.add_options(parser, rounds=5, budget=0.05)
    add("--plot", metavar="FILE.png", help="what was measured, drawn")
    parser.set_defaults(run=lambda options: run(options, parser))


def run(options, parser) -> int:
    """Measures, prints, and returns the exit status."""
    error = command.threads_error(options.threads)
    if error:
        parser.error(error)
    try:
        programs.settle(options)
        # Everybody is set against us.
        chosen = programs.select(
            options.only and ["ours", *options.only], options.without
        )
        # Bare products of matrices are no rival, except when asked for.
        if not options.only:
            chosen.pop("bare", None)
    except ValueError as unknown:
        parser.error(str(unknown))
    missing = _missing(options)
    if missing:
        print(f"fused-rnn: {missing}", file=sys.stderr)
        return 1
    _library.check_instruction_set()
    record = command.run(
        options, "bench", lambda record: measure(options, chosen, record)
    )
    print(listing.listing(record))
    if options.plot:
        from fused_rnn.bench import figures

        drawn = figures.draw(record, options.plot)
        print(f"\nPlot: {options.plot}" if drawn else
              "\nNothing was measured that could be drawn.")
    return command.exit_code(record)


def _missing(options):
    """Why the run would be for nothing, or None: better said before it."""
    if options.plot and not importlib.util.find_spec("matplotlib"):
        return ("plots need matplotlib, which is not installed: pip install"
                " 'fused-rnn[bench]'")
    if "bfloat16" == options.dtype and not importlib.util.find_spec("ml_dtypes"):
        return "bfloat16 needs ml_dtypes: pip install ml_dtypes"
    if options.plot and not options.plot.lower().endswith(".png"):
        return f"a plot is a file that ends in .png, got {options.plot}"
    for path in options.python or ():
        if not shutil.which(path):
            return f"there is no interpreter {path}"
    return command.output_error(options.json, options.plot)


def measure(options, chosen, record):
    """Into the record: the limits of the machine, then everybody's times."""
    with command.measuring(record) as (progress, folder):
        numbers = sorted(set(options.threads))
        record["limits"] = []
        for threads in numbers:
            progress.show(f"what {threads} threads do at most")
            found = limits.probe(threads)
            if found:
                record["limits"].append(found)
        pace = command.pace_of(
            options, progress,
            programs.blocks(options, chosen) * len(numbers),
        )
        for threads in numbers:
            programs.run(
                options, chosen, record, threads, pace, progress, folder,
                about={"threads": threads},
            )
