"""Rules of the house that a test can check."""

import ast
import importlib
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = sorted(
    path
    for folder in ("csrc", "tests/core", "benchmarks", "python")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".cc", ".h", ".cu")
)
MODULES = sorted((ROOT / "python/fused_rnn").rglob("*.py"))
BUILD_FILES = [
    "CMakeLists.txt", "cmake/cuda.cmake", "BUILD", "bazel/flags.bzl", "setup.py",
]


def name(path):
    return str(path.relative_to(ROOT))


def includes(path):
    """The files that a source file includes, as it writes them."""
    return re.findall(
        r'^\s*#\s*include\s*[<"]([^>"]+)', path.read_text(), re.MULTILINE
    )


# What no room but these folders may include, by the start of the name.
PRIVATE_HEADERS = {
    r"(tensorflow|tsl|xla|absl|Eigen|unsupported)/": ["csrc/tf/"],
    r"(pybind11/|Python\.h|numpy/)": ["csrc/python/"],
    r"(cuda|cublas|curand|cudnn|cooperative_groups)": ["csrc/core/cuda/"],
}


def test_headers_stay_in_their_room():
    foreign = [
        f"{name(path)} includes {include}"
        for path in SOURCES
        for pattern, rooms in PRIVATE_HEADERS.items()
        if not name(path).startswith(tuple(rooms))
        for include in includes(path)
        if re.match(pattern, include)
    ]
    assert len(SOURCES) > 20 and not foreign


def test_the_core_includes_itself_and_the_standard_library():
    # Intrinsics are the compiler's; std::thread knows no pthread_atfork.
    allowed = re.compile(
        r"core/.*|[a-z_]+|immintrin\.h|arm_neon\.h|pthread\.h"
    )
    foreign = [
        f"{name(path)} includes {include}"
        for path in SOURCES
        if name(path).startswith("csrc/core/")
        and not name(path).startswith("csrc/core/cuda/")
        for include in includes(path)
        if not allowed.fullmatch(include)
    ]
    assert not foreign


# What other rooms see of the kernels for GPUs, and what that is made of.
PLAIN_CUDA_HEADERS = ("rnn_cuda.h", "library.h")


def test_other_rooms_see_plain_headers_of_the_cuda_room():
    room = "core/cuda/"
    foreign = [
        f"{name(path)} includes {include}"
        for path in SOURCES
        if name(path).startswith("csrc/")
        and not name(path).startswith("csrc/" + room)
        for include in includes(path)
        if include.startswith(room)
        and include not in [room + header for header in PLAIN_CUDA_HEADERS]
    ]
    # open.cc is part of the libraries that use them; the calls are compiled by
    # a compiler that may know no CUDA.
    for header in (*PLAIN_CUDA_HEADERS, "kernels.h", "persistent.h", "call.h"):
        foreign += [
            f"{header} includes {include}"
            for include in includes(ROOT / "csrc" / room / header)
            if not re.fullmatch(r"core/(?!cuda/launch).*|[a-z_]+", include)
        ]
    assert not foreign


def test_kernels_are_launched_through_one_wrapper():
    launches = [
        name(path)
        for path in SOURCES
        if re.search(r"<<<|cudaLaunch|cudaStreamSynchronize|cudaMalloc",
                     path.read_text())
    ]
    assert launches == ["csrc/core/cuda/launch.h"]


def test_flags_keep_nan_and_infinity():
    for file in BUILD_FILES:
        text = re.sub(r"#.*", "", (ROOT / file).read_text())
        for flag in ("-ffast-math", "-Ofast", "-funsafe", "-ffinite-math"):
            assert flag not in text, f"{flag} in {file}"


def cmake_list(variable):
    """The words that CMakeLists.txt sets a variable to."""
    text = (ROOT / "CMakeLists.txt").read_text()
    found = re.search(rf"set\({variable}\s([^)]*)\)", text)
    return found.group(1).split()


def starlark(path, variable):
    """The value that a Starlark file gives a variable, for x86-64."""
    names = {"X86": "x86", "select": lambda branches: branches["x86"]}
    tree = ast.parse((ROOT / path).read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == variable:
            expression = ast.Expression(node.value)
            # A file of this repository.
            return eval(compile(expression, path, "eval"), names)  # noqa: S307
    raise LookupError(f"{path} does not set {variable}")


def test_bazel_and_cmake_compile_the_same_for_each_instruction_set():
    assert starlark("BUILD", "ISA_SOURCES") == cmake_list("isa_sources")
    flags = starlark("bazel/flags.bzl", "ISA_FLAGS")
    assert list(flags) == cmake_list("isas")
    for isa, its_flags in flags.items():
        assert sorted(its_flags) == sorted(cmake_list(f"isa_flags_{isa}"))


def test_the_files_of_the_instruction_sets_exist():
    for source in cmake_list("isa_sources"):
        assert (ROOT / source).is_file(), source


# The folder for what is handed to developers, which users do not have.
PRIVATE_PATH = "shared" + "/"


def test_no_file_points_outside_the_repository():
    files = [*SOURCES, *MODULES, *(ROOT / "docs").glob("*.md")]
    files += (ROOT / "tests").glob("*.py")
    files += [ROOT / file for file in ["README.md", ".ci/run", *BUILD_FILES]]
    for path in files:
        text = path.read_text()
        assert PRIVATE_PATH not in text, name(path)
        assert not re.search(r"(?<![\w.])/(work|root|home)/", text), name(path)


def test_the_oracle_shares_nothing_with_what_it_judges():
    for path in MODULES:
        if "reference" not in path.parent.name:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                imported = [node.module]
            elif isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            else:
                continue
            for module in imported:
                assert module.split(".")[0] in (
                    "__future__", "abc", "dataclasses", "numpy", "typing",
                ) or module.startswith("fused_rnn.reference."), (
                    f"{name(path)} imports {module}"
                )


def test_every_public_name_exists_and_explains_itself():
    import fused_rnn

    for public in fused_rnn.__all__:
        assert getattr(fused_rnn, public) is not None
    for public, module in fused_rnn._TENSORFLOW_NAMES.items():
        value = getattr(importlib.import_module(f"fused_rnn.{module}"), public)
        assert getattr(fused_rnn, public) is value
        assert value.__doc__ and len(value.__doc__) > 100, public


def test_no_function_replaces_another_of_its_name():
    """A test that does so hides the other one, which never runs."""
    modules = [*(ROOT / "tests").rglob("*.py"), *MODULES]
    twice = []
    for path in modules:
        found = set()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                if node.name in found:
                    twice.append(f"{name(path)}: {node.name}")
                found.add(node.name)
    assert len(modules) > 80 and not twice
