// What the calls of the core share: memory of their parts, and their entry
// points.
#ifndef FUSED_RNN_CORE_CPU_CALL_H_
#define FUSED_RNN_CORE_CPU_CALL_H_

#include "core/cpu/workspace.h"
#include "core/rnn.h"
#include "core/parallel.h"

namespace fused_rnn {

// Scratch of each part of a call, one after another. Scratch is the call's
// struct of pointers; call.take_scratch(Workspace&, Scratch&) fills it.
template <class Scratch>
class PartScratch {
 public:
  template <class Call>
  void take(Workspace& workspace, const Call& call, Index parts) {
    Scratch unused;
    Workspace own(nullptr);
    call.take_scratch(own, unused);
    bytes_ = static_cast<Index>(own.bytes());
    base_ = workspace.take<char>(parts * bytes_);
  }
  template <class Call>
  Scratch of(const Call& call, Index part) const {
    Scratch scratch;
    Workspace own(base_ + part * bytes_);
    call.take_scratch(own, scratch);
    return scratch;
  }

 private:
  char* base_ = nullptr;
  Index bytes_ = 0;
};

// A call is made of its arguments and threads, has plan() and layout(), and
// run() when both have been: here once to count and once to run.
template <class Call, class Arguments>
std::size_t count_workspace(const Arguments& arguments,
                            const Threads& threads) {
  Call call(arguments, threads);
  Workspace workspace(nullptr);
  call.plan();
  call.layout(workspace);
  return workspace.bytes();
}
template <class Call, class Arguments>
void run_call(const Arguments& arguments, const Threads& threads, void* base) {
  Call call(arguments, threads);
  Workspace workspace(base);
  call.plan();
  call.layout(workspace);
  call.run();
}

}  // namespace fused_rnn

// Defines workspace_bytes(const Arguments<T>&, ...) and `function` by Call<T>,
// for all element types.
#define FUSED_RNN_DEFINE_CALL(function, Arguments, Call)                     \
  template <class T>                                                         \
  std::size_t workspace_bytes(const Arguments<T>& arguments,                 \
                              const Threads& threads) {                      \
    return count_workspace<Call<T>>(arguments, threads);                     \
  }                                                                          \
  template <class T>                                                         \
  void function(const Arguments<T>& arguments, const Threads& threads,       \
                void* workspace) {                                           \
    run_call<Call<T>>(arguments, threads, workspace);                        \
  }                                                                          \
  FUSED_RNN_INSTANTIATE_CALL(function, Arguments, float)                     \
  FUSED_RNN_INSTANTIATE_CALL(function, Arguments, double)                    \
  FUSED_RNN_INSTANTIATE_CALL(function, Arguments, Half)                      \
  FUSED_RNN_INSTANTIATE_CALL(function, Arguments, BFloat16)
#define FUSED_RNN_INSTANTIATE_CALL(function, Arguments, T)                   \
  template std::size_t workspace_bytes(const Arguments<T>&, const Threads&); \
  template void function(const Arguments<T>&, const Threads&, void*);

#endif  // FUSED_RNN_CORE_CPU_CALL_H_
