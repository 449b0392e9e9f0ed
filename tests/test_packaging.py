"""How the build finds TensorFlow, what it asks of pip, what it packs."""

import os
import shutil
import subprocess
import sys
import tarfile

import pytest
from helpers import ROOT

from fused_rnn import _find_tensorflow
from fused_rnn._version import __version__

# ---- An installed TensorFlow, as far as the build looks at it.


def install_tensorflow(site, version, *, version_in_header, name="tensorflow_cpu"):
    """Makes a folder of packages hold a TensorFlow; returns its package."""
    package = site / "tensorflow"
    header = package / "include/tensorflow/core/public/version.h"
    header.parent.mkdir(parents=True)
    (package / "libtensorflow_framework.so.2").touch()
    parts = zip(("MAJOR", "MINOR", "PATCH"), version.split("."))
    header.write_text(
        "".join(f"#define TF_{part}_VERSION {n}\n" for part, n in parts)
        if version_in_header
        else '#ifndef TF_MAJOR_VERSION\n#error "is not defined!"\n#endif\n'
    )
    metadata = site / f"{name}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    (metadata / "RECORD").write_text(
        "tensorflow/include/tensorflow/core/public/version.h,,\n"
    )
    return package


@pytest.fixture
def sites(tmp_path, monkeypatch):
    """Two empty folders: the environment's packages, and the build's own."""
    target, build = tmp_path / "target", tmp_path / "build"
    target.mkdir()
    build.mkdir()
    monkeypatch.setattr(
        _find_tensorflow, "site_folders", lambda: [str(target)]
    )
    monkeypatch.setattr(sys, "path", [str(build)])
    return target, build


@pytest.mark.parametrize("version_in_header", [True, False])
@pytest.mark.parametrize("name", ["tensorflow_cpu", "tensorflow", "tf_nightly"])
def test_the_version_is_read_from_headers_or_metadata(
    tmp_path, name, version_in_header
):
    package = install_tensorflow(
        tmp_path, "2.20.1", version_in_header=version_in_header, name=name
    )
    for folder in (tmp_path, package):
        found = _find_tensorflow.at(folder)
        assert found == _find_tensorflow.TensorFlow(package, "2.20.1")
        assert found.minor == "2.20"
        assert found.include.is_dir() and found.library.exists()


def test_another_distribution_does_not_lend_its_version(tmp_path):
    install_tensorflow(tmp_path, "2.20.1", version_in_header=False)
    other = tmp_path / "tensorflow_datasets-4.9.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Name: tensorflow-datasets\nVersion: 4.9\n")
    (other / "RECORD").write_text("tensorflow_datasets/__init__.py,,\n")
    assert _find_tensorflow.at(tmp_path).version == "2.20.1"


def test_a_namespace_left_by_others_is_no_tensorflow(tmp_path):
    (tmp_path / "tensorflow/python").mkdir(parents=True)
    assert _find_tensorflow.at(tmp_path) is None


def test_the_target_environment_comes_before_the_builds(sites):
    target, build = sites
    install_tensorflow(build, "2.21.0", version_in_header=False)
    assert _find_tensorflow.resolve().version == "2.21.0"
    install_tensorflow(target, "2.19.1", version_in_header=True)
    assert _find_tensorflow.resolve().version == "2.19.1"
    assert _find_tensorflow.resolve("2.21").version == "2.21.0"
    assert _find_tensorflow.resolve("2.21.0").version == "2.21.0"
    assert _find_tensorflow.resolve(str(build)).version == "2.21.0"
    assert _find_tensorflow.resolve("none") is None


def test_an_unsupported_one_is_passed_over(sites):
    target, build = sites
    install_tensorflow(target, "2.18.0", version_in_header=True)
    with pytest.raises(_find_tensorflow.NotFound, match="only 2.18.0 in ") as e:
        _find_tensorflow.resolve()
    assert e.value.range == ">=2.19,<2.22"
    install_tensorflow(build, "2.21.0", version_in_header=False)
    assert _find_tensorflow.resolve().version == "2.21.0"


