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
def build(tmp_path_factory):
    """The folder of a build for one architecture, and what it printed."""
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
    return folder, printed


def test_no_kernel_spills_or_has_a_stack(build):
    found = re.findall(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill",
        build[1],
    )
    assert len(found) > 60
    assert set(found) == {("0", "0", "0")}


# Of the CUDA runtime: what enqueues, what asks, and what never waits or takes
# memory.
RUNTIME = {
    "cudaDeviceGetAttribute", "cudaDriverGetVersion", "cudaFuncSetAttribute",
    "cudaGetDevice", "cudaGetDeviceCount", "cudaGetDeviceProperties",
    "cudaGetErrorString", "cudaLaunchKernelExC", "cudaMemcpy2DAsync",
    "cudaMemsetAsync", "cudaRuntimeGetVersion",
}


def test_nothing_allocates_waits_or_makes_a_stream(build):
    """By what the objects want of the runtime; of cuBLAS nothing is linked."""
    objects = list(build[0].rglob("CMakeFiles/fused_rnn_cuda.dir/**/*.o"))
    assert objects
    wanted = {
        name.removesuffix("_v2")
        for path in objects
        for name in re.findall(
            r" U (cu\w+)", native.output(["nm", "--undefined-only", path])
        )
    }
    assert wanted <= RUNTIME and "cudaLaunchKernelExC" in wanted
