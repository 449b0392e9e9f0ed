"""`fused-rnn profile`: a model's time in recurrent layers, and what fuse gains."""

from __future__ import annotations

import os
import sys
import textwrap
import zipfile

from fused_rnn import _library
from fused_rnn.bench import command, harness, tables
from fused_rnn.cli import _arguments
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
        formatter_class=_arguments.Help,
    )
    add = parser.add_argument
    add("model", metavar="MODEL.keras")
    add("--batch", type=_arguments.COUNT, default=32,
        help="rows, where the model leaves that open")
    add("--steps", type=_arguments.COUNT, default=100,
        help="of an axis whose length the model leaves open")
    add("--threads", type=int, help="of TensorFlow; its own default unless"
        " given")
    add("--import", action="append", default=[], metavar="MODULE", dest="imports",
        help="a module, or a file of Python, with layers and functions of the"
        " model's own; may be given several times")
    add("--unsafe", action="store_true",
        help="load what is Python code inside the file too, as lambdas are: for"
        " files that you trust")
    command.add_options(parser, rounds=11, budget=0.2)
    parser.set_defaults(run=lambda options: run(options, parser))


def run(options, parser) -> int:
    """Measures, prints, and returns the exit status."""
    if options.threads is not None:
        error = command.threads_error([options.threads])
        if error:
            parser.error(error)
    error = command.output_error(options.json) or _file_error(options.model)
    if error:
        print(f"fused-rnn: {error}", file=sys.stderr)
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
        models = {name: _profiling.load(options) for name in ("keras", "fused")}
        fused_rnn.unfuse(models["keras"], verbose=False)
        fused_rnn.fuse(models["fused"])
        layers = [
            _profiling.recurrent_layers(model) for model in models.values()
        ]
        if not layers[0]:
            print("\nThere is no recurrent layer in it: fuse() changes nothing.")
            return 0
        if not any(type(a) is not type(b) for a, b in zip(*layers)):
            print("\nfuse() replaces none of them: only Keras' own is measured.")
            del models["fused"]
        inputs = _profiling.example(
            models["keras"], options.batch, options.steps
        )
        difference = _profiling.difference(list(models.values()), inputs)
    except (_profiling.ModelError, ValueError, TypeError, OSError,
            tf.errors.OpError) as error:
        print(f"fused-rnn: {options.model} cannot be profiled:"
              f" {_reason(error)}", file=sys.stderr)
        return 1
    if len(models) > 1:
        print(f"\nRelative difference of the predictions: {difference:.1e}")
    print()
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
            entries = _profiling.entries_of(models, inputs)
            pace = command.pace_of(options, progress, [len(entries)])
            pace.begin("")
            pace.preparing("the models")
            try:
                harness.interleave(entries, pace)
            finally:
                record["results"] = [entry.record() for entry in entries]

    record = command.run(options, "profile", measure)
    print(table(record))
    return command.exit_code(record)


def _file_error(path):
    """A sentence if there is no file that may be a model, or None."""
    if not os.path.exists(path):
        return f"there is no file {path}"
    if os.path.isdir(path):
        return (f"{path} is a folder: expected a file that model.save() wrote,"
                " MODEL.keras or MODEL.h5")
    if path.endswith(".keras") and not zipfile.is_zipfile(path):
        return f"{path} is no file of Keras 3: expected a zip archive"
    return None


def _reason(error):
    """What Keras says at the end, without the configuration of the model."""
    text = str(error).rpartition("Exception encountered: ")[2]
    text = " ".join(text.partition("Full object config:")[0].split())
    hint = ""
    if "Could not locate" in text:
        text = text.partition(". Make sure")[0]
        hint = "; --import names a module or a file that has it"
    elif "safe_mode" in text:
        text, hint = "it holds Python code, a lambda say", (
            "; --unsafe loads it, for files that you trust"
        )
    return f"{text[:300]}{hint}"


def table(record):
    """Times whole and in recurrent layers, and what was gained, as text."""
    rounds = {
        (result["name"], result["mode"], result["part"]): result["rounds"]
        for result in record["results"]
    }
    modes = list(dict.fromkeys(mode for _, mode, _ in rounds))
    lines = [f"{'':<24}" + "".join(f"{mode + ' step':>17}{'':9}" for mode in modes)]
    for name, title in (("keras", "Keras' own"), ("fused", "fused")):
        for part, label in (("model", title), ("recurrent", "  in recurrent layers")):
            cells = []
            for mode in modes:
                found = harness.summary(rounds.get((name, mode, part), []))
                text, share = "–", ""
                if found:
                    text = f"{tables.milliseconds(found['median'])} ms"
                if found and part == "recurrent":
                    share = harness.ratio(
                        rounds[name, mode, part], rounds[name, mode, "model"],
                    )
                    # Alone they may take longer than beside the rest.
                    share = f"{min(100 * share, 100):.0f} %"
                cells.append(f"{text:>17}{share:>9}")
            if any(name == key[0] for key in rounds):
                lines.append(f"{label:<24}" + "".join(cells))
    gains = [
        harness.ratio(
            rounds.get(("keras", mode, "model"), []),
            rounds.get(("fused", mode, "model"), []),
        ) for mode in modes
    ]
    if any(gains):
        lines.append(f"{'fused, times as fast':<24}" + "".join(
            f"{tables.number(gain):>14}{'':12}" for gain in gains
        ))
    lines = [line.rstrip() for line in lines]
    return "\n".join([*lines, "", textwrap.fill(tables.where(record), 80)])
