"""What the machine does at most, measured: the roofline of the plots.

    python -m fused_rnn.bench.limits THREADS

prints it as JSON. In a process of its own, so that no library's idle threads
are beside it.
"""

import json
import sys

from fused_rnn.bench import harness, processes

# Bytes that each thread reads: from the first-level cache to memory.
SIZES = tuple(2**exponent for exponent in range(13, 28))
SECONDS = 0.1  # Of each measurement.


def probe(threads):
    """Operations and bytes a second of so many threads, or None.

    None where the NumPy module, which holds the probe, does not load.
    """
    try:
        return json.loads(processes.call(
            [sys.executable, "-m", __name__, threads], threads=threads
        ))
    except processes.WorkerFailed:
        return None


def _measure(threads):
    from fused_rnn import _core

    def rate(measure, *arguments):
        return harness.significant(measure(*arguments, threads, SECONDS), 4)

    return {
        "threads": threads, "instruction set": _core.active_isa(),
        "operations": rate(_core.probe_multiply_adds),
        "bytes": [[size, rate(_core.probe_reads, size)] for size in SIZES],
    }


def bandwidth(limits, size):
    """Bytes a second of all threads when each reads `size` bytes of its own.

    Between two sizes that were measured, that of the larger: it is no more.
    """
    for measured, rate in limits["bytes"]:
        if size <= measured:
            return rate
    return limits["bytes"][-1][1]


def step_seconds(limits, batch, inputs, units, training=False, itemsize=4,
                 gates=3):
    """The least time of a step, as far as products and weights decide.

    The multiply-adds of both products at the measured rate, or the recurrent
    weights read once at the bandwidth of each thread's share of them, whichever
    takes longer. A training step has three times the products and reads the
    weights twice.
    """
    operations = 2 * batch * gates * units * (inputs + units)
    weights = itemsize * gates * units * units
    share = weights / limits["threads"]
    # Of doubles a vector holds half as many.
    compute = operations / (limits["operations"] * 4 / itemsize)
    reading = weights / bandwidth(limits, share)
    return max(3 * compute, 2 * reading) if training else max(compute, reading)


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
