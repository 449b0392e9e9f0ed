"""The inside of a worker: one library in a process that computes when told.

A worker is a program that calls ``serve``. Requests are lines of words, with
tabs between them, on standard input, replies lines of JSON on what was standard
output:

    prepare KEY FOLDER OUT MODE CONVENTION DTYPE CELL B T I H
        builds the computation of a case, runs it once and leaves what it
        computed in OUT
    run KEY SECONDS
        runs it for about so long; statistics of the time of one call
    peak KEY
        runs it once; the memory that this takes while it runs
    drop
        forgets every prepared computation

rivals/protocol.h is the same for programs in C++.
"""

import ctypes
import functools
import gc
import json
import math
import os
import pathlib
import signal
import sys
import time

import numpy as np

THREADS = int(os.environ.get("BENCHMARK_THREADS", "1"))
# Steps of a cell in one call, where they are chained: so many that the call
# of a tf.function, some 300 µs, is a small part of each.
CHAIN = 64
MAX_CALLS = 20_000  # Of one request: enough for a median, whatever the speed.


class Unsupported(Exception):
    """The library does not compute this case."""


def element_type(dtype):
    """NumPy's type of a name."""
    if dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)


def storage(dtype):
    """In which type files hold values: one that every language can read."""
    return np.dtype(np.float64 if dtype == "float64" else np.float32)


class Case:
    """Arrays of a case by name, read from its folder when asked for.

    mode: "inference", "training" or what else a program knows. cell: "gru",
    "lstm" or "rnn". convention: of a GRU "after" or "before", where the reset
    gate acts; of another cell its name. dtype: in which to compute; arrays are
    storage(dtype).
    """

    def __init__(self, folder, mode, convention, dtype, cell, batch, steps,
                 inputs, units):
        self.dtype = dtype
        self.cell = cell
        self.folder = pathlib.Path(folder)
        self.mode = mode
        self.convention = convention
        self.batch, self.steps = batch, steps
        self.inputs, self.units = inputs, units
        self.shapes = json.loads((self.folder / "shapes.json").read_text())

    @property
    def reset_after(self):
        return self.convention == "after"

    @property
    def states(self):
        """Names of the first states."""
        return ("h0", "c0") if self.cell == "lstm" else ("h0",)

    @property
    def training(self):
        return self.mode.endswith("training")

    def __getattr__(self, name):
        if name == "bias":
            name = f"bias_{self.convention}"
        if name.startswith("_") or name not in self.shapes:
            raise AttributeError(name)
        path = self.folder / f"{name}.bin"
        dtype = np.bool_ if name == "mask" else storage(self.dtype)
        return np.fromfile(path, dtype).reshape(self.shapes[name])

    def has(self, name):
        return name in self.shapes

    def weights(self):
        return self.kernel, self.recurrent_kernel, self.bias

    @property
    def names(self):
        """Of arguments()."""
        return ("x", *self.states, "kernel", "recurrent_kernel", "bias")

    def arguments(self):
        """What is computed from: the inputs, the first states, the weights."""
        return tuple(getattr(self, name) for name in self.names)

    def function(self, module, suffix=""):
        """Of a module that computes all cells: its "gru" or "lstm_grad"."""
        name = {"rnn": "simple_rnn"}.get(self.cell, self.cell) + suffix
        found = getattr(module, name)
        if self.cell != "gru":
            return found
        return functools.partial(found, reset_after=self.reset_after)

    def named(self, outputs, states, gradients=()):
        """Results by the oracle's names.

        gradients: of arguments(), in its order, or none.
        """
        return {
            "outputs": outputs, **dict(zip(("state", "cell_state"), states)),
            **{f"d_{name}": gradient
               for name, gradient in zip(self.names, gradients)},
        }

    def require(self, *dtypes):
        """Raises Unsupported unless the type is one of these."""
        if self.dtype not in dtypes:
            raise Unsupported(f"computes {', '.join(dtypes)} only")


