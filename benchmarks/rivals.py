"""The GRU of fused_rnn against every other that a user could pick.

    python benchmarks/rivals.py --python rivals/bin/python --json results.json

Each library computes in a process of its own, only when its turn comes, the
same forward pass or forward pass with all gradients from the same arrays.
What it computes is compared with fused_rnn.reference first; who computes
something else is not timed. Times are medians of interleaved rounds; the unit
of the tables is the time of the bare matrix products, by MKL.
"""

import pathlib
import sys
import tempfile

import cases
import command
import fleet
import report

# To call MKL for the products of a step.
WAYS = ("plain", "packed", "vector")


_ONEDNN = dict(header="oneapi/dnnl/dnnl.hpp", library="libdnnl.so*")
PROGRAMS = {
    "bare": fleet.Program(
        "bare_products.cc", header="mkl.h", library="libmkl_rt.so*"
    ),
    "ours": fleet.Program("numpy_gru.py", own=True),
    "ours-stream": fleet.Program("numpy_gru.py", ("stream",), own=True),
    "ours-tf": fleet.Program("tensorflow_gru.py", own=True),
    "onednn": fleet.Program("onednn_gru.cc", ("packed",), **_ONEDNN),
    "onednn-plain": fleet.Program("onednn_gru.cc", ("plain",), **_ONEDNN),
    "onnxruntime": fleet.Program("onnxruntime_gru.py"),
    "openvino": fleet.Program("openvino_gru.py"),
    "torch": fleet.Program("torch_gru.py"),
    "jax": fleet.Program("jax_gru.py"),
    "keras-jax": fleet.Program("keras_jax_gru.py"),
    "keras": fleet.Program("keras_gru.py", own=True),
    "keras-jit": fleet.Program("keras_gru.py", ("jit",), own=True),
    "tf-block": fleet.Program("block_cell_gru.py", own=True),
}


def select(names):
    """Programs by name; "keras" also selects "keras-jit"."""
    if not names:
        return dict(PROGRAMS)
    chosen = {
        name: program for name, program in PROGRAMS.items()
        if any(name == n or name.startswith(n + "-") for n in names)
    }
    unknown = [
        n for n in names
        if not any(name == n or name.startswith(n + "-") for name in PROGRAMS)
    ]
    if unknown:
        raise ValueError(
            f"unknown: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}"
        )
    return chosen


def jobs_of(workers, programs, case, mode, conventions):
    """What is timed together: one shape and mode, everybody."""
    return [
        fleet.Job(workers, name, case, mode, convention, name != "bare")
        for name in programs
        for convention in (WAYS if name == "bare" else conventions)
    ]


def run(options, programs, record):
    """Measures everything that the options ask for, into the record."""
    blocks = [(shape, mode) for shape in options.shapes
              for mode in options.modes]
    with tempfile.TemporaryDirectory(prefix="fused_rnn_rivals_") as folder:
        folder = pathlib.Path(folder)
        workers = fleet.Fleet(
            programs, options.threads, options.python, folder
        )
        with command.measuring(workers, record) as progress:
            case = None
            for number, (shape, mode) in enumerate(blocks):
                if case is None or case.shape != shape:
                    case = cases.SequenceCase(folder / "case", shape)

                def show(text):
                    progress.show(
                        f"{shape} {mode} ({number + 1} of {len(blocks)}):"
                        f" {text}", number / len(blocks),
                    )

                fleet.measure(
                    jobs_of(workers, programs, case, mode,
                            options.conventions),
                    options.rounds, options.budget, folder, record, show,
                )
                progress.finished(f"{shape} {mode}")


def parse(arguments):
    parser = command.parser(__doc__.split("\n")[0], rounds=11, budget=0.1)
    add = parser.add_argument
    add("--shapes", "--shape", nargs="+", type=cases.parse_shape,
        default=cases.SHAPES, metavar="B,T,I,H")
    add("--modes", nargs="+", choices=cases.MODES, default=cases.MODES)
    add("--conventions", nargs="+", choices=cases.CONVENTIONS,
        default=cases.CONVENTIONS)
    add("--only", type=lambda text: text.split(","), metavar="NAME,...",
        help=f"of {', '.join(PROGRAMS)}; a name stands for its variants too")
    add("--python", default=sys.executable,
        help="the interpreter of the rivals that are not on TensorFlow")
    options = command.parse(parser, arguments)
    try:
        return options, select(options.only)
    except ValueError as error:
        parser.error(str(error))


def main(arguments=None):
    options, programs = parse(arguments)
    record = command.run(
        options, f"rivals-{options.threads}",
        lambda record: run(options, programs, record),
    )
    for mode in options.modes:
        print(report.rivals(record, mode))
    return command.exit_code(record)


if __name__ == "__main__":
    sys.exit(main())
