"""The core's C++ tests, plain and under sanitizers, and its object files."""

import json
import re
import shutil
import subprocess

import native
import pytest

PROGRAMS = sorted(
    path.stem for path in (native.ROOT / "tests/core").glob("*_test.cc")
)


def compiler():
    """The compiler that CMake takes."""
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return name
    pytest.fail("there is no C++ compiler")


def offers(sanitize, folder):
    """Whether this compiler's programs run under the sanitizer."""
    source, program = folder / "probe.cc", folder / "probe"
    source.write_text("int main() { return 0; }\n")
    command = [compiler(), f"-fsanitize={sanitize}", source, "-o", program]
    return (
        subprocess.run(command, capture_output=True).returncode == 0
        and subprocess.run([program], capture_output=True).returncode == 0
    )


def test_there_are_programs():
    assert PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("sanitize", ["", "address,undefined", "thread"])
def test_program(sanitize, program, tmp_path):
    if sanitize and not offers(sanitize, tmp_path):
        pytest.skip(f"{compiler()} does not offer -fsanitize={sanitize} here")
    native.output([native.core(sanitize) / program])


def test_benchmark():
    """It calls every kernel of the table as the core does."""
    found = json.loads(native.output([native.core() / "core_benchmark", 1e-5]))
    assert found["instruction set"] and found["operations"] > 1e7
    results = found["results"]
    kernels = {result["kernel"] for result in results}
    assert "tile" in kernels
    for way in ("forward", "backward"):
        for cell in ("GRU, reset after", "LSTM", "simple RNN"):
            assert f"{way} {cell}" in kernels
    for result in results:
        assert result["seconds"] > 0 and result["bytes"] > 0
        assert result["compute seconds"] + result["read seconds"] > 0


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_objects_of_an_instruction_set_hold_no_weak_symbols(isa):
    """The linker keeps one copy of a weak symbol, perhaps this one.

    Then code for every processor would contain instructions of one.
    """
    folder = native.core() / f"CMakeFiles/fused_rnn_isa_{isa}.dir"
    if isa != "baseline" and not folder.exists():
        pytest.skip("not a processor that has this instruction set")
    objects = sorted(folder.rglob("*.o"))
    assert objects
    for path in objects:
        symbols = re.findall(
            r"^[0-9a-f]+ (\w) (.*)$",
            native.output(["nm", "--defined-only", "-C", path]),
            re.MULTILINE,
        )
        assert symbols
        foreign = [
            f"{kind} {name}"
            for kind, name in symbols
            # Local symbols are lower case; d, r and the like of the compiler's.
            if kind in "VWuvw"
            or (kind.isupper() and f"fused_rnn::isa_{isa}::" not in name)
        ]
        assert not foreign, f"{path.name}: {foreign}"
