"""The core's leaf kernels against the limits of the processor.

    cmake -S . -B build -DFUSED_RNN_BENCHMARKS=ON
    cmake --build build --target core_benchmark
    python benchmarks/core.py build/core_benchmark --json results.json

core.cc says what is measured; this keeps it with the machine and the date.
"""

import argparse
import json
import sys

import checkout  # noqa: F401
from fused_rnn.bench import harness, processes, summary


def measure(program, seconds):
    """The record of a run.

    Raises:
      processes.WorkerFailed: the program failed.
    """
    record = harness.start_record(
        threads=1, dtype="float32", **{"seconds of each": seconds}
    )
    found = json.loads(processes.call([program, seconds]))
    record["versions"]["core"] = {
        "fused_rnn instruction set": found.pop("instruction set")
    }
    record |= found
    harness.finish_record(record)
    return record


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="core_benchmark, built with CMake")
    parser.add_argument("--seconds", type=float, default=0.1,
                        help="of each measurement")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    record = measure(options.program, options.seconds)
    if options.json:
        harness.save(options.json, "core", record)
    print(summary.core(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
