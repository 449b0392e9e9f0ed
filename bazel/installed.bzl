"""What is installed for a Python interpreter, as repositories.

The interpreter is the environment variable FUSED_RNN_PYTHON, else python3.
"""

_TENSORFLOW = """
cc_library(
    name = "tensorflow",
    srcs = ["libtensorflow_framework.so.2"],
    hdrs = glob(["include/**"]),
    # As system headers: their warnings are not ours to mend.
    includes = ["include"],
    # What TensorFlow itself was compiled with.
    defines = [
        "_GLIBCXX_USE_CXX11_ABI=1",
        "EIGEN_MAX_ALIGN_BYTES=64",
    ],
    visibility = ["//visibility:public"],
)

exports_files(["version.txt"])
"""

_PYBIND11 = """
cc_library(
    name = "pybind11",
    hdrs = glob(["pybind11/**", "python/**"]),
    includes = ["pybind11", "python"],
    visibility = ["//visibility:public"],
)
"""

def _python(ctx, arguments):
    """The lines that the interpreter prints, given these arguments."""
    name = ctx.os.environ.get("FUSED_RNN_PYTHON", "python3")
    result = ctx.execute([name] + arguments)
    if result.return_code:
        fail("%s says: %s" % (name, result.stderr))
    return result.stdout.splitlines()

def _tensorflow_impl(ctx):
    finder = Label("//:python/fused_rnn/_find_tensorflow.py")
    found = _python(ctx, [ctx.path(finder)])
    if not found:
        fail("With Bazel the ops are always built: unset FUSED_RNN_TENSORFLOW.")
    for name in ["include", "libtensorflow_framework.so.2"]:
        ctx.symlink(found[0] + "/" + name, name)
    ctx.file("version.txt", found[1])
    ctx.file("BUILD", _TENSORFLOW)

installed_tensorflow = repository_rule(
    implementation = _tensorflow_impl,
    environ = ["FUSED_RNN_PYTHON", "FUSED_RNN_TENSORFLOW", "PATH"],
    local = True,
)

def _pybind11_impl(ctx):
    code = "import pybind11, sysconfig as s; " + \
           "print(pybind11.get_include(), s.get_path('include'), sep='\\n')"
    found = _python(ctx, ["-c", code])
    ctx.symlink(found[0], "pybind11")
    ctx.symlink(found[1], "python")
    ctx.file("BUILD", _PYBIND11)

installed_pybind11 = repository_rule(
    implementation = _pybind11_impl,
    environ = ["FUSED_RNN_PYTHON", "PATH"],
    local = True,
)
