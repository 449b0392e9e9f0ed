// Which calls the persistent kernels take, and how their grids share them.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/cuda/cells.h"
#include "core/cuda/persistent.h"
#include "core/cuda/persistent_block.h"

namespace fused_rnn {
namespace cuda {
namespace {

// A counter of 32 bits tells arrivals apart up to 2^31: two meetings a step of
// up to 1024 blocks.
constexpr Index kMostSteps = Index{1} << 20;

bool wanted() {
  const char* const value = std::getenv("FUSED_RNN_CUDA_PERSISTENT");
  return value && *value && std::strcmp(value, "0") != 0;
}

FUSED_RNN_KERNEL(1, 1) clear(unsigned* count) { *count = 0; }

}  // namespace

template <class T>
PersistentPlan plan_persistent(const RnnShape& shape, const RnnOptions& options,
                               bool dropout) {
  const auto within = [](Index n, Index least, Index most) {
    return least <= n && n <= most;
  };
  // A mask of dropout would need an operand a gate. 2^20 rows or units, counted
  // in 32 bits here, would not fit anyway.
  if (!wanted() || dropout || !within(shape.steps, 2, kMostSteps) ||
      !within(shape.batch, 1, 1 << 20) || !within(shape.units, 1, 1 << 20))
    return {};
  const CooperativeLimits limits = cooperative_limits();
  if (limits.blocks == 0) return {};
  const int units = static_cast<int>(shape.units);
  PersistentPlan plan;
  plan.threads = limits.threads;
  plan.units = (units + limits.blocks - 1) / limits.blocks;
  if (plan.units > plan.threads) return {};
  plan.rows = std::min(static_cast<int>(shape.batch),
                       plan.threads / plan.units);
  for (;; plan.rows = (plan.rows + 1) / 2) {
    plan.splits = 1;
    // A warp, which reads neighbouring terms, is enough for one sum.
    while (plan.splits < 32 &&
           2 * plan.splits * plan.rows * plan.units <= plan.threads)
      plan.splits *= 2;
    plan.shared_bytes = with_cell(options, [&](auto cell) {
      return PersistentBlock<decltype(cell)::kGates, T>::bytes(plan, units);
    });
    if (plan.shared_bytes <= limits.shared_bytes) break;
    if (plan.rows == 1) return {};
  }
  plan.blocks = (units + plan.units - 1) / plan.units;
  return plan;
}

#define FUSED_RNN_INSTANTIATE(T)                                              \
  template PersistentPlan plan_persistent<T>(const RnnShape&,                 \
                                             const RnnOptions&, bool dropout);
FUSED_RNN_INSTANTIATE(float)
FUSED_RNN_INSTANTIATE(double)
FUSED_RNN_INSTANTIATE(Half)
FUSED_RNN_INSTANTIATE(BFloat16)
#undef FUSED_RNN_INSTANTIATE

Error launch_clear(unsigned* arrived, void* stream) {
  return launch("clear", clear, dim3(), dim3(), stream, arrived);
}

}  // namespace cuda
}  // namespace fused_rnn
