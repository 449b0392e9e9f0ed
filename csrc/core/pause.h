// What a thread does between two looks at something it waits for.
#ifndef FUSED_RNN_CORE_PAUSE_H_
#define FUSED_RNN_CORE_PAUSE_H_

namespace fused_rnn {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_PAUSE_H_
