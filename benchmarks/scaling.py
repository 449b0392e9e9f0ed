"""How the sequence op scales: with length, padding, threads, and memory.

    python benchmarks/scaling.py --json results.json

All of it is the GRU of fused_rnn alone, float32: time against the number of
steps; a batch padded to twice its length against the same without padding; one
thread against two; reset before against reset after; two ops that may run side
by side against one after the other; the memory of a step at its peak.
"""

import dataclasses
import sys

import checkout  # noqa: F401
from fused_rnn.bench import (
    cases, command, fleet, harness, processes, tables,
)

PROGRAMS = {
    "ours": fleet.Program("numpy_rnn.py", own=True),
    "ours-tf": fleet.Program("tensorflow_rnn.py", own=True),
}
# What is freed must go back to the system at once, or a step would find it there
# and seem to need less: glibc keeps what is below a threshold that grows unless
# it is set, and TensorFlow's allocator for oneDNN, of which no op is measured
# here, keeps everything.
MEMORY_PROGRAMS = {
    name: dataclasses.replace(program, environment={
        "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536",
        "TF_ENABLE_ONEDNN_OPTS": "0",
    })
    for name, program in PROGRAMS.items()
}
CONVENTIONS = cases.CONVENTIONS["gru"]
LENGTHS = (1, 10, 100, 1000, 10_000)
LENGTH_SIZES = ((1, 64, 64), (32, 64, 64))  # B, I, H
PADDED_SHAPES = (
    (1, 100, 40, 128), (16, 100, 128, 256), (32, 1000, 64, 64),
    (64, 50, 512, 512),
)
BRANCH_SHAPES = (
    (1, 1, 128, 256), (1, 100, 256, 512), (16, 100, 128, 256),
    (64, 50, 512, 512),
)
BRANCH_MODES = ("parallel", "sequential")
# I = H, so that a sequence of inputs is as large as one of outputs.
MEMORY_SHAPES = ((32, 100, 256, 256), (32, 1000, 256, 256))


