"""`fused-rnn demo`: trains one language model by several engines in turn.

They are fused_rnn and Keras alone, unless others are asked for. The text is the
Python source of the interpreter's own standard library.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

from fused_rnn import _library
from fused_rnn._version import __version__
from fused_rnn.cli import _report, _text, _training
from fused_rnn.cli._arguments import COUNT, SIZE, Help, number
from fused_rnn.cli._terminal import quiet_start

INTERRUPTED = 130  # what shells report for a command that SIGINT ended
PROMPT = "def "
CELLS = {"gru": "GRU", "lstm": "LSTM", "rnn": "SimpleRNN"}
ENGINES = {"fused": "fused_rnn", "keras": "Keras", "numpy": "NumPy"}
EMBEDDING = 64  # unless the NumPy engine is among the engines


def add_parser(subparsers) -> None:
    """Adds the command to the parser of `fused-rnn`."""
    parser = subparsers.add_parser(
        "demo",
        help="train a small language model, and compare with Keras' own layer",
        description="Trains a character-level language model on the Python"
        " sources of the standard library, once with each engine, from the"
        " same weights on the same batches, and shows them side by side: the"
        " losses coincide, the times do not. Ctrl-C ends the training and"
        " keeps what was trained.",
        epilog="The NumPy engine is the network of fused_rnn.reference, in"
        " float64. It reads one-hot characters, and its GRU's reset gate acts"
        " before the product: where it takes part, so do the others"
        " (--embedding 0 --reset-before). Exit status: 0 when done, 1 when"
        " something is missing or the engines disagree, 2 for wrong arguments,"
        " 130 when interrupted.",
        formatter_class=Help,
    )
    add = parser.add_argument
    add("--cell", choices=CELLS, default="gru", help="the recurrent layer")
    add("--engine", "--engines", nargs="+", action="extend", dest="engines",
        choices=(*ENGINES, "all"), help="what trains it, one or several; the"
        " first trained writes the sample and is kept (default: fused keras)")
    for flag, kind, default, text in (
        ("--steps", COUNT, 400, "training steps of each engine"),
        ("--numpy-steps", COUNT, 30, "at most, of the NumPy engine: it is"
         " slow"),
        ("--units", COUNT, 256, "units of the recurrent layer"),
        ("--batch", COUNT, 32, "sequences in a batch"),
        ("--length", COUNT, 100, "characters in a sequence"),
        ("--learning-rate", SIZE, 3e-3, "of the optimizer, Adam"),
        ("--characters", COUNT, 5_000_000, "how much text to read at most"),
        ("--sample", COUNT, 400, "characters to write at the end"),
        ("--temperature", SIZE, 0.6, "below 1 bolder, above 1 wilder"),
    ):
        add(flag, type=kind, default=default, help=text)
    add("--embedding", type=number(int, "a whole number, 0 or more", least=0),
        help="numbers that stand for a character, 0 for one-hot (default:"
        f" {EMBEDDING}, with the NumPy engine 0)")
    add("--seed", default=0, help="of all chance",
        type=number(int, "a whole number from 0 to 4294967295", 0, 2**32 - 1))
    add("--reset-before", action="store_true",
        help="the GRU whose reset gate acts before the product")
    add("--text", metavar="PATH",
        help="a file, or a folder of Python files, to learn from instead")
    add("--output", metavar="FOLDER", default="fused_rnn_demo",
        help="where the model and the plot are written")
    add("--no-compare", action="store_const", const=["fused"], dest="engines",
        help="the same as --engine fused")
    parser.set_defaults(run=lambda arguments: run(arguments, parser))


def run(arguments, parser) -> int:
    """Runs the demo; returns the exit status."""
    try:
        _settle(arguments)
    except ValueError as error:
        parser.error(str(error))
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print("\nfused-rnn: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (_text.TextError, OSError) as error:
        print(f"fused-rnn: {error}", file=sys.stderr)
        return 1


def _settle(arguments):
    """Fills in what follows from other arguments.

    Raises:
      ValueError: two arguments contradict each other.
    """
    engines = list(dict.fromkeys(arguments.engines or ("fused", "keras")))
    arguments.engines = list(ENGINES) if "all" in engines else engines
    gru = arguments.cell == "gru"
    if arguments.reset_before and not gru:
        raise ValueError(
            f"--reset-before: --cell {arguments.cell} has no reset gate, only"
            " gru has one"
        )
    if "numpy" not in arguments.engines:
        if arguments.embedding is None:
            arguments.embedding = EMBEDDING
        return
    if arguments.embedding:
        raise ValueError(
            "--embedding: expected 0 with the NumPy engine, which reads"
            f" one-hot characters, got {arguments.embedding}"
        )
    arguments.embedding = 0
    arguments.reset_before = gru


def _run(arguments) -> int:
    folder = _output_folder(arguments.output)
    files = _text.sources(arguments.text)
    text, read = _text.read(files, arguments.characters, arguments.seed)
    vocabulary = _text.Vocabulary(text)
    tokens = vocabulary.encode(text)

    def batches():
        return _text.batches(
            tokens, arguments.batch, arguments.length, arguments.seed
        )

    batches()  # finds a text that is too short before TensorFlow is loaded
    with quiet_start():
        _library.load()
        _library.check_instruction_set()
        import keras

        from fused_rnn.cli import _engines

    keras.utils.set_random_seed(arguments.seed)
    description = _engines.Model(
        arguments.cell, len(vocabulary), arguments.embedding, arguments.units,
        not arguments.reset_before, arguments.learning_rate,
    )
    model = description.build()
    _print_header(arguments, len(text), read, len(vocabulary), model)
    initial = model.get_weights()

    trainers, runs = [], {}
    with _training.Interrupt() as interrupt:
        for engine in arguments.engines:
            _print_title(engine, first=not runs)
            trainers.append(_engines.trainer(engine, description, initial))
            run = runs[ENGINES[engine]] = _training.train(
                trainers[-1].step, batches(), _steps(engine, arguments),
                interrupt,
            )
            if interrupt.wanted:
                print(f"\nInterrupted after step {len(run.losses)}."
                      " What was trained is kept.")
                break
    characters = arguments.batch * arguments.length
    disagreement = None
    if len(runs) > 1:
        _report.print_losses(runs)
        _report.print_times(runs, characters)
        disagreement = _report.disagreement(runs)
        if disagreement:
            print(f"fused-rnn: {disagreement}", file=sys.stderr)

    model = trainers[0].model()
    written = _engines.sample(
        model, list(vocabulary.encode(PROMPT)), arguments.sample,
        arguments.temperature, arguments.seed,
    )
    print("\nA sample of what it writes\n")
    for line in vocabulary.decode(written).splitlines():
        print(_printable(f"    {line}"))

    path = folder / "model.keras"
    difference = _engines.save_and_load(model, path, next(batches())[0])
    same = f"within {difference:.1e} the same" if difference else "the same"
    print(f"\nModel  {path}: saved and loaded again, {same} predictions")
    print(f"Plot   {_report.plot(runs, characters, folder / 'loss.png')}")
    if interrupt.wanted:
        return INTERRUPTED
    return 1 if disagreement else 0


def _output_folder(path):
    """The folder of that name, made if need be.

    Raises:
      OSError: nothing can be written there; better said before the training.
    """
    try:
        os.makedirs(path, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OSError(
            "--output: expected a folder that can be written to, got"
            f" {path}: {error.strerror}"
        ) from None
    return pathlib.Path(path)


def _steps(engine, arguments):
    if engine == "numpy":
        return min(arguments.steps, arguments.numpy_steps)
    return arguments.steps


def _printable(text):
    """The text in what the terminal's encoding can show."""
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


def _print_header(arguments, characters, files, symbols, model):
    import tensorflow as tf

    threads = tf.config.threading.get_intra_op_parallelism_threads()
    threads = threads or len(os.sched_getaffinity(0))
    count = sum(weight.numpy().size for weight in model.trainable_weights)
    embedding = arguments.embedding
    first = f"embedding {embedding}" if embedding else f"one-hot {symbols}"
    layer = f"{CELLS[arguments.cell]} {arguments.units}"
    if arguments.reset_before:
        layer += " (reset before the product)"
    print(f"fused_rnn {__version__}, TensorFlow {tf.__version__}, "
          f"{threads} thread{'s' * (threads > 1)}\n")
    print(f"Text   {characters:,} characters of {files:,} Python files, "
          f"{symbols} different ones")
    print(f"Model  {first}, {layer}, dense {symbols}: {count:,} weights")
    if "numpy" in arguments.engines:
        print("       what the NumPy engine trains, so every engine does")
    print(f"Batch  {arguments.batch} sequences of {arguments.length} "
          "characters\n")


def _print_title(engine, first):
    title = "Keras' own layer" if engine == "keras" else ENGINES[engine]
    print(title if first else f"\n{title}, the same weights and batches")
