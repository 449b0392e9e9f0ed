"""Finds an installed TensorFlow by path, without importing it.

TensorFlow takes seconds to import and, in an isolated build, cannot be
imported at all: the build only needs its headers, its library and its version.
This file imports nothing of the package, so that setup.py, CMake and Bazel can
run it on its own::

    python _find_tensorflow.py    # prints the package's folder and its version
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import re
import sys
import sysconfig

SUPPORTED = ("2.19", "2.20", "2.21")
SUPPORTED_RANGE = ">=2.19,<2.22"
# The smallest distribution; there is none of that name for other processors.
DISTRIBUTION = (
    "tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"
)
# What to compile for: "none", a minor version such as "2.20", or a folder that
# holds TensorFlow. Empty: the first supported one that is found.
VARIABLE = "FUSED_RNN_TENSORFLOW"

_VERSION_HEADER = "include/tensorflow/core/public/version.h"
_LIBRARY = "libtensorflow_framework.so.2"


@dataclasses.dataclass(frozen=True)
class TensorFlow:
    """An installed TensorFlow: its package folder and its version."""

    path: pathlib.Path
    version: str

    @property
    def minor(self) -> str:
        return minor(self.version)

    @property
    def include(self) -> pathlib.Path:
        return self.path / "include"

    @property
    def library(self) -> pathlib.Path:
        return self.path / _LIBRARY


def minor(version: str) -> str:
    """Major and minor of a version: "2.21" of "2.21.0-rc1"."""
    return ".".join(version.split(".")[:2])


def version_of(package: pathlib.Path) -> str | None:
    """The version of the TensorFlow in this package folder, if it is known."""
    # Headers name the version up to TensorFlow 2.20 or so; later ones expect
    # it from the compiler's command line, and only the metadata knows it.
    for name in ("release_version.h", "version.h"):
        header = package / "include/tensorflow/core/public" / name
        if header.is_file():
            text = header.read_text(errors="replace")
            parts = [
                re.search(rf"#\s*define\s+TF_{part}_VERSION\s+(\d+)", text)
                for part in ("MAJOR", "MINOR", "PATCH")
            ]
            if all(parts):
                return ".".join(match.group(1) for match in parts)
    site = package.parent
    for distribution in importlib.metadata.distributions(path=[str(site)]):
        name = (distribution.metadata["Name"] or "").lower()
        # tensorflow, tensorflow-cpu, and the builds of vendors.
        if "tensorflow" not in name and not name.startswith("tf"):
            continue
        if any(
            str(file) == f"tensorflow/{_VERSION_HEADER}"
            for file in distribution.files or ()
        ):
            return distribution.version
    return None


def at(folder: os.PathLike | str) -> TensorFlow | None:
    """The TensorFlow whose package is, or lies in, this folder."""
    folder = pathlib.Path(folder)
    for package in (folder, folder / "tensorflow"):
        if (package / _VERSION_HEADER).is_file() and (
            package / _LIBRARY
        ).exists():
            version = version_of(package)
            if version:
                return TensorFlow(package, version)
    return None


def site_folders() -> list[str]:
    """Where this interpreter's environment keeps its packages.

    In pip's isolated builds these still name the environment that is being
    installed into, while sys.path names the build's own.
    """
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return list(dict.fromkeys(folders))


def found_in(folders: list[str]) -> list[TensorFlow]:
    """Every TensorFlow in these folders, in their order."""
    candidates = [at(folder or ".") for folder in folders]
    return [found for found in candidates if found]


class NotFound(Exception):
    """No TensorFlow fits the setting.

    `range` is the version range of one that would; None if no installed
    version could mend it, because the setting itself is wrong.
    """

    def __init__(self, message: str, range: str | None):
        super().__init__(message)
        self.range = range


def resolve(setting: str = "") -> TensorFlow | None:
    """The TensorFlow to compile for; None if the ops are to be left out.

    Args:
      setting: the value of FUSED_RNN_TENSORFLOW.

    Raises:
      NotFound: the message says what was looked for and what to do.
    """
    if setting == "none":
        return None
    wanted, range, folders = SUPPORTED, SUPPORTED_RANGE, None
    if minor(setting) in SUPPORTED:
        wanted, range = (minor(setting),), f"=={minor(setting)}.*"
    elif setting:
        folders = [setting]
    found = found_in(folders or [*site_folders(), *sys.path])
    for candidate in found:
        if candidate.minor in wanted:
            return candidate
    if folders and not found:
        raise NotFound(
            f"{VARIABLE}={setting} names neither a supported TensorFlow"
            f" ({', '.join(SUPPORTED)}), nor a folder that holds one, nor"
            " 'none'.",
            None,
        )
    others = ", ".join(f"{other.version} in {other.path}" for other in found)
    raise NotFound(
        "fused_rnn is compiled against the headers of TensorFlow"
        f" {' or '.join(wanted)}, and "
        + (f"found only {others}." if found else "found none.")
        + f" Install one first (pip install '{DISTRIBUTION}{range}'), or set"
        f" {VARIABLE} to the folder of one, or to 'none' to build only what"
        " works on NumPy arrays.",
        None if folders else range,
    )


def main() -> int:
    try:
        found = resolve(os.environ.get(VARIABLE, ""))
    except NotFound as error:
        print(error, file=sys.stderr)
        return 1
    if found:
        print(found.path)
        print(found.version)
    return 0


if __name__ == "__main__":
    # Run as a file, its folder heads sys.path; modules of ours may shadow
    # others there.
    sys.path.pop(0)
    sys.exit(main())
