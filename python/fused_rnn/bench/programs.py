"""Whom a sequence is compared with, and the course of a comparison."""

import sys

from fused_rnn.bench import cases, fleet, tables

# To call MKL for the products of a step.
WAYS = ("plain", "packed", "vector")

_ONEDNN = dict(header="oneapi/dnnl/dnnl.hpp", library="libdnnl.so*")
PROGRAMS = {
    "bare": fleet.Program(
        "bare_products.cc", header="mkl.h", library="libmkl_rt.so*"
    ),
    "ours": fleet.Program("numpy_rnn.py", own=True),
    "ours-stream": fleet.Program("numpy_rnn.py", ("stream",), own=True),
    "ours-tf": fleet.Program("tensorflow_rnn.py", own=True),
    "onednn": fleet.Program("onednn_rnn.cc", ("packed",), **_ONEDNN),
    "onednn-plain": fleet.Program("onednn_rnn.cc", ("plain",), **_ONEDNN),
    "onnxruntime": fleet.Program("onnxruntime_rnn.py", module="onnxruntime"),
    "openvino": fleet.Program("openvino_rnn.py", module="openvino"),
    "torch": fleet.Program("torch_rnn.py", module="torch"),
    "jax": fleet.Program("jax_rnn.py", module="jax"),
    "keras-jax": fleet.Program("keras_jax_rnn.py", module="jax"),
    "keras-torch": fleet.Program("keras_torch_rnn.py", module="torch"),
    "keras": fleet.Program("keras_rnn.py", own=True),
    "keras-jit": fleet.Program("keras_rnn.py", ("jit",), own=True),
    "keras-unroll": fleet.Program("keras_rnn.py", ("unroll",), own=True),
    "tf-block": fleet.Program("block_rnn.py", own=True),
}


def select(only, without=()):
    """Programs by name; "keras" also selects "keras-jit" and so on.

    Raises:
      ValueError: there is no program of a name.
    """
    def among(name, names):
        return any(name == n or name.startswith(n + "-") for n in names)

    named = [*(only or ()), *(without or ())]
    unknown = [
        n for n in named if not any(among(name, [n]) for name in PROGRAMS)
    ]
    if unknown:
        raise ValueError(
            f"unknown: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}"
        )
    return {
        name: program for name, program in PROGRAMS.items()
        if (not only or among(name, only)) and not among(name, without or ())
    }


def add_options(known, conventions=cases.CONVENTIONS["gru"]):
    """What is compared, of whom, and where they are installed."""
    add = known.add_argument
    add("--cell", choices=cases.CONVENTIONS, default="gru",
        help="the recurrence")
    add("--conventions", "--convention", nargs="+",
        choices=cases.CONVENTIONS["gru"], help="of a GRU, where the reset gate"
        f" acts (default: {' '.join(conventions)})")
    known.set_defaults(default_conventions=conventions)
    add("--modes", "--mode", nargs="+", choices=cases.MODES,
        default=cases.MODES, help="what is timed")
    add("--only", type=lambda text: text.split(","), metavar="NAME,...",
        help=f"of {', '.join(PROGRAMS)}; a name stands for its variants too")
    add("--without", type=lambda text: text.split(","), metavar="NAME,...",
        help="all but these, of which some take long to compile")
    add("--dtype", choices=tuple(cases.EPSILONS), default="float32",
        help="of weights, inputs and states")
    add("--python", action="append", metavar="FILE",
        help="an interpreter that has rivals which do not run on TensorFlow;"
        " may be given several times; this one unless given")


def settle(options):
    """Checks what belongs together in the options, and completes them.

    Raises:
      ValueError: a sentence for the user.
    """
    if options.cell == "gru":
        options.conventions = options.conventions or options.default_conventions
    elif options.conventions:
        raise ValueError(
            f"--conventions are a GRU's, got --cell {options.cell}"
        )
    else:
        options.conventions = cases.CONVENTIONS[options.cell]


def jobs_of(workers, programs, case, mode, conventions, **about):
    """What is timed together: one shape and mode, everybody."""
    return [
        fleet.Job(workers, name, case, mode, convention, name != "bare", about)
        for name in programs
        for convention in (WAYS if name == "bare" else conventions)
    ]


def blocks(options, programs):
    """How many jobs each block of run() has."""
    jobs = len(jobs_of(None, programs, None, None, options.conventions))
    return [jobs] * (len(options.shapes) * len(options.modes))


def run(options, programs, record, threads, pace, progress, folder, about=None):
    """Measures everything that the options ask for, into the record.

    about: what else every result says.
    """
    workers = fleet.Fleet(
        programs, threads, options.python or [sys.executable], folder
    )
    try:
        for shape in options.shapes:
            case = cases.SequenceCase(
                folder / "case", shape, cell=options.cell, dtype=options.dtype
            )
            for mode in options.modes:
                label = f"{tables.sizes(shape)} {mode}"
                fleet.measure(
                    jobs_of(workers, programs, case, mode, options.conventions,
                            **(about or {})),
                    pace, label, folder, record,
                )
                progress.finished(label)
    finally:
        workers.close()
        record["versions"] |= workers.versions
