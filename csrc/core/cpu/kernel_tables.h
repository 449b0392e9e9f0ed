// The tables of one instruction set, and who fills them.
#ifndef FUSED_RNN_CORE_CPU_KERNEL_TABLES_H_
#define FUSED_RNN_CORE_CPU_KERNEL_TABLES_H_

#include "core/cpu/kernels.h"

namespace fused_rnn {

struct KernelTables {
  Kernels<float> of_float;
  Kernels<double> of_double;
  Kernels<Half> of_half;
  Kernels<BFloat16> of_bfloat16;
};

// One definition for each instruction set compiled, all from kernels_isa.cc.
namespace isa_baseline {
void fill_tables(KernelTables&);
}
#if defined(__x86_64__)
namespace isa_avx2 {
void fill_tables(KernelTables&);
}
namespace isa_avx512 {
void fill_tables(KernelTables&);
}
#endif

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_KERNEL_TABLES_H_
