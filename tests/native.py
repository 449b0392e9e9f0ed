"""Builds the core and its C++ tests for the tests that need them."""

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPUS = len(os.sched_getaffinity(0))


def tool(name):
    """A program of this interpreter's environment, else of PATH."""
    path = os.pathsep.join(
        [os.path.dirname(sys.executable), os.environ.get("PATH", "")]
    )
    return shutil.which(name, path=path)


def output(command, **options):
    """What a command prints; fails the test, with that, if it fails."""
    result = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options,
    )
    if result.returncode:
        pytest.fail(
            f"{' '.join(map(str, command))} ended with {result.returncode}:\n"
            + result.stdout[-20000:],
            pytrace=False,
        )
    return result.stdout


@functools.lru_cache(maxsize=None)
def _temporary():
    return tempfile.TemporaryDirectory(prefix="fused_rnn_core_")


@functools.lru_cache(maxsize=None)
def core(sanitize=""):
    """The folder of a finished build of the core, its C++ tests and its
    benchmark."""
    folder = pathlib.Path(
        _temporary().name, sanitize.replace(",", "_") or "plain"
    )
    output(
        [
            tool("cmake"), "-S", ROOT, "-B", folder, "-G", "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
            "-DFUSED_RNN_TF=OFF", "-DFUSED_RNN_PYTHON=OFF",
            "-DFUSED_RNN_TESTS=ON", "-DFUSED_RNN_BENCHMARKS=ON",
            f"-DFUSED_RNN_SANITIZE={sanitize}",
        ]
    )
    output([tool("cmake"), "--build", folder, "--parallel", CPUS])
    return folder
