"""`fused-rnn profile`: a model's time in recurrent layers, and what fuse gains."""

from __future__ import annotations

import itertools
import os
import sys

from fused_rnn import _library
from fused_rnn.bench import command, harness, tables
from fused_rnn.cli._arguments import COUNT, Help
from fused_rnn.cli._terminal import quiet_start

# Of the norm, relative: two ways to round, through a whole model.
TOLERANCE = 1e-3


def add_parser(subparsers) -> None:
    """Adds the command to the parser of `fused-rnn`."""
    parser = subparsers.add_parser(
        "profile",
        help="what a Keras model spends in recurrent layers, and what fuse gains",
        description="Loads a Keras model, says which layers fuse() replaces,"
        " and measures a predict step and a train step with Keras' own recurrent"
        " layers and with fused ones: whole, and in the recurrent layers alone. A"
        " train step is the forward pass and all gradients, without the"
        " model's own loss and optimizer. The file is not changed.",
        epilog="Exit status: 0 when done, 1 when the model cannot be profiled"
        " or the two compute something else, 2 for wrong arguments, 130 when"
        " interrupted.",
        formatter_class=Help,
    )
    add = parser.add_argument
    add("model", metavar="MODEL.keras")
    add("--batch", type=COUNT, default=32,
        help="rows, where the model leaves that open")
    add("--steps", type=COUNT, default=100,
        help="of an axis whose length the model leaves open")
    add("--threads", type=int, help="of TensorFlow; its own default unless"
        " given")
    command.add_options(parser, rounds=11, budget=0.2)
    parser.set_defaults(run=lambda options: run(options, parser))


def run(options, parser) -> int:
    """Measures, prints, and returns the exit status."""
    if options.threads is not None:
        error = command.threads_error([options.threads])
        if error:
            parser.error(error)
    missing = command.output_error(options.json)
    if not os.path.exists(options.model):
        missing = f"there is no file {options.model}"
    if missing:
        print(f"fused-rnn: {missing}", file=sys.stderr)
        return 1
    with quiet_start():
        _library.load()
        _library.check_instruction_set()
        import keras
        import tensorflow as tf

        import fused_rnn
        from fused_rnn.cli import _profiling

    if options.threads is None:
        options.threads = len(os.sched_getaffinity(0))
    else:
        tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    try:
        models = {
            "keras": fused_rnn.unfuse(
                keras.models.load_model(options.model), verbose=False
            ),
            "fused": fused_rnn.fuse(keras.models.load_model(options.model)),
        }
        inputs = _profiling.example(
            models["keras"], options.batch, options.steps
        )
    except (_profiling.ModelError, ValueError, TypeError, OSError) as error:
        print(f"fused-rnn: {options.model} cannot be profiled: {error}",
              file=sys.stderr)
        return 1
    difference = _profiling.difference(*models.values(), inputs)
    print(f"\nRelative difference of the predictions: {difference:.1e}\n")
    if not difference < TOLERANCE:
        print("fused-rnn: the two models compute something else",
              file=sys.stderr)
        return 1

    def measure(record):
        record["versions"]["keras"] = {
            "fused_rnn": fused_rnn.__version__, "Keras": keras.__version__,
            "TensorFlow": tf.__version__,
        }
        record["settings"]["inputs"] = ", ".join(
            "x".join(map(str, array.shape))
            for array in keras.tree.flatten(inputs)
        )
        with command.measuring(record) as (progress, _):
            progress.show("traces the models")
            entries = _profiling.entries_of(models, inputs)
            turns = itertools.count(1)
            total = options.rounds * len(entries)
            try:
                harness.interleave(
                    entries, options.rounds, options.budget,
                    lambda: progress.show("runs", next(turns) / total),
                )
            finally:
                record["results"] = [entry.record() for entry in entries]

    record = command.run(options, "profile", measure)
    print(table(record))
    return command.exit_code(record)


def table(record):
    """Times whole and in recurrent layers, and what was gained, as text."""
    rounds = {
        (result["name"], result["mode"], result["part"]): result["rounds"]
        for result in record["results"]
    }
    modes = list(dict.fromkeys(mode for _, mode, _ in rounds))
    lines = [f"{'':<24}" + "".join(f"{mode + ' step':>26}" for mode in modes)]
    for name, title in (("keras", "Keras' own"), ("fused", "fused")):
        for part, label in (("model", title), ("recurrent", "  in recurrent layers")):
            cells = []
            for mode in modes:
                found = harness.summary(rounds.get((name, mode, part), []))
                text = "–"
                if found:
                    text = f"{tables.milliseconds(found['median'])} ms"
                    if part == "recurrent":
                        share = harness.ratio(
                            rounds[name, mode, part],
                            rounds[name, mode, "model"],
                        )
                        # Alone they may take longer than beside the rest.
                        text += f" ({min(100 * share, 100):.0f} %)"
                cells.append(f"{text:>26}")
            lines.append(f"{label:<24}" + "".join(cells))
    gains = [
        harness.ratio(
            rounds.get(("keras", mode, "model"), []),
            rounds.get(("fused", mode, "model"), []),
        ) for mode in modes
    ]
    lines.append(f"{'times as fast':<24}" + "".join(
        f"{tables.number(gain):>26}" for gain in gains
    ))
    return "\n".join([*lines, "", tables.where(record)])
