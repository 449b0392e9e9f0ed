// The instruction sets that the core was compiled for, and the one in use.
#ifndef FUSED_RNN_CORE_ISA_H_
#define FUSED_RNN_CORE_ISA_H_

#include <string>
#include <vector>

namespace fused_rnn {

// Names of what was compiled, narrowest first: "baseline", "avx2", "avx512" on
// x86-64; "baseline" elsewhere.
std::vector<std::string> compiled_isas();
// Those of them that this processor runs.
std::vector<std::string> supported_isas();
// The one in use: FUSED_RNN_ISA if set, else the widest supported.
std::string active_isa();
// Empty when FUSED_RNN_ISA is unset or valid; else a sentence that names the
// value and the valid ones. A caller checks this before its first kernel;
// kernels called in spite of it use the widest.
std::string isa_error();
// Switches at run time, for tests and benchmarks; not while a kernel runs.
// Returns "" or the error sentence.
std::string select_isa(const std::string& name);

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_ISA_H_
