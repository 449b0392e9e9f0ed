// What this processor does at most: the limits that kernels are held against.
#ifndef FUSED_RNN_CORE_PROBE_H_
#define FUSED_RNN_CORE_PROBE_H_

#include <cstddef>

namespace fused_rnn {

// Both run for about so many seconds on so many threads at once, with the
// instruction set in use, and add up the best millisecond of every thread.

// Floating-point operations a second, of float multiply-adds on registers; a
// multiply-add counts as two.
double probe_multiply_adds(int threads, double seconds);

// Bytes a second, read over and over by each thread from as many bytes of its
// own.
double probe_reads(std::size_t bytes, int threads, double seconds);

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_PROBE_H_
