"""What the compiler made of the CUDA kernels, without running one.

    python benchmarks/kernels.py --json docs/performance.json

builds the library of kernels with `nvcc -Xptxas -v` for the architectures of a
usual build and keeps what ptxas says of each kernel: registers, shared memory,
stack, spills. With cuobjdump and nvdisasm, which come with CUDA and as the PyPI
packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm, it also counts the
instructions of each kernel that go to memory, by their width.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import checkout  # noqa: F401
from fused_rnn.bench import harness, tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Instructions to global memory (or to what may be), and to a thread's own.
_ACCESS = re.compile(r"\b(LDG|STG|LD|ST|LDL|STL)\.([A-Z0-9.]+)\b")
_WIDTH = re.compile(r"\b(U8|S8|U16|S16|64|128)\b")
BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def build(folder, nvcc, architectures):
    """What the compilers print while the library is made.

    Raises:
      subprocess.CalledProcessError: CMake or a compiler failed.
    """
    def run(*command):
        return subprocess.run(
            command, check=True, text=True, stdout=subprocess.PIPE,
            env={**os.environ, "CUDACXX": nvcc},
        ).stdout

    configure = [
        "cmake", "-S", str(ROOT), "-B", folder, "-G", "Ninja",
        "-DFUSED_RNN_TF=OFF", "-DFUSED_RNN_PYTHON=OFF", "-DFUSED_RNN_CUDA=on",
        "-DCMAKE_CUDA_FLAGS=-Xptxas=-v",
    ]
    if architectures:
        configure.append("-DCMAKE_CUDA_ARCHITECTURES=" + ";".join(
            f"{one}-real" for one in architectures
        ))
    run(*configure)
    return run("cmake", "--build", folder, "--target", "fused_rnn_cuda")


CELLS = {
    "CellOf<(Cell)0, true>": "GRU, reset after",
    "CellOf<(Cell)0, false>": "GRU, reset before",
    "CellOf<(Cell)1, false>": "LSTM", "CellOf<(Cell)2, false>": "simple RNN",
}


def demangled(names):
    """Each with c++filt's name, without namespaces and function arguments."""
    out = subprocess.run(
        ["c++filt"], input="\n".join(names), text=True, check=True,
        stdout=subprocess.PIPE,
    ).stdout
    short = {}
    for name, text in zip(names, out.splitlines()):
        text = re.sub(r"fused_rnn::(cuda::)?|\(anonymous namespace\)::", "", text)
        text = text.removeprefix("void ")
        # Templates end before their arguments, others with the name.
        text = re.split(r"(?<=>)\(", text)[0] if "<" in text else text.split("(")[0]
        for cell, title in CELLS.items():
            text = text.replace(cell, title)
        short[name] = text
    return short


def resources(printed):
    """(mangled name, architecture) -> what ptxas says of it."""
    found, current = {}, None
    for text in printed.splitlines():
        if match := re.search(
            r"Compiling entry function '(\w+)' for 'sm_(\d+)'", text
        ):
            current = found.setdefault((match[1], int(match[2])), {})
        elif match := re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes",
            text,
        ):
            current["stack"] = int(match[1])
            current["spilled"] = int(match[2]) + int(match[3])
        elif match := re.search(r"Used (\d+) registers", text):
            current["registers"] = int(match[1])
            shared = re.search(r"(\d+) bytes smem", text)
            current["shared"] = int(shared[1]) if shared else 0
    return found


def accesses(library, cuobjdump):
    """(mangled name, architecture) -> {"LDG 16": how many instructions}."""
    found, architecture, counts = {}, None, None
    # cuobjdump looks for nvdisasm there, and not beside itself.
    path = os.pathsep.join([os.path.dirname(cuobjdump), os.environ["PATH"]])
    dump = subprocess.Popen(
        [cuobjdump, "-sass", library], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PATH": path},
    )
    for text in dump.stdout:
        if match := re.search(r"arch = sm_(\d+)", text):
            architecture = int(match[1])
        elif match := re.search(r"Function : (\w+)", text):
            counts = collections.Counter()
            found[match[1], architecture] = counts
        elif counts is not None and (match := _ACCESS.search(text)):
            width = _WIDTH.search(match[2].replace(".", " "))
            counts[f"{match[1]} {BYTES[width[1]] if width else 4}"] += 1
    if dump.wait():
        raise subprocess.CalledProcessError(dump.returncode, cuobjdump)
    return found


def row(numbers):
    """Numbers of all architectures, on one line of a file of results."""
    return " ".join(map(str, numbers))


