"""Flags that BUILD shares with CMakeLists.txt, which says why they are there."""

X86 = "@platforms//cpu:x86_64"

FLAGS = [
    "-std=c++17",
    "-O3",
    "-DNDEBUG",
    "-Wall",
    "-Wextra",
    "-fno-math-errno",
    "-fno-trapping-math",
]

CORE_FLAGS = [
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
]

ISA_FLAGS = {
    "baseline": ["-ffp-contract=off"] + select({
        X86: ["-march=x86-64-v2"],
        "//conditions:default": [],
    }),
    "avx2": ["-march=x86-64-v3", "-ffp-contract=fast"],
    "avx512": [
        "-march=x86-64-v4",
        "-mprefer-vector-width=512",
        "-ffp-contract=fast",
    ],
}
