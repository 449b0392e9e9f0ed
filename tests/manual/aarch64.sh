#!/usr/bin/env bash
# Builds the core for 64-bit ARM and runs its C++ tests under emulation. Needs
# aarch64-linux-gnu-g++ and qemu-aarch64-static (Debian's
# g++-aarch64-linux-gnu and qemu-user-static); some ten minutes.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_EXE_LINKER_FLAGS=-static \
  -DFUSED_RNN_TF=OFF -DFUSED_RNN_PYTHON=OFF -DFUSED_RNN_TESTS=ON
cmake --build "$build" --parallel 2
for program in simd_test parallel_test rnn_test; do
  qemu-aarch64-static "$build/$program"
done
