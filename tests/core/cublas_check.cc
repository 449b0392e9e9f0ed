// core/cuda/cublas.cc against plain loops, on fake_cublas.cc: tests/test_cublas.py
// builds and runs it where there are headers of CUDA.
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/cuda/cublas.h"
#include "core/half.h"
#include "core/plain_product.h"

namespace {
int current_device = 0;
}  // namespace

// What it asks of the CUDA runtime.
extern "C" int cudaGetDevice(int* device) {
  *device = current_device;
  return 0;
}
extern "C" const char* cudaGetErrorString(int) { return "an error"; }

namespace fused_rnn {
namespace test {
namespace {

int stream_place;
void* const kStream = &stream_place;
alignas(256) char workspace[256];

// What the library that cublas.cc opened says of itself.
template <class Result>
Result ask(const char* name) {
  static void* const library = dlopen("libcublas.so.12", RTLD_NOW);
  return reinterpret_cast<Result (*)()>(dlsym(library, name))();
}

cuda::Device begin(bool tf32) {
  cuda::Device device;
  const cuda::Error error =
      cuda::begin_cublas(kStream, workspace, tf32, &device);
  CHECK_THAT(!error, "%s: %s", error.where, error.what);
  return device;
}

template <class E>
void test_products() {
  const auto fill = [](Index n) {
    std::vector<E> values(n);
    for (Index i = 0; i < n; ++i)
      values[i] = from_compute<E>(static_cast<Compute<E>>(i * 7 % 17) - 8);
    return values;
  };
  const cuda::Device device = begin(false);
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (const Index gap : {0, 3})
          for (const Index m : {1, 4}) {
            cuda::Product p;
            p.type = cuda::ElementOf<E>::value;
            p.transpose_a = ta;
            p.transpose_b = tb;
            p.accumulate = accumulate;
            p.m = m;
            p.n = 5;
            p.k = 3;
            p.a_row = (ta ? p.m : p.k) + gap;
            p.b_row = (tb ? p.k : p.n) + gap;
            p.c_row = p.n + gap;
            const auto a = fill(8 * p.a_row), b = fill(8 * p.b_row);
            std::vector<Compute<E>> want(p.m * p.c_row, 2), got = want;
            p.a = a.data();
            p.b = b.data();
            Index products = 0;
            p.c = want.data();
            CHECK_THAT(!plain_product(&products, p), "the plain product");
            p.c = got.data();
            const cuda::Error error = device.product(device.context, p);
            CHECK_THAT(!error, "%s: %s", error.where, error.what);
            // Small integers: all sums are exact.
            CHECK_THAT(got == want, "%d bytes, %d %d %d: another product",
                       static_cast<int>(sizeof(E)), ta, tb, accumulate);
            CHECK_THAT(ask<void*>("fake_stream") == kStream, "stream");
          }
  cuda::end_cublas(device);
}

void test_rest() {
  cuda::Product p;
  float number = 1;
  p.m = p.n = p.k = p.a_row = p.b_row = p.c_row = 1;
  p.a = p.b = p.c = &number;
  for (const bool tf32 : {false, true}) {
    const cuda::Device device = begin(tf32);
    CHECK_THAT(!device.product(device.context, p), "no product");
    cuda::end_cublas(device);
    CHECK_THAT(ask<int>("fake_computed_as") == (tf32 ? 77 : 68), "TF32");
  }
  CHECK_THAT(ask<int>("fake_created") == 1, "more than a handle");
  current_device = 3;
  for (int i = 0; i < 2; ++i) cuda::end_cublas(begin(false));
  CHECK_THAT(ask<int>("fake_created") == 2, "not a handle a device");
  // An error is handed on, and does not keep the handle from the next call.
  cuda::Device device;
  const cuda::Error error =
      cuda::begin_cublas(kStream, workspace + 1, false, &device);
  CHECK_THAT(error && std::string(error.what) == "invalid value", "no error");
  device = begin(false);
  p.a_row = 0;
  const cuda::Error refused = device.product(device.context, p);
  CHECK_THAT(refused && std::string(refused.where) == "cublasGemmEx",
             "no error");
  cuda::end_cublas(device);
}

}  // namespace
}  // namespace test
}  // namespace fused_rnn

int main(int count, char**) {
  using namespace fused_rnn;
  // With an argument: there is no cuBLAS.
  if (count > 1) {
    cuda::Device device;
    const cuda::Error error =
        cuda::begin_cublas(nullptr, nullptr, false, &device);
    CHECK_THAT(error && std::string(error.what).find("libcublas.so.12") !=
                            std::string::npos, "no error");
    return test::report("cublas_check");
  }
  test::test_products<float>();
  test::test_products<double>();
  test::test_products<Half>();
  test::test_products<BFloat16>();
  test::test_rest();
  return test::report("cublas_check");
}
