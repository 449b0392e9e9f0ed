"""Builds of the CUDA library: what the option does, and what nvcc reports."""

import re
import shutil
import subprocess

import native
import pytest


def configure(folder, *options, **environment):
    """CMake's exit status and what it printed."""
    result = subprocess.run(
        [
            native.tool("cmake"), "-S", native.ROOT, "-B", folder, "-G", "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={native.tool('ninja')}",
            "-DFUSED_RNN_TF=OFF", "-DFUSED_RNN_PYTHON=OFF", *options,
        ],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**native.os.environ, **environment},
    )
    return result.returncode, " ".join(result.stdout.split())


def test_unknown_setting(tmp_path):
    status, text = configure(tmp_path, "-DFUSED_RNN_CUDA=yes")
    assert status and "FUSED_RNN_CUDA must be auto, on or off, got yes" in text


def test_on_without_nvcc(tmp_path):
    status, text = configure(
        tmp_path, "-DFUSED_RNN_CUDA=on", CUDACXX="/no/such/nvcc"
    )
    assert status and "FUSED_RNN_CUDA=on needs nvcc" in text


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What ptxas says of each kernel, for one architecture."""
    if not shutil.which("nvcc"):
        pytest.skip("there is no nvcc")
    folder = tmp_path_factory.mktemp("cuda")
    status, text = configure(
        folder, "-DFUSED_RNN_CUDA=on", "-DCMAKE_CUDA_ARCHITECTURES=80-real",
        "-DCMAKE_CUDA_FLAGS=-Xptxas=-v",
    )
    if status and "needs nvcc" in text:
        pytest.skip("nvcc does not work with this compiler")
    assert status == 0, text
    printed = native.output(
        [native.tool("cmake"), "--build", folder, "--parallel", native.CPUS]
    )
    assert (folder / "lib/_fused_rnn_cuda.so").exists()
    return printed


def test_no_kernel_spills(report):
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill", report)
    assert len(spills) > 60
    assert set(spills) == {("0", "0")}
