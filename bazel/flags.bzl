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
    "-ffp-contract=off",
]

CORE_FLAGS = [
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
]

ISA_FLAGS = {
    "baseline": select({
        X86: ["-march=x86-64-v2"],
        "//conditions:default": [],
    }),
    "avx2": ["-march=x86-64-v3"],
    "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
