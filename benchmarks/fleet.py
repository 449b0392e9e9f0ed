"""The workers of a benchmark by name, and the computations that they time."""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

import cases
import harness

PROGRAMS_FOLDER = harness.HERE / "rivals"


@dataclasses.dataclass(frozen=True)
class Program:
    """How to start a worker.

    file: in rivals/. arguments: of the program. own: whether it runs in this
    interpreter, which has TensorFlow, or in that of the rivals. header,
    library: what a C++ program needs. environment: variables beside the usual.
    """

    file: str
    arguments: tuple = ()
    own: bool = False
    header: str = ""
    library: str = ""
    environment: dict = dataclasses.field(default_factory=dict)


def compile_program(program, prefixes, folder):
    """Compiles a C++ program; returns its path and its environment.

    Raises:
      harness.WorkerFailed: its library, or a compiler, is not there.
    """
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    for prefix in prefixes:
        libraries = sorted(
            library
            for part in ("lib", "lib64", "lib/x86_64-linux-gnu")
            for library in pathlib.Path(prefix, part).glob(program.library)
        )
        if libraries and pathlib.Path(prefix, "include", program.header).exists():
            break
    else:
        raise harness.WorkerFailed(f"no {program.header} with its library")
    binary = folder / pathlib.Path(program.file).stem
    if not binary.exists():
        command = [
            *compiler.split(), "-std=c++17", "-O2",
            f"-I{pathlib.Path(prefix, 'include')}",
            str(PROGRAMS_FOLDER / program.file), "-o", str(binary),
            # The library's own dependencies are found when it is loaded.
            str(libraries[0]), "-Wl,--allow-shlib-undefined",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            raise harness.WorkerFailed(str(error)) from error
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "rror" in line]
            raise harness.WorkerFailed(f"not compiled: {' '.join(lines[:1])}")
    beside = libraries[0].parent
    environment = {"LD_LIBRARY_PATH": str(beside)}
    # A oneDNN that was built on SYCL takes its processor from OpenCL.
    if (beside / "libintelocl.so").exists():
        environment["OCL_ICD_FILENAMES"] = str(beside / "libintelocl.so")
    return binary, environment


class Fleet:
    """Workers by name, started when first asked for.

    One that cannot start is not tried again; one that crashed is, for the next
    case. failures: why, by name.
    """

    def __init__(self, programs, threads, python, folder):
        self._programs = programs
        self._threads = threads
        self._python = python
        self._folder = folder
        self._workers = {}
        self.failures = {}
        self.versions = {}

    def get(self, name):
        """The worker.

        Raises:
          harness.WorkerFailed: it cannot be started.
        """
        if name in self.failures:
            raise harness.WorkerFailed(self.failures[name])
        if name not in self._workers:
            try:
                self._workers[name] = self._start(self._programs[name])
            except harness.WorkerFailed as failure:
                self.failures[name] = str(failure)
                raise
            self.versions[name] = self._workers[name].versions
        return self._workers[name]

    def _start(self, program):
        environment = dict(program.environment)
        if program.library:
            prefixes = [prefix_of(self._python), "/usr", "/usr/local"]
            binary, variables = compile_program(
                program, prefixes, self._folder
            )
            environment |= variables
            command = [binary]
        else:
            python = sys.executable if program.own else self._python
            command = [python, PROGRAMS_FOLDER / program.file]
        return harness.Worker(
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
            except harness.WorkerFailed:
                self.discard(name)

    def close(self):
        for name in list(self._workers):
            self.discard(name)


def prefix_of(python):
    """Where an interpreter's environment keeps headers and libraries."""
    try:
        return subprocess.run(
            [python, "-c", "import sys; print(sys.prefix)"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise harness.WorkerFailed(str(error)) from error


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
                raise harness.WorkerFailed(reply["error"])
            if self.checked:
                about["error"] = self._check(out)
        except harness.WorkerFailed as failure:
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
        expected = self.case.expected(self.mode, self.convention)
        error = cases.error_of_results(out, expected)
        if error > self.case.tolerance():
            raise ValueError(
                f"relative error {error:.2g}, allowed"
                f" {self.case.tolerance():.2g}"
            )
        return harness.significant(error, 2)


def measure(jobs, rounds, seconds, folder, record, progress=lambda text: None):
    """Prepares jobs and times them in turn; adds to the record.

    What was timed before an interruption is added too. Afterwards every worker
    has forgotten its computations.
    """
    entries = []
    try:
        for number, job in enumerate(jobs):
            progress(f"prepares {job.name}")
            entry, about = job.prepare(number, folder)
            if entry:
                entries.append((job, entry))
            elif about:
                record["results"].append(about)
        harness.interleave(
            [entry for _, entry in entries], rounds, seconds,
            lambda: progress("runs"),
        )
    finally:
        for job, entry in entries:
            if entry.failure:
                entry.about["status"] = entry.failure
                job.fleet.discard(job.name)
            record["results"].append(entry.record())
    for fleet in {id(job.fleet): job.fleet for job in jobs}.values():
        fleet.drop()
