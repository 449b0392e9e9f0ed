"""The matrix products by cuBLAS, on a library that takes its place.

cuBLAS runs on a GPU alone; what csrc/core/cuda/cublas.cc asks of it need not be
tried there for the first time.
"""

import os
import pathlib
import shutil

import native
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the program and the library are."""
    nvcc = shutil.which("nvcc")
    headers = nvcc and pathlib.Path(nvcc).resolve().parent.parent / "include"
    if not headers or not (headers / "cublas_v2.h").exists():
        pytest.skip("there are no headers of cuBLAS")
    made = tmp_path_factory.mktemp("cublas")
    core = native.ROOT / "tests/core"
    compile_ = [
        "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror",
        f"-I{native.ROOT}/csrc", f"-I{native.ROOT}/tests", "-isystem", headers,
    ]
    native.output([
        *compile_, "-fPIC", "-shared", core / "fake_cublas.cc",
        "-o", made / "libcublas.so.12",
    ])
    native.output([
        *compile_, core / "cublas_check.cc",
        native.ROOT / "csrc/core/cuda/cublas.cc", "-o", made / "check", "-ldl",
        "-pthread",
    ])
    return made


def test_products(folder):
    native.output(
        [folder / "check"], env={**os.environ, "LD_LIBRARY_PATH": str(folder)}
    )


def test_no_cublas(folder, tmp_path):
    # What the system has is not found behind these.
    for version in (12, 13):
        (tmp_path / f"libcublas.so.{version}").write_text("no library\n")
    native.output(
        [folder / "check", "none"],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
    )
