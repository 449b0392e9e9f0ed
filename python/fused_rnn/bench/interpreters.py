"""The interpreters in whose environments the rivals are installed."""

import functools
import json
import os
import pathlib
import shutil

from fused_rnn.bench import processes

# What an environment has is asked of its own interpreter; nothing is imported.
_QUESTION = """
import importlib.util, json, sys
found = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
print(json.dumps([sys.prefix, found]))
"""


class Interpreters:
    """Several of them; a module is taken from the first that has it."""

    def __init__(self, paths):
        self.paths = tuple(str(path) for path in paths)

    def with_module(self, module):
        """The interpreter that has it; the first one if module is "".

        Raises:
          processes.WorkerFailed: none has it, or none runs.
        """
        if not module:
            return self.paths[0]
        for path in self.paths:
            if module in _ask(path, module)[1]:
                return path
        raise processes.WorkerFailed(f"{module} is not installed")

    def prefixes(self):
        """Where headers and libraries may lie."""
        return [*(_ask(path)[0] for path in self.paths), "/usr", "/usr/local"]


@functools.cache
def _ask(path, *modules):
    return json.loads(processes.call([path, "-c", _QUESTION, *modules]))


def compile_program(program, source, prefixes, folder):
    """Compiles a C++ program; returns its path and its environment.

    Raises:
      processes.WorkerFailed: its library, or a compiler, is not there.
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
        raise processes.WorkerFailed(
            f"not installed: no {program.header} with its library"
        )
    binary = folder / source.stem
    if not binary.exists():
        command = [
            *compiler.split(), "-std=c++17", "-O2",
            f"-I{pathlib.Path(prefix, 'include')}", str(source), "-o",
            str(binary),
            # The library's own dependencies are found when it is loaded.
            str(libraries[0]), "-Wl,--allow-shlib-undefined",
        ]
        processes.call(command)
    beside = libraries[0].parent
    environment = {"LD_LIBRARY_PATH": str(beside)}
    # A oneDNN that was built on SYCL takes its processor from OpenCL.
    if (beside / "libintelocl.so").exists():
        environment["OCL_ICD_FILENAMES"] = str(beside / "libintelocl.so")
    return binary, environment
