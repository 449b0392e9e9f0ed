// What the calls share on the host: views of the caller's rows as matrices, the
// products of gates, and the calls' entry points.
#ifndef FUSED_RNN_CORE_CUDA_CALL_H_
#define FUSED_RNN_CORE_CUDA_CALL_H_

#include <algorithm>
#include <functional>
#include <type_traits>

#include "core/cpu/workspace.h"
#include "core/cuda/rnn_cuda.h"
#include "core/cuda/kernels.h"
#include "core/rnn.h"

namespace fused_rnn {
namespace cuda {

template <class T>
constexpr bool kComputesAsStored = std::is_same<T, Compute<T>>::value;

// Rows of a product over many steps, at most: 64 tiles of 128 rows, which with
// a GRU's 3H / 128 tiles of columns keep the 132 or 148 processors of the
// largest GPUs busy from H = 128 on. More would only take more memory.
constexpr Index kChunkRows = 8192;

inline Index chunk_steps(const RnnShape& shape) {
  const Index batch = std::max<Index>(1, shape.batch);
  return std::max<Index>(1, std::min(shape.steps, kChunkRows / batch));
}

// The sizes that kernels count in 32 bits.
inline Error check_sizes(const RnnShape& shape, bool masked) {
  constexpr Index kMost = 0x7fffffff;
  if (shape.batch > kMost || shape.inputs > kMost || shape.units > kMost / 4)
    return {"sizes", "batch size, input size and 4 * units must be below 2^31"};
  if (masked && shape.steps > kMost)
    return {"sizes", "the number of steps must be below 2^31 with a mask"};
  return {};
}

template <class T>
Rows<const T> read_only(const Rows<T>& rows) {
  return {rows.data, rows.row};
}
template <class T>
Rows<T> at_step(const Sequence<T>& s, Index t) {
  return s ? Rows<T>{s.at(t, 0), s.row} : Rows<T>{};
}
inline void set_mask(const Mask& mask, Index t, StepShape* shape) {
  if (!mask.data) return;
  shape->mask = mask.data + t * mask.step;
  shape->mask_row = mask.row;
}

// Rows (t, b) in order of time as the rows of one matrix; null if they do not
// lie so.
template <class T>
Rows<T> as_matrix(const Sequence<T>& s, Index t, Index steps, Index batch,
                  Index width) {
  const Index row = batch == 1 ? s.step : s.row;
  if (steps * batch == 1) return {s.at(t, 0), width};
  if (row < width) return {};
  if (steps > 1 && batch > 1 && s.step != batch * s.row) return {};
  return {s.at(t, 0), row};
}

// c = a·b or c += a·b, [m, n]; a row's length may be anything if it is the
// only one.
template <class E>
Error multiply(const Device& device, bool transpose_a, bool transpose_b,
               bool accumulate, Index m, Index n, Index k, Rows<const E> a,
               Rows<const E> b, Rows<Compute<E>> c) {
  Product p;
  p.type = ElementOf<E>::value;
  p.transpose_a = transpose_a;
  p.transpose_b = transpose_b;
  p.accumulate = accumulate;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a = a.data;
  p.a_row = std::max(a.row, transpose_a ? m : k);
  p.b = b.data;
  p.b_row = std::max(b.row, transpose_b ? k : n);
  p.c = c.data;
  p.c_row = std::max(c.row, n);
  return device.product(device.context, p);
}

// Gates of which one product serves several: their columns lie side by side in
// memory, in any order. A gate's place among them is its slot, in units.
template <class E>
struct GateRuns {
  struct Run {
    int slot = 0;  // of the first gate
    int gates = 0;
    int first = 0;  // that gate
    Rows<const E> matrix;
  };
  Run runs[kMaxGates];
  int size = 0;
  int slot[kMaxGates] = {0, 1, 2, 3};

  // Of gates [first, end). With `apart` each for itself. `beside`, if there,
  // must lie side by side as well.
  void find(const Rows<const E>* gates, int first, int end, Index units,
            bool apart, const Rows<const E>* beside = nullptr) {
    int order[kMaxGates] = {0, 1, 2, 3};
    if (!apart)
      std::sort(order + first, order + end, [&](int a, int b) {
        return std::less<const E*>()(gates[a].data, gates[b].data);
      });
    const auto follows = [&](const Rows<const E>* rows, int a, int b) {
      return rows[b].data == rows[a].data + units && rows[b].row == rows[a].row;
    };
    for (int i = first; i < end; ++i) {
      const int g = order[i];
      slot[g] = i;
      if (i > first && !apart && follows(gates, order[i - 1], g) &&
          (!beside || follows(beside, order[i - 1], g))) {
        ++runs[size - 1].gates;
      } else {
        runs[size++] = {i, 1, g, gates[g]};
      }
    }
  }
};

// Whether all that gate kernels touch lies so that they can be wide.
template <class T>
class Alignment {
 public:
  explicit Alignment(Index units) : wide_(units % kWide<T> == 0) {}
  template <class E>
  void add(const E* p) {
    constexpr auto bytes = kWide<T> * sizeof(E);
    wide_ = wide_ && reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
  }
  template <class E>
  void add(const Rows<E>& rows) {
    add(rows.data);
    wide_ = wide_ && (!rows || rows.row % kWide<T> == 0);
  }
  template <class E>
  void add(const Sequence<E>& s) {
    add(Rows<E>{s.data, s.row});
    wide_ = wide_ && (!s || s.step % kWide<T> == 0);
  }
  template <class Many>
  void add_each(const Many& many) {
    for (const auto& one : many) add(one);
  }
  bool wide() const { return wide_; }

