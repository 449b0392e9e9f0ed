"""Finds, checks and loads the library of ops for the running TensorFlow.

A library of ops loads only into the minor version of TensorFlow that it was
compiled for: the names of its symbols contain the version of TensorFlow's own
dependencies. The build leaves a note beside the library, `_build_info.json`,
so that a mismatch is found, and explained, before anything is loaded.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import shlex
import sys
import urllib.parse
import urllib.request

from fused_rnn import _find_tensorflow
from fused_rnn._version import __version__

NO_TENSORFLOW = "FUSED_RNN_NO_TENSORFLOW"

_FOLDER = pathlib.Path(__file__).absolute().parent
_INSTALL_TENSORFLOW = (
    f"pip install '{_find_tensorflow.DISTRIBUTION}"
    f"{_find_tensorflow.SUPPORTED_RANGE}'"
)


class LibraryError(ImportError):
    """The ops cannot be loaded; the message says why and what to do."""


@dataclasses.dataclass(frozen=True)
class BuildInfo:
    """What the build says of the libraries beside this file.

    version: the version of fused_rnn. tensorflow: the version of TensorFlow
    that the ops were compiled for, empty if they were left out. isas: the
    instruction sets compiled. cuda: the CUDA that GPU kernels were compiled
    with, and the architectures that for; empty if there are none. compiler:
    its name and version.
    """

    version: str
    tensorflow: str
    isas: tuple[str, ...]
    cuda: str
    compiler: str


def library_path() -> str:
    """Where the library of ops is, or would be if it had been built.

    A string, which is what ``tf.load_op_library`` takes.
    """
    return str(_FOLDER / "_fused_rnn_tf.so")


def build_info(folder: os.PathLike | str = _FOLDER) -> BuildInfo | None:
    """What the build left in this folder, or None if nothing was built."""
    try:
        text = (pathlib.Path(folder) / "_build_info.json").read_text()
    except FileNotFoundError:
        return None
    values = json.loads(text)
    names = [field.name for field in dataclasses.fields(BuildInfo)]
    info = BuildInfo(**{name: values[name] for name in names})
    return dataclasses.replace(info, isas=tuple(info.isas))


def tensorflow_installed() -> bool:
    """Whether `import tensorflow` finds something. Imports nothing."""
    if "tensorflow" in sys.modules:
        return sys.modules["tensorflow"] is not None
    return importlib.util.find_spec("tensorflow") is not None


def left_alone() -> bool:
    """Whether FUSED_RNN_NO_TENSORFLOW says to leave TensorFlow alone."""
    return os.environ.get(NO_TENSORFLOW, "0") not in ("", "0")


def wanted_at_import() -> bool:
    """Whether `import fused_rnn` should load TensorFlow and the ops.

    Not without TensorFlow, not in a build that left the ops out, not when the
    user said so, and not in the package's own commands, which load what they
    need and explain what is missing.
    """
    if left_alone():
        return False
    if _is_own_command(sys.argv, sys.orig_argv) or not tensorflow_installed():
        return False
    info = build_info()
    return info is None or bool(info.tensorflow)


def _is_own_command(argv: list[str], orig_argv: list[str]) -> bool:
    """Whether the process is `python -m fused_rnn` or `fused-rnn`."""
    if argv and pathlib.Path(argv[0]).stem == "fused-rnn":
        return True
    # While Python looks for the module of -m, argv[0] is "-m".
    position = orig_argv.index("-m") + 1 if "-m" in orig_argv else 0
    return argv[:1] == ["-m"] and orig_argv[position : position + 1] in (
        ["fused_rnn"],
        ["fused_rnn.__main__"],
    )


def import_module(name: str):
    """A module of this package that needs the ops; loads them first."""
    load()
    return importlib.import_module(f"fused_rnn.{name}")


@functools.lru_cache(maxsize=None)
def load():
    """Loads the library of ops, once, and returns the module of its ops.

    Raises:
      LibraryError: TensorFlow is not installed, or the library was not built
        or was built for another TensorFlow or another fused_rnn. The message
        says what to do.
    """
    if not tensorflow_installed():
        raise LibraryError(
            "fused_rnn needs TensorFlow for this, and it is not installed:"
            f" {_INSTALL_TENSORFLOW}. fused_rnn.numpy works without it."
        )
    import tensorflow as tf

    check(build_info(), tf.__version__)
    try:
        return tf.load_op_library(library_path())
    except (tf.errors.NotFoundError, OSError) as error:
        raise LibraryError(
            f"TensorFlow {tf.__version__} cannot load {library_path()}, which"
            f" was built for TensorFlow {build_info().tensorflow}. Build it"
            f" again: {rebuild_command(tf.__version__)}\n{error}"
        ) from error


def check_instruction_set() -> None:
    """Raises LibraryError if FUSED_RNN_ISA names none that runs here.

    The ops say so themselves, in the error of a whole graph.
    """
    from fused_rnn import _core

    if error := _core.isa_error():
        raise LibraryError(error)


def check(info: BuildInfo | None, running: str) -> None:
    """Raises LibraryError unless this build serves the running TensorFlow."""
    minor = _find_tensorflow.minor(running)
    supported = minor in _find_tensorflow.SUPPORTED
    if supported:
        mend = f"Build it again: {rebuild_command(running)}"
    else:
        mend = (
            f"TensorFlow {running} is not supported. Install one that is:"
            f" {_INSTALL_TENSORFLOW}"
        )
    if info is None:
        raise LibraryError(
            f"fused_rnn was not built: there is no library in {_FOLDER}. {mend}"
        )
    if info.version != __version__:
        raise LibraryError(
            f"The library in {_FOLDER} is stale: it was built for fused_rnn"
            f" {info.version}, and this is fused_rnn {__version__}. {mend}"
        )
    if not info.tensorflow:
        raise LibraryError(
            "This build of fused_rnn has no TensorFlow ops: it was built with"
            f" {_find_tensorflow.VARIABLE}=none. {mend}"
        )
    if minor != _find_tensorflow.minor(info.tensorflow):
        raise LibraryError(
            f"fused_rnn was built for TensorFlow {info.tensorflow} and does not"
            f" load into TensorFlow {running}. {mend}"
        )


def rebuild_command(running: str) -> str:
    """The command that builds this installation for that TensorFlow."""
    minor = _find_tensorflow.minor(running)
    python = shlex.quote(sys.executable or "python")
    if importlib.util.find_spec("pip"):
        pip = f"{python} -m pip install"
    else:
        pip = f"uv pip install --python {python}"
    prefix = f"{_find_tensorflow.VARIABLE}={minor} {pip}"
    source, editable = _installed_from()
    if source and editable:
        return f"{prefix} --no-deps -e {shlex.quote(source)}"
    if source:
        return f"{prefix} --no-deps --force-reinstall {shlex.quote(source)}"
    if source is not None:
        return (
            f"{prefix} --no-deps --force-reinstall --no-cache-dir"
            " --no-binary fused-rnn fused-rnn"
        )
    root = shlex.quote(str(_FOLDER.parent.parent))
    return (
        f"cmake -S {root} -B {root}/build -DFUSED_RNN_INPLACE=ON"
        f" -DFUSED_RNN_PYTHON_EXECUTABLE={python} && cmake --build {root}/build"
    )


def _installed_from() -> tuple[str | None, bool]:
    """The local folder that pip installed from, and whether editable.

    The folder is "" for an installation from elsewhere, and None for a
    checkout that was not installed.
    """
    try:
        distribution = importlib.metadata.distribution("fused-rnn")
    except importlib.metadata.PackageNotFoundError:
        return None, False
    record = json.loads(distribution.read_text("direct_url.json") or "{}")
    url = urllib.parse.urlsplit(record.get("url", ""))
    source = urllib.request.url2pathname(url.path)
    if record.get("dir_info", {}).get("editable", False):
        here = pathlib.Path(source, "python", "fused_rnn")
    else:
        here = pathlib.Path(distribution.locate_file("fused_rnn"))
    # Another checkout may be on the path than the one that is installed, and
    # a checkout's own metadata has no record of files.
    if here.resolve() != _FOLDER.resolve() or not distribution.read_text("RECORD"):
        return None, False
    if url.scheme != "file":
        return "", False
    return source, here == pathlib.Path(source, "python", "fused_rnn")
