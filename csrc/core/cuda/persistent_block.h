// A block of a persistent kernel: its weights, its products, its barriers.
#ifndef FUSED_RNN_CORE_CUDA_PERSISTENT_BLOCK_H_
#define FUSED_RNN_CORE_CUDA_PERSISTENT_BLOCK_H_

#include "core/cuda/launch.h"
#include "core/cuda/persistent.h"
#include "core/cuda/value.h"

namespace fused_rnn {
namespace cuda {

// 256 threads and one block a processor leave a thread 255 registers.
#define FUSED_RNN_PERSISTENT_KERNEL FUSED_RNN_KERNEL(256, 1)

template <int kGates, class T>
class PersistentBlock {
 public:
  using C = Compute<T>;
  using V = Value<C, 1>;

  // Shared memory: tile, partial sums, weights, in the order of alignment.
  static std::size_t bytes(const PersistentPlan& plan, int depth) {
    return (static_cast<std::size_t>(plan.rows) * (depth + 1) +
            static_cast<std::size_t>(kGates) * plan.threads) *
               sizeof(C) +
           static_cast<std::size_t>(kGates) * plan.units * depth * sizeof(T);
  }

  FUSED_RNN_DEVICE PersistentBlock(const PersistentPlan& plan, int batch,
                                   int depth, unsigned* arrived)
      : plan_(plan), batch_(batch), depth_(depth), arrived_(arrived) {
    thread_ = static_cast<int>(threadIdx.x);
    first_ = static_cast<int>(blockIdx.x) * plan.units;
    units_ = depth - first_ < plan.units ? depth - first_ : plan.units;
    const int item = thread_ / plan.splits;
    split_ = thread_ % plan.splits;
    // Neighbours have one unit: its weights reach them in one access.
    row_ = item % plan.rows;
    unit_ = item / plan.rows;
    tile_ = reinterpret_cast<C*>(shared_memory());
    partial_ = tile_ + plan.rows * (depth + 1);
    weights_ = reinterpret_cast<T*>(partial_ + kGates * plan.threads);
  }

  // Column j of a gate's matrix for each unit j, or with kTransposed row j.
  template <bool kTransposed>
  FUSED_RNN_DEVICE void take_weights(const Rows<const T>* gates) {
    for (int g = 0; g < kGates; ++g)
      for (int i = thread_; i < units_ * depth_; i += plan_.threads) {
        // Neighbours read what lies side by side.
        const int u = kTransposed ? i / depth_ : i % units_;
        const int k = kTransposed ? i % depth_ : i / units_;
        *weight(g, u, k) = kTransposed ? *row_at(gates[g], first_ + u, k)
                                       : *row_at(gates[g], k, first_ + u);
      }
  }

  // body(b, j, sums): sums[g - kFrom] = Σ_k a[b, k]·weight(g, j, k), of gates
  // [kFrom, kEnd).
  template <class Gates, class Body>
  FUSED_RNN_DEVICE void products_of(Rows<const C> a, Body body) {
    constexpr int kFrom = Gates::kFrom, kEnd = Gates::kEnd;
    for (int b = 0; b < batch_; b += plan_.rows) {
      C sum[kEnd - kFrom] = {};
      load_tile(a, b);
      for (int g = kFrom; g < kEnd; ++g)
        sum[g - kFrom] = add_terms(a, b, g, sum[g - kFrom]);
      finish(b, sum, body);
    }
  }

  // body(b, j, sum): sum = Σ_g Σ_k a[g][b, k]·weight(g, j, k).
  template <class Gates, class Body>
  FUSED_RNN_DEVICE void sum_of(const Rows<const C>* a, Body body) {
    for (int b = 0; b < batch_; b += plan_.rows) {
      C sum[1] = {};
      for (int g = Gates::kFrom; g < Gates::kEnd; ++g) {
        if (g > Gates::kFrom) block_barrier();  // until the tile has been read
        load_tile(a[g], b);
        sum[0] = add_terms(a[g], b, g, sum[0]);
      }
      finish(b, sum, [&](Index i, int j, const V (&total)[1]) {
        body(i, j, total[0]);
      });
    }
  }

  // All blocks of the grid meet; what they wrote is visible to each other.
  FUSED_RNN_DEVICE void meet() {
    block_barrier();
    target_ += gridDim.x;
    if (thread_ == 0) {
      add_one_release(arrived_);
      // Of 32 bits only the difference counts.
      while (static_cast<int>(load_acquire(arrived_) - target_) < 0) {
      }
    }
    block_barrier();
  }

 private:
  FUSED_RNN_DEVICE T* weight(int gate, int unit, int k) const {
    return weights_ + (gate * plan_.units + unit) * depth_ + k;
  }
  // A row more than there is data: rows start in different banks.
  FUSED_RNN_DEVICE C* tile(int row) const { return tile_ + row * (depth_ + 1); }

  FUSED_RNN_DEVICE void load_tile(Rows<const C> a, int b) const {
    if (a.data) {
      const int rows = batch_ - b < plan_.rows ? batch_ - b : plan_.rows;
      for (int i = thread_; i < rows * depth_; i += plan_.threads)
        tile(i / depth_)[i % depth_] = *row_at(a, b + i / depth_, i % depth_);
    }
    block_barrier();
  }

  FUSED_RNN_DEVICE bool works(int b) const {
    return unit_ < units_ && b + row_ < batch_;
  }

  FUSED_RNN_DEVICE C add_terms(Rows<const C> a, int b, int gate, C sum) const {
    if (!a.data || !works(b)) return sum;
    const C* const values = tile(row_);
    const T* const weights = weight(gate, unit_, 0);
    for (int k = split_; k < depth_; k += plan_.splits)
      sum = std::fma(values[k], to_compute(weights[k]), sum);
    return sum;
  }

  // Adds up the splits, in their order.
  template <int kSums, class Body>
  FUSED_RNN_DEVICE void finish(int b, const C (&sum)[kSums], Body body) const {
    for (int i = 0; i < kSums; ++i)
      partial_[i * plan_.threads + thread_] = sum[i];
    block_barrier();
    if (split_ > 0 || !works(b)) return;
    V total[kSums];
    for (int i = 0; i < kSums; ++i) {
      total[i] = V(0);
      for (int s = 0; s < plan_.splits; ++s)
        total[i].lane[0] += partial_[i * plan_.threads + thread_ + s];
    }
    body(b + row_, first_ + unit_, total);
  }

  const PersistentPlan plan_;
  const int batch_;
  const int depth_;
  unsigned* const arrived_;
  unsigned target_ = 0;
  int thread_, first_, units_, split_, row_, unit_;
  C* tile_;
  C* partial_;
  T* weights_;
};

// Launches such a kernel, whose blocks meet for the first time.
template <class Arguments>
Error launch_persistent(const char* name, void (*kernel)(Arguments),
                        const Arguments& p, void* stream) {
  FUSED_RNN_TRY(launch_clear(p.arrived, stream));
  return launch_cooperative(name, kernel, p.plan.blocks, p.plan.threads,
                            p.plan.shared_bytes, stream, p);
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_PERSISTENT_BLOCK_H_