def measure(nvcc, cuobjdump, architectures):
    """The record: each kernel's values in the order of the architectures."""
    version = subprocess.run(
        [nvcc, "--version"], check=True, text=True, stdout=subprocess.PIPE
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        found = resources(build(folder, nvcc, architectures))
        library = next(pathlib.Path(folder).rglob("_fused_rnn_cuda.so"))
        counts = accesses(library, cuobjdump) if cuobjdump else {}
    names = demangled(sorted({name for name, _ in found}))
    order = sorted({architecture for _, architecture in found})
    kernels = {}
    for name, short in names.items():
        each = [found[name, architecture] for architecture in order]
        kernels[short] = {
            key: row(one[key] for one in each)
            for key in ("registers", "shared", "stack", "spilled")
        }
        if counts:
            each = [counts[name, architecture] for architecture in order]
            kernels[short]["accesses"] = {
                kind: row(one[kind] for one in each)
                for kind in sorted(set().union(*each))
            }
    return {
        "nvcc": re.search(r"V([\d.]+)", version)[1], "architectures": order,
        "date": datetime.date.today().isoformat(), "kernels": kernels,
    }


# ---- The report.


def _spread(values):
    least, most = min(values), max(values)
    return str(least) if least == most else f"{least} – {most}"


def _numbers(kernel, key):
    return [int(number) for number in kernel[key].split()]


def _group(name):
    """The kernels that stand in one row; gate kernels by their width."""
    kind, _, rest = name.partition("<")
    width = re.search(r"\b(\d), (?:float|double|Half|BFloat16)>$", rest)
    if not width:
        return f"`{kind}`"
    return f"`{kind}`, {'wide' if int(width[1]) > 1 else 'single units'}"


def _resources(record):
    groups = collections.defaultdict(list)
    for name, kernel in record["kernels"].items():
        groups[_group(name)].append(kernel)
    rows = []
    for title, kernels in sorted(groups.items()):
        values = {
            key: [n for kernel in kernels for n in _numbers(kernel, key)]
            for key in ("registers", "shared", "stack", "spilled")
        }
        rows.append([title, str(len(kernels)),
                     *(_spread(each) for each in values.values())])
    return tables.table(
        ["kernels", "how many", "registers of a thread",
         "shared memory, fixed, bytes", "stack, bytes", "spilled, bytes"], rows,
    )


def _registers(record):
    rows = [
        [f"`{name}`", *kernel["registers"].split()]
        for name, kernel in sorted(record["kernels"].items())
        if name.endswith("float>") and not _group(name).endswith("units")
    ]
    return tables.table(
        ["kernel", *(f"sm_{one}" for one in record["architectures"])], rows
    )


def _accesses(record):
    """A row a wide gate kernel; every architecture's number if they differ."""
    rows = []
    for name, kernel in sorted(record["kernels"].items()):
        if not _group(name).endswith("wide") or "BFloat16" in name:
            continue
        cells = []
        for bytes_ in (16, 8, 4, 2, 1):
            kinds = [
                _numbers(kernel["accesses"], kind)
                for kind in kernel["accesses"]
                if kind.split()[0] in ("LDG", "STG", "LD", "ST")
                and int(kind.split()[1]) == bytes_
            ]
            total = [sum(each) for each in zip(*kinds)] or [0]
            cells.append(_spread(total) if any(total) else "")
        rows.append([f"`{name}`", *cells])
    return tables.table(
        ["kernel", *(f"{bytes_} bytes" for bytes_ in (16, 8, 4, 2, 1))], rows
    )


REPORTS = {
    "resources": _resources, "registers": _registers, "accesses": _accesses,
}


def page(record, subject):
    """One table, and what it is of."""
    architectures = ", ".join(map(str, record["architectures"]))
    return (
        f"{REPORTS[subject](record)}\n\nnvcc {record['nvcc']},"
        f" {record['date']}, architectures {architectures}.\n"
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nvcc", default=os.environ.get("CUDACXX", "nvcc"))
    parser.add_argument("--cuobjdump", default=shutil.which("cuobjdump"))
    parser.add_argument("--architectures", type=int, nargs="+", metavar="SM",
                        help="as 80 90; those of a usual build by default")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    record = measure(
        shutil.which(options.nvcc), options.cuobjdump, options.architectures
    )
    if options.json:
        harness.save(options.json, "kernels", record)
    for subject in REPORTS if options.cuobjdump else ("resources", "registers"):
        print(page(record, subject))
    return 0


if __name__ == "__main__":
    sys.exit(main())
