"""One step of the block cell against TensorFlow's own kernel for it.

    python benchmarks/cell.py --json results.json

A training step is the op and its gradient with the gradients of the weights, an
inference step the op alone, both inside tf.function, float32: one step a call,
and a chain of steps in one call, as an unrolled recurrence has them, where the
call itself is shared. TensorFlow's own kernels run in a process that does not
import fused_rnn, with the gradient of TensorFlow 1 in Python, since TensorFlow 2
has the kernel and no gradient.
"""

import itertools
import sys

import checkout  # noqa: F401
from fused_rnn.bench import cases, command, fleet, harness, tables, worker

# TensorFlow's own grid of this cell (B, I, H), and a small model that serves.
SHAPES = (
    *itertools.product((1, 32, 128), (128, 512), (128, 512)),
    (1, 40, 64),
)
PROGRAMS = {
    name: fleet.Program("cell_step.py", (name,), own=True)
    for name in ("ours", "tensorflow")
}
CONVENTION = "before"  # The only one that the block cell has.
# By the number of steps in a call.
MODES = {
    1: cases.MODES,
    worker.CHAIN: tuple(f"chained {mode}" for mode in cases.MODES),
}


def run(options, record):
    with command.measuring(record) as (progress, folder):
        workers = fleet.Fleet(
            PROGRAMS, options.threads, [sys.executable], folder
        )
        try:
            computed = [
                (name, mode) for name in PROGRAMS
                for modes in MODES.values() for mode in modes
            ]
            pace = command.pace_of(
                options, progress, [len(computed)] * len(options.shapes)
            )
            for shape in options.shapes:
                case = cases.CellCase(folder / "case", shape)
                jobs = [
                    fleet.Job(workers, name, case, mode, CONVENTION)
                    for name, mode in computed
                ]
                label = tables.sizes(shape)
                fleet.measure(jobs, pace, label, folder, record)
                progress.finished(label)
        finally:
            workers.close()
            record["versions"] |= workers.versions


def page(record):
    """The tables, the geometric means, and what went wrong, in Markdown."""
    times = tables.Times(record)
    parts = []
    for steps, modes in MODES.items():
        parts += _tables(times, steps, modes)
    parts += [
        *(tables.failures(times, mode) for modes in MODES.values()
          for mode in modes),
        tables.where(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _tables(times, steps, modes):
    """Of calls of so many steps: the times of a step, and the means."""
    rows, gains = [], {mode: [] for mode in modes}
    timed = [
        times.rounds(name, shape, mode, CONVENTION) for name in PROGRAMS
        for shape in times.shapes for mode in modes
    ]
    if not any(timed):
        return []
    for shape in times.shapes:
        row = [tables.sizes(shape)]
        for mode in modes:
            ours, theirs = (
                times.rounds(name, shape, mode, CONVENTION)
                for name in ("ours", "tensorflow")
            )
            gain = harness.ratio(theirs, ours) if ours and theirs else None
            if gain:
                gains[mode].append(gain)
            row += [
                *(tables.microseconds([call and call / steps for call in calls or ()])
                  for calls in (ours, theirs)),
                tables.number(gain),
            ]
        rows.append(row)
    heads = ["(B,I,H)"]
    for mode in modes:
        heads += [f"{mode}: fused_rnn µs", "TensorFlow µs", "times faster"]
    means = [
        f"{mode.capitalize()}: {tables.number(harness.geometric_mean(found))}"
        f" times faster in the geometric mean, {tables.number(min(found))} at"
        " least."
        for mode, found in gains.items() if found
    ]
    title = "One step a call:" if steps == 1 else (
        f"{steps} steps a call, the time of one:"
    )
    return [title, tables.table(heads, rows), "\n".join(means)]


def _shape(text):
    sizes = tuple(int(size) for size in text.split(","))
    if len(sizes) != 3 or min(sizes) < 1:
        raise ValueError(f"a shape is B,I,H, got {text!r}")
    return sizes


def main(arguments=None):
    parser = command.parser(__doc__.split("\n")[0], rounds=21, budget=0.2)
    parser.add_argument("--shapes", "--shape", nargs="+", type=_shape,
                        default=SHAPES, metavar="B,I,H")
    options = command.parse(parser, arguments)
    record = command.run(options, "cell", lambda record: run(options, record))
    print(page(record))
    return command.exit_code(record)


if __name__ == "__main__":
    sys.exit(main())
