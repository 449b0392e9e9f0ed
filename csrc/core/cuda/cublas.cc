// The cuBLAS that TensorFlow, torch or cupy has loaded. Its headers are used
// for types and names alone: nothing links it, and any of the major versions
// named here serves, whatever CUDA this file was compiled with.
#include "core/cuda/cublas.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

namespace fused_rnn {
namespace cuda {
namespace {

// Those with the functions on 64-bit sizes, newest last.
constexpr const char* kNames[] = {"libcublas.so.12", "libcublas.so.13"};

struct Cublas {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasGemmEx_64) gemm = nullptr;
  decltype(&cublasGetStatusString) text = nullptr;
  explicit operator bool() const {
    return create && set_stream && set_workspace && gemm && text;
  }
};

template <class Function>
void find(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
}

Cublas open_cublas() {
  Cublas cublas;
  // First one that is loaded, then one that the system finds.
  for (const int only_loaded : {RTLD_NOLOAD, 0}) {
    for (const char* name : kNames) {
      void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | only_loaded);
      if (!handle) continue;
      find(handle, "cublasCreate_v2", &cublas.create);
      find(handle, "cublasSetStream_v2", &cublas.set_stream);
      find(handle, "cublasSetWorkspace_v2", &cublas.set_workspace);
      find(handle, "cublasGemmEx_64", &cublas.gemm);
      find(handle, "cublasGetStatusString", &cublas.text);
      if (cublas) return cublas;
    }
  }
  return {};
}

const Cublas& cublas() {
  static const Cublas opened = open_cublas();
  return opened;
}

Error error_of(const char* where, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return {where, cublas().text(status)};
}

// A device's handle, and who uses it now.
struct Handle {
  std::mutex mutex;
  cublasHandle_t handle = nullptr;
  bool tf32 = false;
};

Handle& handle_of(int device) {
  static std::mutex mutex;
  // Never destroyed: CUDA may have ended before this would be.
  static auto* const handles = new std::map<int, std::unique_ptr<Handle>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Handle>& handle = (*handles)[device];
  if (!handle) handle = std::make_unique<Handle>();
  return *handle;
}

struct Types {
  cudaDataType_t ab;
  cudaDataType_t c;
  cublasComputeType_t compute;
};

Types types_of(Element type, bool tf32) {
  switch (type) {
    case Element::kFloat64:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case Element::kFloat16:
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Element::kBFloat16:
      return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Element::kFloat32:
      break;
  }
  return {CUDA_R_32F, CUDA_R_32F,
          tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
}

// cuBLAS counts columns first: it sees every matrix transposed, and
// cᵀ = bᵀ·aᵀ.
Error product(void* context, const Product& p) {
  const Handle& h = *static_cast<Handle*>(context);
  const Types types = types_of(p.type, h.tf32);
  const float one = 1, zero = 0;
  const double one64 = 1, zero64 = 0;
  const bool is64 = p.type == Element::kFloat64;
  const void* const alpha = is64 ? static_cast<const void*>(&one64) : &one;
  const void* const accumulated = alpha;
  const void* const fresh = is64 ? static_cast<const void*>(&zero64) : &zero;
  const auto operation = [](bool transpose) {
    return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  return error_of(
      "cublasGemmEx",
      cublas().gemm(h.handle, operation(p.transpose_b),
                    operation(p.transpose_a), p.n, p.m, p.k, alpha, p.b,
                    types.ab, p.b_row, p.a, types.ab, p.a_row,
                    p.accumulate ? accumulated : fresh, p.c, types.c, p.c_row,
                    types.compute, CUBLAS_GEMM_DEFAULT));
}

Error set(Handle& h, void* stream, void* workspace) {
  if (!h.handle)
    FUSED_RNN_TRY(error_of("cublasCreate", cublas().create(&h.handle)));
  // The stream first: setting it takes the workspace away.
  const auto of_caller = static_cast<cudaStream_t>(stream);
  FUSED_RNN_TRY(error_of("cublasSetStream",
                         cublas().set_stream(h.handle, of_caller)));
  return error_of("cublasSetWorkspace",
                  cublas().set_workspace(h.handle, workspace, kCublasBytes));
}

}  // namespace

Error begin_cublas(void* stream, void* workspace, bool tf32, Device* device) {
  if (!cublas())
    return {"matrix products",
            "there is no libcublas.so.12 or libcublas.so.13; TensorFlow, torch "
            "and cupy load one when they find a GPU"};
  int index = 0;
  const cudaError_t result = cudaGetDevice(&index);
  if (result != cudaSuccess)
    return {"cudaGetDevice", cudaGetErrorString(result)};
  Handle& h = handle_of(index);
  h.mutex.lock();
  h.tf32 = tf32;
  if (const Error error = set(h, stream, workspace)) {
    h.mutex.unlock();
    return error;
  }
  *device = {stream, product, &h};
  return {};
}

void end_cublas(const Device& device) {
  static_cast<Handle*>(device.context)->mutex.unlock();
}

}  // namespace cuda
}  // namespace fused_rnn
