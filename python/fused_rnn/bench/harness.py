"""Processes that compute in turn, what their times mean, and how it is kept.

Each library runs in a process of its own, since their thread pools disturb
each other, and is stopped except while it is its turn. The turns of one round
follow each other within seconds, so that what disturbs the machine disturbs
everybody: times are compared within a round.
"""

import atexit
import datetime
import functools
import json
import math
import os
import pathlib
import platform
import random
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

SCHEMA = 1
PREPARE_SECONDS = 600  # XLA compiles for minutes on a busy machine.
START_SECONDS = 300


class WorkerFailed(Exception):
    """A worker ended, hung, or answered with an error."""


class Worker:
    """A process that answers the requests of worker.py.

    Raises:
      WorkerFailed: it cannot start, or the library cannot be loaded.
    """

    def __init__(self, command, *, threads, environment=None):
        available = sorted(os.sched_getaffinity(0))
        variables = child_environment(threads) | (environment or {})
        self._errors = tempfile.TemporaryFile()
        # Some libraries count processors and nothing else; what is started
        # inherits those that its parent may use.
        os.sched_setaffinity(0, available[:threads])
        try:
            self._process = subprocess.Popen(
                [str(word) for word in command], env=variables,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._errors, start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise WorkerFailed(str(error)) from error
        finally:
            os.sched_setaffinity(0, available)
        self.pid = self._process.pid
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._buffer = b""
        try:
            reply = self._reply(START_SECONDS)
            if "unavailable" in reply:
                raise WorkerFailed(reply["unavailable"])
            self.versions = reply["versions"]
            self._stop()
        except BaseException:
            self.close()
            raise

    def ask(self, *words, seconds=PREPARE_SECONDS):
        """Lets the worker run until it answered; returns the answer.

        Raises:
          WorkerFailed: it ended, or took longer than `seconds`.
        """
        if self._process.poll() is not None:
            raise WorkerFailed(self._last_words())
        self._signal(signal.SIGCONT)
        try:
            line = "\t".join(str(word) for word in words) + "\n"
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(self._last_words()) from None
        reply = self._reply(seconds)
        self._stop()
        return reply

    def close(self):
        """Ends the process and all that it started."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            try:
                stream.close()
            except BrokenPipeError:
                pass

    def _stop(self):
        """Returns when every thread of the worker stands still."""
        self._signal(signal.SIGSTOP)
        while self._process.poll() is None:
            if os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG):
                return
            time.sleep(0.0002)

    def _signal(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def _reply(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                self._signal(signal.SIGKILL)
                raise WorkerFailed(f"no answer within {seconds:.0f} s")
            if self._selector.select(left):
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    raise WorkerFailed(self._last_words())
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _last_words(self):
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            return "closed its output"
        reason = (
            f"ended by {signal.Signals(-code).name}" if code < 0
            else f"ended with status {code}"
        )
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().split("\n")
        return f"{reason}: {lines[-1].strip()}"[:300].rstrip(": ")


@functools.cache
def _package():
    """A folder with fused_rnn and nothing else.

    Its neighbours where it is installed are not for a rival's interpreter.
    """
    folder = tempfile.TemporaryDirectory(prefix="fused_rnn_package_")
    # Removed when the program ends.
    atexit.register(folder.cleanup)
    pathlib.Path(folder.name, "fused_rnn").symlink_to(HERE.parent)
    return folder.name


def child_environment(threads):
    """Variables of a process that finds fused_rnn.

    The usual libraries read from them how many threads to use. TensorFlow is
    left alone by fused_rnn except in workers that say otherwise.
    """
    names = (
        "BENCHMARK_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
    )
    return {
        **os.environ, **{name: str(threads) for name in names},
        "PYTHONPATH": _package(),
        "FUSED_RNN_NO_TENSORFLOW": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
        "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "",
    }


class Entry:
    """What is timed: a computation that a worker has prepared under a key.

    rounds: the median of a call in each round, in seconds; None where the
    worker failed.
    """

    def __init__(self, worker, key, **about):
        self.worker = worker
        self.key = key
        self.about = about
        self.rounds = []
        self.calls = 0
        self.failure = None

    def run(self, seconds):
        if self.failure is None:
            try:
                reply = self.worker.ask(
                    "run", self.key, seconds, seconds=60 * seconds + 300
                )
                if "median" not in reply:
                    raise WorkerFailed(reply.get("error", str(reply)))
                self.rounds.append(reply["median"])
                self.calls += reply["calls"]
                return
            except WorkerFailed as failure:
                self.failure = str(failure)
        self.rounds.append(None)

    def record(self):
        """What a file of results says of it."""
        times = summary(self.rounds) or {}
        return {
            **self.about, "calls": self.calls,
            **{name: significant(value) for name, value in times.items()},
            "rounds": [significant(time) for time in self.rounds],
        }


def interleave(entries, rounds, seconds, after_turn=lambda: None):
    """Runs every entry once a round, each round in another order.

    The order is shuffled, so that nobody always follows the same neighbour.
    """
    for number in range(rounds):
        order = list(entries)
        random.Random(number).shuffle(order)
        for entry in order:
            entry.run(seconds)
            after_turn()


def summary(rounds):
    """Median and quartiles over the rounds that succeeded, or None."""
    times = sorted(value for value in rounds if value is not None)
    if not times:
        return None
    if len(times) == 1:
        return {"median": times[0], "low": times[0], "high": times[0]}
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def ratio(numerator, denominator):
    """The median over rounds of a quotient of times of the same round.

    None if they have no round in common.
    """
    quotients = [
        a / b for a, b in zip(numerator, denominator)
        if a is not None and b is not None
    ]
    return statistics.median(quotients) if quotients else None


def geometric_mean(values):
    """None of nothing."""
    values = list(values)
    if not values:
        return None
    return math.exp(statistics.fmean(math.log(value) for value in values))


def machine():
    """What the times depend on, without names of hosts or users."""
    model, flags = platform.machine(), []
    for line in _lines("/proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            model = value.strip()
        elif name.strip() == "flags":
            flags = value.split()
    known = (
        "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16",
        "avx512_fp16", "amx_tile",
    )
    caches = {}
    for index in sorted(
        pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")
    ):
        level, kind, size = (
            (index / name).read_text().strip()
            for name in ("level", "type", "size")
        )
        if kind != "Instruction":
            caches[f"L{level}"] = size
    memory = [line.split()[1] for line in _lines("/proc/meminfo")
              if line.startswith("MemTotal:")]
    return {
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "instruction sets": [flag for flag in known if flag in flags],
        "caches": caches,
        "memory GiB": round(int(memory[0]) / 2**20) if memory else None,
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
    }


def _lines(path):
    try:
        return pathlib.Path(path).read_text().splitlines()
    except OSError:
        return []


def start_record(**settings):
    """The part of a result file that says what was run, where and when."""
    return {
        "schema": SCHEMA, "started": _now(), "machine": machine(),
        "settings": settings, "versions": {}, "results": [],
        "interrupted": False,
    }


def finish_record(record):
    record["finished"] = _now()
    record["load average"] = round(os.getloadavg()[0], 2)


def _now():
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.isoformat(timespec="seconds")


def save(path, section, record):
    """Puts a record into a file of results beside the sections it has."""
    path = pathlib.Path(path)
    records = json.loads(path.read_text()) if path.exists() else {}
    records[section] = record
    records = dict(sorted(records.items()))
    # A reader never sees half a file.
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(records, indent=1) + "\n")
    temporary.replace(path)


def significant(value, digits=5):
    """A time or ratio with so many digits: results stay readable."""
    return None if value is None else float(f"{value:.{digits}g}")


def interrupt_on_terminate():
    """Ends on SIGTERM as on Ctrl-C, workers included."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
