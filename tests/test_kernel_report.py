"""benchmarks/kernels.py: what it reads of compilers, and its tables."""

import pytest

import helpers_cuda  # noqa: F401  finds the folder of benchmarks

import kernels

NAME = (
    "_ZN9fused_rnn4cuda24_GLOBAL__N__0_8_gates_cu13forward_gatesINS0_6CellOf"
    "ILNS_4CellE0ELb1EEELi0ELi4EfEEvNS0_11ForwardStepIT2_EE"
)
PRINTED = f"""\
ptxas info    : Compiling entry function '{NAME}' for 'sm_80'
ptxas info    : Function properties for {NAME}
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 64 bytes smem, 700 bytes
ptxas info    : Compiling entry function '{NAME}' for 'sm_90'
ptxas info    : Function properties for {NAME}
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 42 registers, 700 bytes cmem[0]
"""


def test_resources():
    found = kernels.resources(PRINTED)
    assert found == {
        (NAME, 80): {"stack": 8, "spilled": 16, "registers": 40, "shared": 64},
        (NAME, 90): {"stack": 0, "spilled": 0, "registers": 42, "shared": 0},
    }


def test_accesses(tmp_path):
    program = tmp_path / "cuobjdump"
    program.write_text(f"""#!/bin/sh
cat <<END
arch = sm_80
        Function : {NAME}
        /*0010*/  LDG.E.128 R4, [R2.64] ;
        /*0020*/  @!P0 LDG.E.128.CONSTANT R8, [R2.64] ;
        /*0030*/  STG.E.64 [R2.64], R4 ;
        /*0040*/  LDG.E.U8 R3, [R2.64] ;
        /*0050*/  LDG.E R3, [R2.64] ;
        /*0060*/  LDS.128 R3, [R2] ;
        /*0070*/  IADD3 R1, R1, R2, R3 ;
END
""")
    program.chmod(0o755)
    assert kernels.accesses("library", str(program)) == {
        (NAME, 80): {"LDG 16": 2, "STG 8": 1, "LDG 1": 1, "LDG 4": 1}
    }


@pytest.mark.parametrize(
    "name, short",
    [
        (NAME, "forward_gates<GRU, reset after, 0, 4, float>"),
        ("_ZN9fused_rnn4cuda12_GLOBAL__N_15clearEPj", "clear"),
    ],
)
def test_names(name, short):
    assert kernels.demangled([name]) == {name: short}


def test_tables():
    wide, single = (
        f"forward_gates<GRU, reset after, 0, {width}, float>" for width in (4, 1)
    )
    values = {"registers": "40 42", "shared": "0 0", "stack": "0 0",
              "spilled": "0 0", "accesses": {"LDG 16": "7 7", "STG 16": "2 3"}}
    record = {"nvcc": "13.0.1", "date": "2026-01-31", "architectures": [80, 90],
              "kernels": {wide: values, single: values}}
    assert (
        "| `forward_gates`, wide | 1 | 40 – 42 | 0 | 0 | 0 |"
        in kernels.page(record, "resources")
    )
    assert f"| `{wide}` | 40 | 42 |" in kernels.page(record, "registers")
    text = kernels.page(record, "accesses")
    assert f"| `{wide}` | 9 – 10 |  |  |  |  |" in text and single not in text
