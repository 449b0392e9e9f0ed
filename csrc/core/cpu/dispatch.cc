// Picks the widest instruction set that was compiled and that the processor
// runs; FUSED_RNN_ISA overrides.
#include <atomic>
#include <cstdlib>

#include "core/cpu/kernel_tables.h"
#include "core/cpu/kernels.h"
#include "core/isa.h"

namespace fused_rnn {
namespace {

struct InstructionSet {
  const char* name;
  bool (*runs_here)();
  void (*fill)(KernelTables&);
};

bool always() { return true; }

#if defined(__x86_64__)
// All of x86-64-v3 and v4 that the compiler may use, not only the vector part.
bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("f16c");
}
bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

// Narrowest first.
const InstructionSet kCompiled[] = {
    {"baseline", &always, &isa_baseline::fill_tables},
#if defined(__x86_64__)
    {"avx2", &runs_avx2, &isa_avx2::fill_tables},
    {"avx512", &runs_avx512, &isa_avx512::fill_tables},
#endif
};
constexpr int kCount = sizeof(kCompiled) / sizeof(kCompiled[0]);

int widest_supported() {
  for (int i = kCount - 1; i > 0; --i)
    if (kCompiled[i].runs_here()) return i;
  return 0;
}

// The index of a name that is compiled and runs here, or -1.
int find(const std::string& name) {
  for (int i = 0; i < kCount; ++i)
    if (name == kCompiled[i].name && kCompiled[i].runs_here()) return i;
  return -1;
}

std::string refusal(const std::string& where, const std::string& name) {
  std::string valid;
  for (const std::string& isa : supported_isas())
    valid += (valid.empty() ? "" : ", ") + isa;
  return where + "'" + name +
         "' is not an instruction set of this build that this processor runs; "
         "valid are: " + valid;
}

struct Dispatch {
  KernelTables tables[kCount];
  std::atomic<int> active{0};
  std::string error;

  Dispatch() {
    // Even filling a table executes that set's instructions.
    for (int i = 0; i < kCount; ++i)
      if (kCompiled[i].runs_here()) kCompiled[i].fill(tables[i]);
    active = widest_supported();
    const char* wanted = std::getenv("FUSED_RNN_ISA");
    if (wanted == nullptr || *wanted == '\0') return;
    const int found = find(wanted);
    if (found >= 0)
      active = found;
    else
      error = refusal("FUSED_RNN_ISA=", wanted);
  }
  const KernelTables& table() const {
    return tables[active.load(std::memory_order_relaxed)];
  }
};

Dispatch& dispatch() {
  static Dispatch instance;
  return instance;
}

}  // namespace

std::vector<std::string> compiled_isas() {
  std::vector<std::string> names;
  for (const InstructionSet& isa : kCompiled) names.push_back(isa.name);
  return names;
}

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (const InstructionSet& isa : kCompiled)
    if (isa.runs_here()) names.push_back(isa.name);
  return names;
}

std::string active_isa() { return kCompiled[dispatch().active].name; }

std::string isa_error() { return dispatch().error; }

std::string select_isa(const std::string& name) {
  const int found = find(name);
  if (found < 0) return refusal("", name);
  dispatch().active = found;
  return "";
}

template <>
const Kernels<float>& kernels<float>() {
  return dispatch().table().of_float;
}
template <>
const Kernels<double>& kernels<double>() {
  return dispatch().table().of_double;
}
template <>
const Kernels<Half>& kernels<Half>() {
  return dispatch().table().of_half;
}
template <>
const Kernels<BFloat16>& kernels<BFloat16>() {
  return dispatch().table().of_bfloat16;
}

}  // namespace fused_rnn