class Bench:
    """Workers with one thread and with all, and the folder of the cases."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.threads = options.threads
        self.fleets = {
            threads: fleet.Fleet(PROGRAMS, threads, [sys.executable], folder)
            for threads in {1, options.threads}
        }
        self.memory_fleet = fleet.Fleet(
            MEMORY_PROGRAMS, options.threads, [sys.executable], folder
        )
        self._cases = 0

    def case(self, shape, **options):
        # Folders of their own: workers read them when they prepare.
        self._cases += 1
        return cases.SequenceCase(
            self.folder / f"case{self._cases}", shape, **options
        )

    def job(self, subject, case, mode, convention="after", name="ours",
            threads=None, workers=None, **about):
        threads = threads or self.threads
        return fleet.Job(
            workers or self.fleets[threads], name, case, mode, convention,
            checked=mode in cases.MODES,
            about=dict(about, subject=subject, threads=threads),
        )

    @property
    def versions(self):
        found = {}
        for workers in (*self.fleets.values(), self.memory_fleet):
            found.update(workers.versions)
        return found

    def close(self):
        for workers in (*self.fleets.values(), self.memory_fleet):
            workers.close()


class Outline:
    """Stands in for a Bench where only the number of its jobs is asked for."""

    def __init__(self, fleets):
        self.fleets = fleets

    def case(self, *_, **__):
        pass

    job = case


# ---- What is timed together, subject by subject.


def length(bench):
    for batch, inputs, units in LENGTH_SIZES:
        for mode in cases.MODES:
            yield [
                bench.job("length", bench.case((batch, steps, inputs, units)),
                          mode)
                for steps in LENGTHS
            ]


def padding(bench):
    for shape in PADDED_SHAPES:
        batch, steps, *sizes = shape
        padded = (batch, 2 * steps, *sizes)
        for mode in cases.MODES:
            yield [
                bench.job("padding", bench.case(shape), mode, valid=steps),
                bench.job("padding", bench.case(padded, valid_steps=steps),
                          mode, valid=steps),
            ]


def threads(bench):
    for shape in cases.SHAPES:
        for mode in cases.MODES:
            case = bench.case(shape)
            yield [
                bench.job("threads", case, mode, convention, threads=number)
                for number in bench.fleets for convention in CONVENTIONS
            ]


def branches(bench):
    for shape in BRANCH_SHAPES:
        case = bench.case(shape)
        yield [
            bench.job("branches", case, mode, name="ours-tf")
            for mode in BRANCH_MODES
        ]


TIMED = {
    "length": length, "padding": padding, "threads": threads,
    "branches": branches,
}
SUBJECTS = (*TIMED, "memory")


def measure_memory(bench, record, progress):
    """Not timed: the peak of one call each."""
    for shape in MEMORY_SHAPES:
        case = bench.case(shape)
        for name in PROGRAMS:
            for mode in cases.MODES:
                for convention in CONVENTIONS:
                    progress(f"memory: {name} {shape} {mode}")
                    job = bench.job(
                        "memory", case, mode, convention, name,
                        workers=bench.memory_fleet,
                    )
                    entry, about = job.prepare("memory", bench.folder)
                    if entry:
                        about |= _peak(entry)
                    record["results"].append(about)
                    job.fleet.drop()


def _peak(entry):
    try:
        reply = entry.worker.ask("peak", entry.key)
    except processes.WorkerFailed as failure:
        return {"status": str(failure)}
    if "peak" in reply:
        return reply
    return {"status": reply.get("unsupported") or reply["error"]}


def run(options, record):
    with command.measuring(record) as (progress, folder):
        bench = Bench(options, folder)
        try:
            timed = [s for s in options.subjects if s in TIMED]
            pace = command.pace_of(options, progress, [
                len(jobs) for subject in timed
                for jobs in TIMED[subject](Outline(bench.fleets))
            ])
            for subject in timed:
                for jobs in TIMED[subject](bench):
                    label = f"{subject} {tables.sizes(jobs[0].case.shape)}"
                    fleet.measure(jobs, pace, label, bench.folder, record)
                progress.finished(subject)
            if "memory" in options.subjects:
                measure_memory(bench, record, progress.show)
                progress.finished("memory")
        finally:
            bench.close()
            record["versions"] |= bench.versions


# ---- Tables.


def find(record, subject, **wanted):
    """The rounds of a result, or None."""
    for result in record["results"]:
        if result["subject"] == subject and result.get("rounds") and all(
            result.get(name) == value for name, value in wanted.items()
        ):
            return result["rounds"]
    return None


def quotient(numerator, denominator):
    return harness.ratio(numerator, denominator) if (
        numerator and denominator) else None


def length_table(record):
    rows = []
    for batch, inputs, units in LENGTH_SIZES:
        for steps in LENGTHS:
            shape = (batch, steps, inputs, units)
            row = [tables.sizes(shape)]
            for mode in cases.MODES:
                rounds = find(record, "length", shape=list(shape), mode=mode)
                row.append(tables.microseconds(
                    rounds and [t and t / steps for t in rounds]
                ))
            rows.append(row)
    return tables.table(
        ["(B,T,I,H)", *(f"{mode}, µs a step" for mode in cases.MODES)], rows
    )


def padding_table(record):
    rows = []
    for shape in PADDED_SHAPES:
        batch, steps, *sizes = shape
        row = [tables.sizes(shape)]
        for mode in cases.MODES:
            plain, padded = (
                find(record, "padding", shape=[batch, total, *sizes],
                     mode=mode, valid=steps)
                for total in (steps, 2 * steps)
            )
            row += [tables.microseconds(plain),
                    tables.number(quotient(padded, plain))]
        rows.append(row)
    heads = ["(B,T,I,H)"]
    for mode in cases.MODES:
        heads += [f"{mode} µs", "padded to 2T, times as long"]
    return tables.table(heads, rows)


def threads_table(record):
    many = record["settings"]["threads"]
    rows = []
    for shape in cases.SHAPES:
        row = [tables.sizes(shape)]
        for mode in cases.MODES:
            for convention in CONVENTIONS:
                one, all_ = (
                    find(record, "threads", shape=list(shape), mode=mode,
                         convention=convention, threads=number)
                    for number in (1, many)
                )
                row.append(tables.number(quotient(one, all_)))
        rows.append(row)
    heads = [f"{many} threads, times faster than 1: (B,T,I,H)"] + [
        f"{mode}, {tables.CONVENTIONS[convention]}"
        for mode in cases.MODES for convention in CONVENTIONS
    ]
    return tables.table(heads, rows)


def conventions_table(record):
    numbers = sorted({1, record["settings"]["threads"]})
    rows = []
    for shape in cases.SHAPES:
        row = [tables.sizes(shape)]
        for mode in cases.MODES:
            for number in numbers:
                before, after = (
                    find(record, "threads", shape=list(shape), mode=mode,
                         convention=convention, threads=number)
                    for convention in ("before", "after")
                )
                row.append(tables.number(quotient(before, after)))
        rows.append(row)
    heads = ["reset before, times as long as after: (B,T,I,H)"] + [
        f"{mode}, threads: {number}"
        for mode in cases.MODES for number in numbers
    ]
    return tables.table(heads, rows)


def branches_table(record):
    rows = []
    for shape in BRANCH_SHAPES:
        parallel, sequential = (
            find(record, "branches", shape=list(shape), mode=mode)
            for mode in BRANCH_MODES
        )
        rows.append([
            tables.sizes(shape), tables.microseconds(parallel),
            tables.microseconds(sequential),
            tables.number(quotient(parallel, sequential)),
        ])
    return tables.table(
        ["(B,T,I,H)", "two branches µs", "one after the other µs",
         "times as long"], rows,
    )


def memory_table(record):
    mebi = 2**20
    rows = []
    for result in record["results"]:
        if result["subject"] != "memory" or "peak" not in result:
            continue
        batch, steps, _, units = result["shape"]
        sequence = 4 * batch * steps * units
        values = 4 if result["convention"] == "after" else 3
        allowed = sequence
        if result["mode"] == "training":
            allowed = (values + 2) * sequence
        rows.append([
            tables.TITLES[result["name"]], tables.sizes(result["shape"]),
            result["mode"], tables.CONVENTIONS[result["convention"]],
            tables.number(result["peak"] / mebi, 1),
            tables.number(allowed / mebi, 1),
        ])
    return tables.table(
        ["", "(B,T,I,H)", "", "", "peak MiB",
         "outputs, or reserve and two sequences, MiB"], rows,
    )


TABLES = {
    "length": length_table, "padding": padding_table,
    "threads": threads_table, "conventions": conventions_table,
    "branches": branches_table, "memory": memory_table,
}


def page(record, subject):
    """One table, with what it lacks and where it was measured."""
    measured = "threads" if subject == "conventions" else subject
    problems = dict.fromkeys(
        f"- {tables.sizes(result['shape'])} {result['mode']}:"
        f" {result['status']}"
        for result in record["results"]
        if result["subject"] == measured and result["status"] != "ok"
    )
    parts = [TABLES[subject](record), "\n".join(problems),
             tables.where(record)]
    return "\n\n".join(part for part in parts if part) + "\n"


def main(arguments=None):
    parser = command.parser(__doc__.split("\n")[0], rounds=11, budget=0.2)
    parser.add_argument("--subjects", nargs="+", choices=SUBJECTS,
                        default=SUBJECTS)
    options = command.parse(parser, arguments)
    record = command.run(
        options, "scaling", lambda record: run(options, record)
    )
    for subject in TABLES:
        if subject in options.subjects or (
            subject == "conventions" and "threads" in options.subjects
        ):
            print(f"{subject}\n\n{page(record, subject)}")
    return command.exit_code(record)


if __name__ == "__main__":
    sys.exit(main())
