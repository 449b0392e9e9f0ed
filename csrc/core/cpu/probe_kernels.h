// The inner loops of core/probe.h, once for each instruction set.
#ifndef FUSED_RNN_CORE_CPU_PROBE_KERNELS_H_
#define FUSED_RNN_CORE_CPU_PROBE_KERNELS_H_

#include "core/types.h"

namespace fused_rnn {

struct ProbeKernels {
  // Does multiply-adds on registers; returns how many, counted by element. The
  // sums go to `sums`, kProbeSums of them, so that no compiler drops the work.
  Index (*multiply_add)(Index rounds, float* sums);
  // Reads n values, a multiple of kProbeSums.
  void (*read)(const float* values, Index n, float* sums);
};

// Elements of all accumulators, with the widest vectors.
constexpr Index kProbeSums = 256;

namespace isa_baseline {
ProbeKernels probe_kernels();
}
#if defined(__x86_64__)
namespace isa_avx2 {
ProbeKernels probe_kernels();
}
namespace isa_avx512 {
ProbeKernels probe_kernels();
}
#endif

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_PROBE_KERNELS_H_
