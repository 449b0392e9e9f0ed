// Scratch memory laid out from one block; the same code that lays it out
// counts it.
#ifndef FUSED_RNN_CORE_CPU_WORKSPACE_H_
#define FUSED_RNN_CORE_CPU_WORKSPACE_H_

#include "core/rnn.h"
#include "core/types.h"

namespace fused_rnn {

inline Index round_up(Index n, Index multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
inline Index ceil_div(Index n, Index d) { return (n + d - 1) / d; }

class Workspace {
 public:
  // With a null base it only counts.
  explicit Workspace(void* base) : base_(static_cast<char*>(base)) {}

  template <class U>
  U* take(Index count) {
    char* at = base_ ? base_ + used_ : nullptr;
    used_ += round_up(count * static_cast<Index>(sizeof(U)),
                      static_cast<Index>(kWorkspaceAlignment));
    return reinterpret_cast<U*>(at);
  }
  std::size_t bytes() const { return static_cast<std::size_t>(used_); }

 private:
  char* base_;
  Index used_ = 0;
};

// Elements from one scratch row of n to the next: whole vectors, and off the
// multiples of 4 KB at which rows would share one set of the L1 cache.
template <class C>
Index scratch_row(Index n, int width) {
  const Index row = round_up(n, width);
  return row * static_cast<Index>(sizeof(C)) % 4096 == 0 ? row + width : row;
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_WORKSPACE_H_
