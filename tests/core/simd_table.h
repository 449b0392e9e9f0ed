// What simd_test.cc calls of each instruction set: core/cpu/simd.h applied to
// arrays of one vector.
#ifndef FUSED_RNN_TESTS_CORE_SIMD_TABLE_H_
#define FUSED_RNN_TESTS_CORE_SIMD_TABLE_H_

#include "core/types.h"

namespace fused_rnn {
namespace test {

template <class C>
struct MathTable {
  int width;
  void (*sigmoid)(const C*, C*);
  void (*tanh)(const C*, C*);
  void (*expm1_negative)(const C*, C*);
  // a < b ? a : b and so on; b where either is NaN.
  void (*min)(const C*, const C*, C*);
  void (*max)(const C*, const C*, C*);
};

template <class T>
struct LoadTable {
  int width;
  void (*load)(const T*, Compute<T>*);
  void (*store)(T*, const Compute<T>*);
  void (*load_partial)(const T*, Compute<T>*, int);
  void (*store_partial)(T*, const Compute<T>*, int);
};

struct SimdTable {
  bool has_fma;
  MathTable<float> math_float;
  MathTable<double> math_double;
  LoadTable<float> load_float;
  LoadTable<double> load_double;
  LoadTable<Half> load_half;
  LoadTable<BFloat16> load_bfloat16;
};

}  // namespace test

namespace isa_baseline {
extern const test::SimdTable simd_table;
}
namespace isa_avx2 {
extern const test::SimdTable simd_table;
}
namespace isa_avx512 {
extern const test::SimdTable simd_table;
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CORE_SIMD_TABLE_H_
