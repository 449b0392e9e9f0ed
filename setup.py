"""Builds the libraries with CMake; metadata is in pyproject.toml.

This file is also the build backend (PEP 517): setuptools' own, and one rule
more. The ops are compiled against the TensorFlow of the environment that is
installed into. Where that has none, a TensorFlow becomes a requirement of the
build, which pip then provides for the build alone. The wheel's extras ask for
the minor version that it was compiled for, so both ways end with a TensorFlow
that fits. docs/installation.md says it for users.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import setuptools
from setuptools import Extension, build_meta, setup
from setuptools.build_meta import *  # noqa: F403
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

# Older ones misread pyproject.toml, at length. pip's isolated builds have it.
if int(setuptools.__version__.split(".")[0]) < 77:
    sys.exit(
        "error: the build needs setuptools 77 or newer: pip install"
        " 'setuptools>=77' cmake ninja pybind11, or install without"
        " --no-build-isolation."
    )

ROOT = pathlib.Path(__file__).resolve().parent

# By path: the package is not installed, and importing it imports TensorFlow.
_spec = importlib.util.spec_from_file_location(
    "_find_tensorflow", ROOT / "python/fused_rnn/_find_tensorflow.py"
)
finder = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = finder
_spec.loader.exec_module(finder)

SETTING = os.environ.get(finder.VARIABLE, "")
# Kernels for GPUs: "on", "off", or "auto"; CMakeLists.txt says what that does.
CUDA = os.environ.get("FUSED_RNN_CUDA", "auto")


# ---- Checks, each of which ends with one sentence.


def fail(message):
    sys.exit(f"error: {message}")


def check_compiler():
    if sys.platform != "linux":
        fail(f"fused_rnn builds on Linux; this is {sys.platform}.")
    setting = os.environ.get("CXX", "").split()[:1]
    # Where CMake looks.
    candidates = setting or ["c++", "g++", "clang++"]
    if not any(shutil.which(candidate) for candidate in candidates):
        fail(
            "fused_rnn is compiled when it is installed and needs a C++17"
            f" compiler; there is no {' or '.join(candidates)}. Install one"
            " (Debian and Ubuntu: apt-get install g++; Fedora: dnf install"
            " gcc-c++) or name one in the environment variable CXX."
        )


def check_tools():
    missing = [] if shutil.which("cmake") else ["cmake"]
    if not importlib.util.find_spec("pybind11"):
        missing.append("pybind11")
    if missing:
        fail(
            f"the build needs {' and '.join(missing)}: pip install"
            f" {' '.join(missing)} ninja, or install without"
            " --no-build-isolation."
        )


def find_tensorflow():
    """The TensorFlow to compile for, None for no ops; ends if there is none."""
    try:
        return finder.resolve(SETTING)
    except finder.NotFound as error:
        fail(error)


# ---- The backend's hooks.


def get_requires_for_build_wheel(config_settings=None):
    # Before anything is fetched.
    check_compiler()
    requirements = []
    try:
        finder.resolve(SETTING)
    except finder.NotFound as error:
        # Without a range, the setting names something that pip cannot provide.
        if not error.range:
            fail(error)
        requirements.append(finder.DISTRIBUTION + error.range)
    return requirements + build_meta.get_requires_for_build_wheel(
        config_settings
    )


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(*arguments, **options):
    check_all()
    return build_meta.build_wheel(*arguments, **options)


def build_editable(*arguments, **options):
    check_all()
    return build_meta.build_editable(*arguments, **options)


def check_cuda():
    if CUDA not in ("auto", "on", "off"):
        fail(f"FUSED_RNN_CUDA must be auto, on or off, got {CUDA}.")


def check_all():
    """Fails before setuptools prints what it copies."""
    check_cuda()
    check_compiler()
    check_tools()
    find_tensorflow()


# ---- setuptools' commands.


def extras():
    """The extras that bring TensorFlow: the minor compiled for, if known."""
    versions = finder.SUPPORTED_RANGE
    # A source distribution is not compiled for any yet.
    if "sdist" not in sys.argv:
        try:
            found = finder.resolve(SETTING)
            versions = f"=={found.minor}.*" if found else versions
        except finder.NotFound as error:
            versions = error.range or versions
    return {
        # See finder.DISTRIBUTION; metadata is for every machine.
        "cpu": [
            f"tensorflow-cpu{versions}; platform_machine == 'x86_64'",
            f"tensorflow{versions}; platform_machine != 'x86_64'",
        ],
        "gpu": [f"tensorflow[and-cuda]{versions}"],
        "test": [
            "cmake>=3.22",
            "hypothesis>=6.100",
            "matplotlib>=3.8",
            "ninja",
            "pybind11>=2.12",
            "pytest>=8",
            "pytest-xdist>=3",
            "setuptools>=77",
        ],
        "demo": ["matplotlib>=3.8"],
        "bench": ["matplotlib>=3.8"],
    }


class FreshBuild(build):
    """Builds in a folder of its own.

    A folder in the source tree would keep CMake's memory of tools that lived
    in a build environment now gone, and modules since deleted.
    """

    def initialize_options(self):
        super().initialize_options()
        self.temporary = tempfile.TemporaryDirectory(prefix="fused_rnn_")
        self.build_base = self.temporary.name


class CMakeBuild(build_ext):
    """Configures and builds with CMake, into the package's folder."""

    def run(self):
        folder = self.package_folder()
        folder.mkdir(parents=True, exist_ok=True)
        check_all()
        work = pathlib.Path(self.build_temp)
        work.mkdir(parents=True, exist_ok=True)
        configure = [
            "cmake",
            f"-S{ROOT}",
            f"-B{work}",
            f"-DFUSED_RNN_LIBRARY_DIR={folder}",
            f"-DFUSED_RNN_PYTHON_EXECUTABLE={sys.executable}",
            f"-DFUSED_RNN_TF={'ON' if find_tensorflow() else 'OFF'}",
            f"-DFUSED_RNN_CUDA={CUDA}",
        ]
        if shutil.which("ninja"):
            configure.append("-GNinja")
        jobs = os.environ.get(
            "CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0)))
        )
        run("configure the build", configure)
        run("compile", ["cmake", "--build", str(work), "--parallel", jobs])

    def package_folder(self):
        if self.inplace or self.editable_mode:
            return ROOT / "python/fused_rnn"
        return pathlib.Path(self.build_lib, "fused_rnn").resolve()

    def get_outputs(self):
        return [str(path) for path in self.package_folder().glob("_*.so")] + [
            str(self.package_folder() / "_build_info.json")
        ]

    def get_output_mapping(self):
        return {}


def run(what, command):
    """Runs a command; its output is shown only when it fails."""
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if result.returncode:
        lines = result.stdout.splitlines()
        errors = [line for line in lines if "error:" in line.lower()][:5]
        raise CompileError(
            "\n".join(
                [f"CMake could not {what}. Its last lines:", *lines[-40:]]
                + (["Its first errors:", *errors] if errors else [])
            )
        )


if __name__ == "__main__":
    setup(
        cmdclass={"build": FreshBuild, "build_ext": CMakeBuild},
        # So that the wheel is for this interpreter and platform.
        ext_modules=[Extension("fused_rnn._core", [])],
        extras_require=extras(),
    )
