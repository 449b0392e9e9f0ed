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
import re
import sys
import sysconfig

SUPPORTED = ("2.19", "2.20", "2.21")
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


def find() -> TensorFlow | None:
    """The TensorFlow of this interpreter's environment, else of sys.path."""
    for folder in [*site_folders(), *sys.path]:
        found = at(folder or ".")
        if found:
            return found
    return None


def main() -> int:
    setting = os.environ.get(VARIABLE, "")
    found = at(setting) if os.path.isdir(setting) else find()
    if not found:
        print(
            "TensorFlow's headers were not found in "
            + (setting or ", ".join(site_folders()))
            + f". Install tensorflow-cpu or tensorflow, or set {VARIABLE} to"
            " the folder of an installed one.",
            file=sys.stderr,
        )
        return 1
    print(found.path)
    print(found.version)
    return 0


if __name__ == "__main__":
    # Run as a file, its folder heads sys.path and would shadow numpy.
    sys.path.pop(0)
    sys.exit(main())
