"""The workers of a benchmark by name, and the computations that they time."""

import dataclasses
import shutil
import sys

from fused_rnn.bench import (
    cases, harness, interpreters, processes, tables,
)

PROGRAMS_FOLDER = processes.HERE / "rivals"


@dataclasses.dataclass(frozen=True)
class Program:
    """How to start a worker.

    file: in rivals/. arguments: of the program. own: whether it runs in this
    interpreter, which has TensorFlow, or in one of the rivals'; module: what
    that must have. header, library: what a C++ program needs. environment:
    variables beside the usual.
    """

    file: str
    arguments: tuple = ()
    own: bool = False
    module: str = ""
    header: str = ""
    library: str = ""
    environment: dict = dataclasses.field(default_factory=dict)


class Fleet:
    """Workers by name, started when first asked for.

    pythons: the interpreters of the rivals that are not on TensorFlow. A worker
    that cannot start is not tried again; one that crashed is, for the next
    case. failures: why, by name.
    """

    def __init__(self, programs, threads, pythons, folder):
        self._programs = programs
        self._threads = threads
        self._interpreters = interpreters.Interpreters(pythons)
        self._folder = folder
        self._workers = {}
        self.failures = {}
        self.versions = {}

    def get(self, name):
        """The worker.

        Raises:
          processes.WorkerFailed: it cannot be started.
        """
        if name in self.failures:
            raise processes.WorkerFailed(self.failures[name])
        if name not in self._workers:
            try:
                self._workers[name] = self._start(self._programs[name])
            except processes.WorkerFailed as failure:
                self.failures[name] = str(failure)
                raise
            self.versions[name] = self._workers[name].versions
        return self._workers[name]

    def _start(self, program):
        environment = dict(program.environment)
        source = PROGRAMS_FOLDER / program.file
        if program.library:
            binary, variables = interpreters.compile_program(
                program, source, self._interpreters.prefixes(), self._folder
            )
            environment |= variables
            command = [binary]
        elif program.own:
            command = [sys.executable, source]
        else:
            python = self._interpreters.with_module(program.module)
            command = [python, source]
        return processes.Worker(
            [*command, *program.arguments], threads=self._threads,
            environment=environment,
        )

    def discard(self, name):
        if name in self._workers:
            self._workers.pop(name).close()

    def drop(self):
        """Lets every worker forget its cases."""
        for name, worker in list(self._workers.items()):
            try:
                worker.ask("drop")
            except processes.WorkerFailed:
                self.discard(name)

    def close(self):
        for name in list(self._workers):
            self.discard(name)


@dataclasses.dataclass(frozen=True)
class Job:
    """A computation to be prepared by one worker, checked, and timed.

    about: what else its record says.
    """

    fleet: Fleet
    name: str
    case: object
    mode: str
    convention: str
    checked: bool = True
    about: dict = dataclasses.field(default_factory=dict)

    def record(self):
        return dict(
            self.about, name=self.name, shape=list(self.case.shape),
            mode=self.mode, convention=self.convention, status="ok",
        )

    def prepare(self, key, folder):
        """Builds and checks it.

        Returns:
          (entry, about): an Entry to be timed or None, and what the record says
          already; about is None where the library has no such computation.
        """
        about = self.record()
        out = folder / f"results-{self.name}"
        try:
            worker = self.fleet.get(self.name)
            reply = worker.ask(
                "prepare", key, self.case.folder, out,
                *self.case.words(self.mode, self.convention),
            )
            if "unsupported" in reply:
                return None, None
            if reply:
                raise processes.WorkerFailed(reply["error"])
            if self.checked:
                about |= self._check(out)
        except processes.WorkerFailed as failure:
            about["status"] = str(failure)
            self.fleet.discard(self.name)
            return None, about
        except ValueError as difference:
            about["status"] = f"computes something else: {difference}"
            return None, about
        finally:
            shutil.rmtree(out, ignore_errors=True)
        return harness.Entry(worker, key, **about), about

    def _check(self, out):
        """What the record says of the errors; ValueError if they are large."""
        expected = self.case.expected(self.mode, self.convention)
        found = cases.results(out, expected, self.case.dtype)
        error = cases.relative_error(found, expected)
        if error > self.case.tolerance():
            raise ValueError(
                f"relative error {error:.2g}, allowed"
                f" {self.case.tolerance():.2g}"
            )
        return {
            "error": harness.significant(error, 2),
            "ulp": cases.errors_in_ulp(found, expected, self.case.dtype),
        }


def measure(jobs, pace, label, folder, record):
    """Prepares jobs and times them in turn; adds to the record.

    The jobs are the next block of the pace. What was timed before an
    interruption is added too. Afterwards every worker has forgotten its
    computations.
    """
    entries = []
    pace.begin(label)
    try:
        for number, job in enumerate(jobs):
            pace.preparing(tables.TITLES.get(job.name, job.name))
            entry, about = job.prepare(number, folder)
            if entry:
                entries.append((job, entry))
            elif about:
                record["results"].append(about)
            pace.prepared()
        harness.interleave([entry for _, entry in entries], pace)
    finally:
        for job, entry in entries:
            if entry.failure:
                entry.about["status"] = entry.failure
                job.fleet.discard(job.name)
            record["results"].append(entry.record())
    for fleet in {id(job.fleet): job.fleet for job in jobs}.values():
        fleet.drop()
