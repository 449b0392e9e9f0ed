"""Processes that compute in turn, and stay behind for nobody.

Each library runs in a process of its own, since their thread pools disturb
each other, and is stopped except while it is its turn. All of them are out of
reach of the terminal's Ctrl-C: who started them ends them.
"""

import atexit
import functools
import json
import os
import pathlib
import selectors
import signal
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

PREPARE_SECONDS = 600  # XLA compiles for minutes on a busy machine.
START_SECONDS = 300


class WorkerFailed(Exception):
    """A worker ended, hung, or answered with an error."""


def call(command, *, threads=1):
    """What a short program prints, run to its end.

    Raises:
      WorkerFailed: it cannot start, or ends with an error.
    """
    try:
        process = subprocess.Popen(
            [str(word) for word in command], env=child_environment(threads),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )
    except OSError as error:
        raise WorkerFailed(str(error)) from error
    try:
        printed, errors = process.communicate()
    except BaseException:
        # A compiler is several processes.
        _signal(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if process.returncode:
        # A compiler says in its first error what is wrong, Python in its last.
        lines = errors.strip().splitlines() or [""]
        said = [line for line in lines if "error:" in line] or lines[-1:]
        raise WorkerFailed(f"{_ending(process.returncode)}: {said[0]}"[:300])
    return printed


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
        _signal(self.pid, signal.SIGCONT)
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
        _signal(self.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            try:
                stream.close()
            except BrokenPipeError:
                pass

    def _stop(self):
        """Returns when every thread of the worker stands still."""
        _signal(self.pid, signal.SIGSTOP)
        while self._process.poll() is None:
            if os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG):
                return
            time.sleep(0.0002)

    def _reply(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                _signal(self.pid, signal.SIGKILL)
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
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().split("\n")
        return f"{_ending(code)}: {lines[-1].strip()}"[:300].rstrip(": ")


def _signal(group, number):
    """To a process and all that it started."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def _ending(code):
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"ended with status {code}"


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
        # Who finds another one when it starts is an orphan.
        "BENCHMARK_PARENT": str(os.getpid()),
    }
