// A libcublas for tests of core/cuda/cublas.cc on the CPU: what cuBLAS says of
// its functions, by plain loops, and a log of how it was called. Written from
// its documentation; it includes none of its headers.
#include <cstdint>

#include "core/half.h"
#include "core/types.h"

namespace {

using fused_rnn::BFloat16;
using fused_rnn::Compute;
using fused_rnn::Half;

struct Handle {
  void* stream = nullptr;
  void* workspace = nullptr;
};
int created = 0;
int computed_as = 0;
void* product_stream = nullptr;

// Columns first: element (i, j) of op(a) [m, k].
template <class E>
Compute<E> element(const void* a, bool transposed, std::int64_t rows,
                   std::int64_t i, std::int64_t j) {
  return fused_rnn::to_compute(static_cast<const E*>(
      a)[transposed ? i * rows + j : j * rows + i]);
}

template <class E>
void multiply(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k,
              const void* alpha, const void* a, std::int64_t lda, const void* b,
              std::int64_t ldb, const void* beta, void* c, std::int64_t ldc) {
  using C = Compute<E>;
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < m; ++i) {
      C sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += element<E>(a, ta, lda, i, l) * element<E>(b, tb, ldb, l, j);
      C& to = static_cast<C*>(c)[j * ldc + i];
      const C kept = *static_cast<const C*>(beta);
      // A beta of 0 reads no c, whatever it holds.
      to = *static_cast<const C*>(alpha) * sum + (kept == 0 ? 0 : kept * to);
    }
}

enum Status { kSuccess = 0, kNotInitialized = 1, kInvalid = 7 };

}  // namespace

extern "C" {

int cublasCreate_v2(void** handle) {
  ++created;
  *handle = new Handle;
  return kSuccess;
}

// Takes the workspace away.
int cublasSetStream_v2(void* handle, void* stream) {
  *static_cast<Handle*>(handle) = {stream, nullptr};
  return kSuccess;
}

int cublasSetWorkspace_v2(void* handle, void* workspace, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0 || bytes == 0)
    return kInvalid;
  static_cast<Handle*>(handle)->workspace = workspace;
  return kSuccess;
}

const char* cublasGetStatusString(int status) {
  return status == kInvalid ? "invalid value" : "another status";
}

int cublasGemmEx_64(void* handle, int ta, int tb, std::int64_t m,
                    std::int64_t n, std::int64_t k, const void* alpha,
                    const void* a, int a_type, std::int64_t lda, const void* b,
                    int b_type, std::int64_t ldb, const void* beta, void* c,
                    int c_type, std::int64_t ldc, int compute, int) {
  const Handle& h = *static_cast<Handle*>(handle);
  if (!h.workspace) return kNotInitialized;
  product_stream = h.stream;
  computed_as = compute;
  if (m <= 0 || n <= 0 || k <= 0 || lda < (ta ? k : m) ||
      ldb < (tb ? n : k) || ldc < m || a_type != b_type)
    return kInvalid;
  const auto run = [&](auto zero) {
    multiply<decltype(zero)>(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c,
                             ldc);
    return kSuccess;
  };
  // The types of a and b, of c and of the sums that go together.
  constexpr int k32 = 0, k64 = 1, k16 = 2, kB16 = 14;
  constexpr int kSum32 = 68, kSum64 = 70, kSumTf32 = 77;
  if (a_type == k32 && c_type == k32 &&
      (compute == kSum32 || compute == kSumTf32))
    return run(0.0f);
  if (a_type == k64 && c_type == k64 && compute == kSum64) return run(0.0);
  if (a_type == k16 && c_type == k32 && compute == kSum32) return run(Half());
  if (a_type == kB16 && c_type == k32 && compute == kSum32)
    return run(BFloat16());
  return kInvalid;
}

int fake_created() { return created; }
int fake_computed_as() { return computed_as; }
void* fake_stream() { return product_stream; }

}  // extern "C"
