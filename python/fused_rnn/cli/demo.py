"""`fused-rnn demo`: trains a language model, then the same one on Keras alone.

The text is the Python source of the interpreter's own standard library.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys

from fused_rnn import _library
from fused_rnn._version import __version__
from fused_rnn.cli import _text
from fused_rnn.cli._arguments import number
from fused_rnn.cli._terminal import quiet_start

INTERRUPTED = 130  # what shells report for a command that SIGINT ended
PROMPT = "def "

# Two float32 trainings from the same weights start with losses that differ by
# rounding only: some 1e-6 of a loss of 4 to 5. Later steps magnify that.
FIRST_LOSS_TOLERANCE = 1e-4


def add_parser(subparsers) -> None:
    """Adds the command to the parser of `fused-rnn`."""
    parser = subparsers.add_parser(
        "demo",
        help="train a small language model, and compare with Keras' own GRU",
        description="Trains a character-level language model on the Python"
        " sources of the standard library, then the same model on Keras' own"
        " GRU from the same weights on the same batches, and shows both side"
        " by side. Ctrl-C ends the training and keeps what was trained.",
        epilog="Exit status: 0 when done, 1 when something is missing or the"
        " two disagree, 2 for wrong arguments, 130 when interrupted.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    count = number(int, "a whole number above 0")
    size = number(float, "a number above 0")
    for flag, kind, default, text in (
        ("--steps", count, 400, "training steps of each model"),
        ("--units", count, 256, "units of the GRU"),
        ("--embedding", count, 64, "numbers that stand for a character"),
        ("--batch", count, 32, "sequences in a batch"),
        ("--length", count, 100, "characters in a sequence"),
        ("--learning-rate", size, 3e-3, "of the optimizer, Adam"),
        ("--characters", count, 5_000_000, "how much text to read at most"),
        ("--sample", count, 400, "characters to write at the end"),
        ("--temperature", size, 0.6, "below 1 bolder, above 1 wilder"),
    ):
        parser.add_argument(flag, type=kind, default=default, help=text)
    parser.add_argument("--seed", type=int, default=0, help="of all chance")
    parser.add_argument(
        "--reset-before", action="store_true",
        help="the GRU whose reset gate acts before the product",
    )
    parser.add_argument(
        "--text", metavar="PATH",
        help="a file, or a folder of Python files, to learn from instead",
    )
    parser.add_argument(
        "--output", metavar="FOLDER", default="fused_rnn_demo",
        help="where the model and the plot are written",
    )
    parser.add_argument(
        "--no-compare", action="store_true", help="leave out Keras' own GRU"
    )
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Runs the demo; returns the exit status."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print("\nfused-rnn: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (_text.TextError, OSError) as error:
        print(f"fused-rnn: {error}", file=sys.stderr)
        return 1


def _run(arguments) -> int:
    folder = pathlib.Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    files = _text.sources(arguments.text)
    text, read = _text.read(files, arguments.characters, arguments.seed)
    vocabulary = _text.Vocabulary(text)
    tokens = vocabulary.encode(text)
    shape = (arguments.batch, arguments.length)

    def batches():
        return _text.batches(tokens, *shape, arguments.seed)

    batches()  # finds a text that is too short before TensorFlow is loaded
    with quiet_start():
        _library.load()
        import keras

        from fused_rnn.cli import _training

    keras.utils.set_random_seed(arguments.seed)
    sizes = (
        len(vocabulary), arguments.embedding, arguments.units,
        not arguments.reset_before, arguments.learning_rate,
    )
    fused = _training.build(True, *sizes)
    stock = _training.build(False, *sizes)
    stock.set_weights(fused.get_weights())
    _print_header(arguments, len(text), read, len(vocabulary), fused)

    with _training.Interrupt() as interrupt:
        print("fused_rnn")
        runs = [
            _training.train(
                fused, batches(), shape, arguments.steps, interrupt
            )
        ]
        if not arguments.no_compare and not interrupt.wanted:
            print("\nKeras' own GRU, the same weights and batches")
            runs.append(
                _training.train(
                    stock, batches(), shape, arguments.steps, interrupt
                )
            )
    agree = True
    if interrupt.wanted:
        done = len(runs[-1].losses)
        print(f"\nInterrupted after step {done}. What was trained is kept.")
    if len(runs) > 1:
        agree = _print_comparison(*runs, shape[0] * shape[1])

    prompt = list(vocabulary.encode(PROMPT))
    written = _training.sample(
        fused, prompt, arguments.sample, arguments.temperature, arguments.seed
    )
    print("\nA sample of what it writes\n")
    for line in vocabulary.decode(written).splitlines():
        print(_printable(f"    {line}"))

    path = folder / "model.keras"
    difference = _training.save_and_load(fused, path, next(batches())[0])
    same = "the same" if difference == 0 else f"within {difference:.1e} the same"
    print(f"\nModel  {path}: saved and loaded again, {same} predictions")
    print(f"Plot   {_plot(runs, folder / 'loss.png')}")
    if interrupt.wanted:
        return INTERRUPTED
    return 0 if agree else 1


def _printable(text):
    """The text in what the terminal's encoding can show."""
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


