"""`fused-rnn info`: what was built, what runs, and whether they fit."""

from __future__ import annotations

import json
import os
import platform

from fused_rnn import _library
from fused_rnn._version import __version__
from fused_rnn.cli._terminal import quiet_start


def add_parser(subparsers) -> None:
    """Adds the command to the parser of `fused-rnn`."""
    parser = subparsers.add_parser(
        "info",
        help="versions, instruction sets, threads, and whether the ops load",
        description="Prints what was built, what runs, and whether they fit."
        " Exits with 1 if TensorFlow is installed and the ops do not load.",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead"
    )
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Prints what `collect` finds; 1 if something needs mending."""
    facts = collect()
    if arguments.json:
        print(json.dumps(facts, indent=2))
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            print(f"{name:<{width}}  {value}")
    return 1 if facts.get("error") else 0


def collect() -> dict[str, object]:
    """Everything that `info` prints, by name.

    Loads TensorFlow and the ops if they are there, since only that shows
    whether they fit. What could not be loaded is explained under "error".
    """
    import numpy

    info = _library.build_info()
    facts: dict[str, object] = {
        "fused_rnn": __version__,
        "folder": os.path.dirname(_library.library_path()),
        "Python": platform.python_version(),
        "NumPy": numpy.__version__,
        "TensorFlow": "not installed",
        "built for TensorFlow": (info and info.tensorflow) or "none",
        "compiler": info.compiler if info else "not built",
    }
    errors = [*_native(facts), *_tensorflow(facts)]
    facts["CUDA"] = (info and info.cuda) or "not built"
    if info and info.cuda and "instruction set in use" in facts:
        from fused_rnn import cuda

        facts["GPU"] = cuda.describe()
    if errors:
        facts["error"] = "\n".join(errors)
    return facts


def _native(facts) -> list[str]:
    """Adds what the core says of the processor; returns errors."""
    try:
        from fused_rnn import _core
    except ImportError as error:
        return [f"the NumPy module does not load: {error}"]
    facts["instruction sets compiled"] = ", ".join(_core.compiled_isas())
    facts["instruction sets supported"] = ", ".join(_core.supported_isas())
    facts["instruction set in use"] = _core.active_isa()
    facts["threads of fused_rnn.numpy"] = _core.get_num_threads()
    return [error for error in [_core.isa_error()] if error]


def _tensorflow(facts) -> list[str]:
    """Adds what runs in TensorFlow; returns errors."""
    if not _library.tensorflow_installed():
        return []
    if _library.left_alone():
        facts["TensorFlow"] = f"left alone ({_library.NO_TENSORFLOW} is set)"
        return []
    # Its start-up log would drown the answer.
    with quiet_start():
        import tensorflow as tf

    facts["TensorFlow"] = tf.__version__
    # 0 means TensorFlow's default, the processors that this process may use.
    facts["threads of TensorFlow"] = (
        tf.config.threading.get_intra_op_parallelism_threads()
        or len(os.sched_getaffinity(0))
    )
    try:
        _library.load()
    except _library.LibraryError as error:
        facts["ops"] = "not loaded"
        return [str(error)]
    facts["ops"] = "loaded"
    return []