 private:
  bool wide_;
};

// Copies rows of one step.
template <class T, class To>
Error copy_rows(Rows<const T> from, Index rows, Index width, Rows<To> to,
                void* stream) {
  Gather<T, To> g;
  g.steps = 1;
  g.batch = static_cast<int>(rows);
  g.width = static_cast<int>(width);
  g.from = {from.data, 0, from.row};
  g.to = to;
  return launch_gather(g, stream);
}
template <class T>
Error write_rows(Rows<const Compute<T>> from, Index rows, Index width,
                 Rows<T> to, void* stream) {
  Scatter<T> s;
  s.steps = 1;
  s.batch = static_cast<int>(rows);
  s.width = static_cast<int>(width);
  s.from = from;
  s.to = {to.data, 0, to.row};
  return launch_scatter(s, stream);
}

// The recurrent weights in the type that is computed in: in place if they are
// stored so, else converted once a call.
template <class T>
class RecurrentWeights {
 public:
  using C = Compute<T>;

  void take(Workspace& workspace, const RnnWeights<T>& weights, int count,
            Index units) {
    count_ = count;
    if constexpr (kComputesAsStored<T>) {
      std::copy_n(weights.recurrent, count, gates);
    } else {
      C* const converted = workspace.take<C>(count * units * units);
      for (int g = 0; g < count; ++g)
        gates[g] = {converted + g * units, count * units};
    }
  }
  Error prepare(const RnnWeights<T>& weights, Index units, void* stream) const {
    if constexpr (!kComputesAsStored<T>)
      for (int g = 0; g < count_; ++g)
        FUSED_RNN_TRY(copy_rows(weights.recurrent[g], units, units,
                                Rows<C>{const_cast<C*>(gates[g].data),
                                        gates[g].row},
                                stream));
    return {};
  }

  Rows<const C> gates[kMaxGates];

 private:
  int count_ = 0;
};

// The masks of recurrent dropout of the gates that read the state. If they are
// one, so is what the gates read.
template <class T>
class Dropout {
 public:
  Dropout(const Rows<const T>* masks, int gates)
      : there_(masks[0]),
        shared_(std::all_of(masks, masks + gates,
                            [&](const Rows<const T>& mask) {
                              return mask.data == masks[0].data &&
                                     mask.row == masks[0].row;
                            })),
        count_(!there_ ? 0 : shared_ ? 1 : gates) {}

  explicit operator bool() const { return there_; }
  // Whether each gate reads something else.
  bool apart() const { return !shared_; }
  int count() const { return count_; }
  int of(int gate) const { return shared_ ? 0 : gate; }

 private:
  bool there_, shared_;
  int count_;
};

}  // namespace cuda
}  // namespace fused_rnn

// Defines workspace_bytes(const Arguments<T>&) and `function` by Call<T>, which
// is made of the arguments, has layout(Workspace&) and then run(const Device&).
#define FUSED_RNN_DEFINE_CUDA_CALL(function, Arguments, Call)              \
  template <class T>                                                       \
  std::size_t workspace_bytes(const Arguments<T>& arguments) {             \
    Workspace workspace(nullptr);                                          \
    Call<T>(arguments).layout(workspace);                                  \
    return workspace.bytes();                                              \
  }                                                                        \
  template <class T>                                                       \
  Error function(const Arguments<T>& arguments, const Device& device,      \
                 void* base) {                                             \
    FUSED_RNN_TRY(check_sizes(arguments.shape, arguments.mask.data));      \
    Workspace workspace(base);                                             \
    Call<T> call(arguments);                                               \
    call.layout(workspace);                                                \
    return call.run(device);                                               \
  }                                                                        \
  FUSED_RNN_INSTANTIATE_CUDA_CALL(function, Arguments, float)              \
  FUSED_RNN_INSTANTIATE_CUDA_CALL(function, Arguments, double)             \
  FUSED_RNN_INSTANTIATE_CUDA_CALL(function, Arguments, Half)               \
  FUSED_RNN_INSTANTIATE_CUDA_CALL(function, Arguments, BFloat16)
#define FUSED_RNN_INSTANTIATE_CUDA_CALL(function, Arguments, T)            \
  template std::size_t workspace_bytes(const Arguments<T>&);               \
  template Error function(const Arguments<T>&, const Device&, void*);

#endif  // FUSED_RNN_CORE_CUDA_CALL_H_