@pytest.mark.parametrize(
    "setting, range, words",
    [
        ("", ">=2.19,<2.22", ["2.19 or 2.20 or 2.21", "found none", "'none'"]),
        ("2.20", "==2.20.*", ["2.20", "found none", "==2.20.*'"]),
        ("2.20.3", "==2.20.*", ["2.20", "found none"]),
        ("2.22", None, ["2.22", "2.19, 2.20, 2.21", "'none'"]),
        ("/no/such", None, ["/no/such", "folder"]),
    ],
)
def test_what_is_missing_is_said_with_the_remedy(sites, setting, range, words):
    with pytest.raises(_find_tensorflow.NotFound) as raised:
        _find_tensorflow.resolve(setting)
    assert raised.value.range == range
    for word in words:
        assert word in str(raised.value)


def test_the_finder_runs_on_its_own_and_agrees_with_tensorflow():
    import tensorflow as tf

    finder = ROOT / "python/fused_rnn/_find_tensorflow.py"
    lines = subprocess.run(
        [sys.executable, finder], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert lines == [os.path.dirname(tf.__file__), tf.__version__]


def test_the_supported_versions_are_said_the_same_everywhere():
    versions = _find_tensorflow.SUPPORTED
    major, last = versions[-1].split(".")
    assert _find_tensorflow.SUPPORTED_RANGE == (
        f">={versions[0]},<{major}.{int(last) + 1}"
    )
    assert ", ".join(versions) in (ROOT / "README.md").read_text()


# ---- The build's hooks, in processes that have not loaded distutils yet.

BACKEND = f"""
import importlib.util, sys, setuptools
OVERRIDES
spec = importlib.util.spec_from_file_location("setup", {str(ROOT / "setup.py")!r})
setup = importlib.util.module_from_spec(spec)
spec.loader.exec_module(setup)
# Without setuptools' own part, which reads and writes the checkout.
setup.build_meta.get_requires_for_build_wheel = lambda *_: ["wheel"]
setup.build_meta.build_wheel = lambda *_, **__: "built"
def hide_tensorflow():
    setup.finder.site_folders = lambda: []
    sys.path[:] = [p for p in sys.path if "site-packages" not in p]
"""


def run_backend(code, overrides="", **environment):
    """The exit status and the output of code that uses the backend."""
    process = subprocess.run(
        [sys.executable, "-c", BACKEND.replace("OVERRIDES", overrides) + code],
        env={**os.environ, "FUSED_RNN_TENSORFLOW": "", **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    return process.returncode, process.stdout.strip()


def test_no_tensorflow_is_fetched_where_there_is_one():
    minor = _find_tensorflow.resolve().minor
    status, printed = run_backend(
        "print(setup.get_requires_for_build_wheel());"
        "print(*setup.extras()['cpu'], *setup.extras()['gpu'], sep='\\n')"
    )
    assert status == 0
    assert printed.splitlines() == [
        "['wheel']",
        f"tensorflow-cpu=={minor}.*; platform_machine == 'x86_64'",
        f"tensorflow=={minor}.*; platform_machine != 'x86_64'",
        f"tensorflow[and-cuda]=={minor}.*",
    ]


@pytest.mark.parametrize(
    "setting, range, extra",
    [
        ("", ">=2.19,<2.22", ">=2.19,<2.22"),
        ("2.20", "==2.20.*", "==2.20.*"),
        ("none", None, ">=2.19,<2.22"),
    ],
)
def test_one_is_fetched_where_there_is_none(setting, range, extra):
    status, printed = run_backend(
        "hide_tensorflow();"
        "print(setup.get_requires_for_build_wheel());"
        "print(setup.get_requires_for_build_editable());"
        "print(setup.extras()['gpu'][0])",
        FUSED_RNN_TENSORFLOW=setting,
    )
    wanted = ["wheel"]
    if range:
        wanted.insert(0, _find_tensorflow.DISTRIBUTION + range)
    assert printed.splitlines() == [
        str(wanted), str(wanted), f"tensorflow[and-cuda]{extra}"
    ]
    assert status == 0


@pytest.fixture
def programs(tmp_path):
    """A folder with a compiler and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "c++").symlink_to(shutil.which("c++"))
    return folder


REQUIRES = "setup.get_requires_for_build_wheel()"


@pytest.mark.parametrize(
    "code, environment, words",
    [
        (REQUIRES, {"PATH": ""}, ["needs a C++17", "apt-get install g++", "CXX"]),
        (REQUIRES, {"CXX": "/no/g++ -v"}, ["there is no /no/g++. Install"]),
        (
            REQUIRES,
            {"FUSED_RNN_TENSORFLOW": "2.18"},
            ["FUSED_RNN_TENSORFLOW=2.18", "2.19, 2.20, 2.21"],
        ),
        (
            "setup.build_wheel('folder')",
            {"FUSED_RNN_CUDA": "yes"},
            ["FUSED_RNN_CUDA must be auto, on or off, got yes"],
        ),
        (
            "setup.build_wheel('folder')",
            {"PATH": "only a compiler"},
            ["the build needs cmake", "pip install cmake ninja"],
        ),
        (
            "setup.check_tools = lambda: None; hide_tensorflow();"
            "setup.build_wheel('folder')",
            {},
            ["headers of TensorFlow 2.19 or 2.20 or 2.21", "found none"],
        ),
    ],
    ids=[
        "no compiler", "wrong CXX", "setting", "wrong CUDA", "no cmake",
        "no TensorFlow",
    ],
)
def test_what_the_build_lacks_is_said_in_one_line(
    programs, code, environment, words
):
    environment = {"CXX": "", **environment}
    if environment.get("PATH"):
        environment["PATH"] = str(programs)
    status, printed = run_backend(code, **environment)
    assert status == 1
    assert printed.startswith("error: ") and len(printed.splitlines()) == 1
    for word in words:
        assert word in printed


def test_an_old_setuptools_is_refused():
    status, printed = run_backend(
        "", overrides="setuptools.__version__ = '76.1'"
    )
    assert status == 1
    assert printed.startswith("error: the build needs setuptools 77")


def test_what_cmake_says_is_shown_when_it_fails():
    status, printed = run_backend(
        "script = \"print('note'); print('a.cc:1: error: broken'); exit(3)\"\n"
        "try: setup.run('compile', [sys.executable, '-c', script])\n"
        "except setup.CompileError as error: print(error)"
    )
    assert status == 0
    assert printed.startswith("CMake could not compile.")
    assert printed.endswith("a.cc:1: error: broken")


def test_the_source_distribution_is_enough_to_build_and_test(tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(
        ROOT, tree,
        ignore=shutil.ignore_patterns(
            ".git", ".venv*", "build*", "bazel-*", "dist", "*.egg-info",
            "__pycache__", ".hypothesis", ".pytest_cache",
        ),
    )
    (tree / "python/fused_rnn/_stray.so").touch()
    process = subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "-d", str(tmp_path)],
        cwd=tree, capture_output=True, text=True,
    )
    assert process.returncode == 0, process.stderr
    with tarfile.open(tmp_path / f"fused_rnn-{__version__}.tar.gz") as archive:
        packed = {
            member.name.split("/", 1)[1]: member
            for member in archive.getmembers()
            if member.isfile()
        }
        metadata = archive.extractfile(packed["PKG-INFO"]).read().decode()
    # A source distribution is for every supported TensorFlow.
    assert 'tensorflow[and-cuda]<2.22,>=2.19; extra == "gpu"' in metadata
    wanted = {
        str(path.relative_to(ROOT))
        for folder in ("bazel", "cmake", "csrc", "docs", "python", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".cc", ".h", ".md", ".bzl")
        or path.name in ("BUILD", "WORKSPACE")
    } | {
        "BUILD", "CMakeLists.txt", "LICENSE", "README.md", "WORKSPACE",
        "pyproject.toml", "setup.py", ".bazelignore", ".ci/run",
    }
    assert not wanted - set(packed)
    assert not [n for n in packed if n.endswith((".so", "_build_info.json"))]