def time_major(array):
    return np.ascontiguousarray(np.swapaxes(array, 0, 1))


def statistics(times):
    """Of the seconds of single calls: their number, quartiles and minimum."""
    times = sorted(times)

    def quantile(q):
        position = q * (len(times) - 1)
        below = math.floor(position)
        above = min(below + 1, len(times) - 1)
        part = position - below
        return times[below] * (1 - part) + times[above] * part

    return {
        "calls": len(times), "min": times[0], "low": quantile(0.25),
        "median": quantile(0.5), "high": quantile(0.75),
    }


def measure(call, seconds, clock=time.perf_counter):
    """Times single calls for about so long, at least one.

    The first calls, one at least and a tenth of the time, are not counted: the
    caches are full of what other processes left there.
    """
    end_of_warm_up = clock() + seconds / 10
    call()
    while clock() < end_of_warm_up:
        call()
    times = []
    end = clock() + seconds
    before = clock()
    while True:
        call()
        after = clock()
        times.append(after - before)
        if after >= end or len(times) == MAX_CALLS:
            return statistics(times)
        before = clock()


def _status_bytes(name):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise Unsupported(f"the system does not tell {name}")


def peak_extra_bytes(call):
    """Memory beyond what the process holds before, at the call's peak.

    What the call returns lives until after the measurement, so it counts.
    """
    call()  # Whatever is made once and kept.
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    try:
        # Sets the peak to what is resident now.
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise Unsupported(f"the peak cannot be reset: {error}") from error
    before = _status_bytes("VmRSS")
    kept = call()
    peak = _status_bytes("VmHWM")
    del kept
    return peak - before


def _prepare(prepare, words):
    folder, out, *about, batch, steps, inputs, units = words
    case = Case(folder, *about, int(batch), int(steps), int(inputs), int(units))
    call, read = prepare(case)
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for name, array in read(call()).items():
        np.ascontiguousarray(array, storage(case.dtype)).tofile(out / f"{name}.bin")
    return call


def serve(load):
    """Answers requests until standard input ends.

    Args:
      load: imports the library; returns (versions, prepare). versions is a dict
        of strings. prepare takes a Case and returns (call, read): call() does
        the work of one step, with everything that a user would do once done
        before; read(call()) gives the results as a dict of arrays, named and
        laid out as fused_rnn.reference has them. It raises Unsupported for a
        case that the library has no computation for.
    """
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print is no reply.
    _end_with_parent()

    def reply(**values):
        replies.write(json.dumps(values) + "\n")
        replies.flush()

    try:
        versions, prepare = load()
    except Exception as error:
        reply(unavailable=_explain(error))
        return
    reply(versions=versions)
    calls = {}
    for line in sys.stdin:
        command, *words = line.rstrip("\n").split("\t")
        try:
            if command == "prepare":
                calls[words[0]] = _prepare(prepare, words[1:])
                reply()
            elif command == "run":
                reply(**measure(calls[words[0]], float(words[1])))
            elif command == "peak":
                reply(peak=peak_extra_bytes(calls[words[0]]))
            elif command == "drop":
                calls.clear()
                gc.collect()
                reply()
            else:
                reply(error=f"unknown request {command}")
        except Unsupported as error:
            reply(unsupported=str(error))
        except Exception as error:
            reply(error=_explain(error))


def _explain(error):
    # TensorFlow says what happened in the last line.
    lines = str(error).strip().splitlines() or [""]
    text = " … ".join(line.strip() for line in dict.fromkeys(
        (lines[0], lines[-1])
    ))
    return f"{type(error).__name__}: {text}"[:300]


def _end_with_parent():
    """A killed parent cannot wake a stopped worker: the system ends it."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    # It may have ended before it was asked for.
    parent = os.environ.get("BENCHMARK_PARENT")
    if parent and int(parent) != os.getppid():
        sys.exit("the parent has ended")