def _print_header(arguments, characters, files, symbols, model):
    import tensorflow as tf

    threads = tf.config.threading.get_intra_op_parallelism_threads()
    threads = threads or len(os.sched_getaffinity(0))
    count = model.count_params()
    print(f"fused_rnn {__version__}, TensorFlow {tf.__version__}, "
          f"{threads} thread{'s' * (threads > 1)}\n")
    print(f"Text   {characters:,} characters of {files:,} Python files, "
          f"{symbols} different ones")
    print(f"Model  embedding {arguments.embedding}, GRU {arguments.units}, "
          f"dense {symbols}: {count:,} weights")
    print(f"Batch  {arguments.batch} sequences of {arguments.length} "
          "characters\n")


def _print_comparison(fused, stock, characters):
    """Prints losses and times side by side; whether they agree."""
    steps = min(len(fused.losses), len(stock.losses))
    differences = [
        abs(a - b) for a, b in zip(fused.losses, stock.losses)
    ]
    shown = sorted({1, *(max(1, steps * i // 5) for i in range(1, 6))})
    print("\nLoss     step   fused_rnn       Keras")
    for step in shown:
        print(f"     {step:>8}  {fused.losses[step - 1]:>10.4f}  "
              f"{stock.losses[step - 1]:>10.4f}")
    largest = max(differences)
    print(f"       largest difference {largest:.1e}, "
          f"at step {differences.index(largest) + 1} of {steps}")

    seconds = fused.step_seconds(), stock.step_seconds()
    print("\nTime                 a step   characters/s")
    for name, value in zip(("fused_rnn", "Keras"), seconds):
        print(f"       {name:<10}{1e3 * value:>7.1f} ms  "
              f"{characters / value:>13,.0f}")
    print(f"       speed-up  {seconds[1] / seconds[0]:>7.2f}x   "
          "(median of the steps after the first)")
    if differences[0] > FIRST_LOSS_TOLERANCE:
        print("fused-rnn: the losses of the first step differ by "
              f"{differences[0]:.1e}, more than rounding explains",
              file=sys.stderr)
        return False
    return True


def _plot(runs, path):
    """Draws both curves over steps and over time; returns what to say."""
    try:
        import matplotlib
    except ImportError:
        return ("not drawn, matplotlib is not installed: "
                "pip install 'fused-rnn[demo]'")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for run, name, style in zip(runs, ("fused_rnn", "Keras"), ("-", "--")):
        axes[0].plot(range(1, len(run.losses) + 1), run.losses, style,
                     label=name)
        # The first step traces the graph; it would shift the whole curve.
        seconds, elapsed = 0.0, []
        for value in [run.step_seconds(), *run.seconds[1:]]:
            seconds += value
            elapsed.append(seconds)
        axes[1].plot(elapsed, run.losses, style, label=name)
    axes[0].set(xlabel="step", ylabel="loss")
    axes[1].set(xlabel="seconds")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path
