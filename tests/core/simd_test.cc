// core/cpu/simd.h in every instruction set that this processor runs: errors of
// the functions in units in the last place, special values, conversions of half
// types, and that partial loads and stores stay inside.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/half.h"
#include "core/isa.h"
#include "core/simd_table.h"

namespace fused_rnn {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    defined(FUSED_RNN_SANITIZED)
constexpr std::uint32_t kStride = 10007;
#else
constexpr std::uint32_t kStride = 499;
#endif

struct Isa {
  std::string name;
  const test::SimdTable* table;
};

std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (const std::string& name : supported_isas()) {
    if (name == "baseline") found.push_back({name, &isa_baseline::simd_table});
#if defined(__x86_64__)
    if (name == "avx2") found.push_back({name, &isa_avx2::simd_table});
    if (name == "avx512") found.push_back({name, &isa_avx512::simd_table});
#endif
  }
  return found;
}

enum Function { kSigmoid, kTanh, kExpm1 };
const char* const kNames[] = {"sigmoid", "tanh", "expm1_negative"};

// R has more digits than the tested type.
template <class R>
R reference(Function f, R x) {
  switch (f) {
    case kSigmoid:
      return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
    case kTanh:
      return std::tanh(x);
    case kExpm1:
      return x > 0 ? 0 : std::expm1(x);
  }
  return 0;
}

template <class C>
void (*entry(const test::MathTable<C>& table, Function f))(const C*, C*) {
  return f == kSigmoid ? table.sigmoid
                       : f == kTanh ? table.tanh : table.expm1_negative;
}

// |y - want| in units of the last place of C at want.
template <class C, class R>
double ulps(C y, R want) {
  int exponent;
  std::frexp(static_cast<double>(want), &exponent);
  using Limits = std::numeric_limits<C>;
  exponent = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return static_cast<double>(std::abs(static_cast<R>(y) - want) /
                             std::ldexp(R(1), exponent));
}

// What simd_math.h states.
double bound(const Isa& isa, Function f, float x) {
  if (f == kTanh) return std::abs(x) < 1 ? 3.2 : isa.table->has_fma ? 5.2 : 6.2;
  if (f == kSigmoid) return x >= -20 || !isa.table->has_fma ? 2.7 : 4.5;
  return 1.2;
}
double bound(const Isa&, Function f, double) {
  return f == kExpm1 ? 1.2 : f == kTanh ? 2.4 : 2.2;
}

template <class C, class R>
void check_values(const Isa& isa, const test::MathTable<C>& table, Function f,
                  const std::vector<C>& x, const std::vector<R>& want) {
  const auto function = entry(table, f);
  std::vector<C> y(x.size());
  const std::size_t width = table.width;
  for (std::size_t i = 0; i + width <= x.size(); i += width) {
    function(&x[i], &y[i]);
  }
  const std::size_t done = x.size() / width * width;
  for (std::size_t i = 0; i < done; ++i) {
    const double error = ulps(y[i], want[i]);
    const double most = bound(isa, f, x[i]);
    // The limits are limits: no gate leaves [0, 1], no tanh [-1, 1].
    if (!(error <= most) || !(std::abs(y[i]) <= 1)) {
      CHECK_THAT(false, "%s %s(%a) = %a, %.3g ulp, bound %.3g",
                 isa.name.c_str(), kNames[f], static_cast<double>(x[i]),
                 static_cast<double>(y[i]), error, most);
    }
  }
  CHECK_THAT(done > 0, "%s: nothing done", kNames[f]);
}

void test_float_functions(const std::vector<Isa>& all) {
  constexpr std::size_t kChunk = 1 << 16;
  std::uint64_t bits = 0;
  while (bits >> 32 == 0) {
    std::vector<float> x;
    for (; x.size() < kChunk && bits >> 32 == 0; bits += kStride) {
      const float value = float_of_bits(static_cast<std::uint32_t>(bits));
      if (std::isfinite(value)) x.push_back(value);
    }
    x.resize((x.size() + 15) / 16 * 16, 0.5f);
    for (Function f : {kSigmoid, kTanh, kExpm1}) {
      std::vector<double> want;
      for (float v : x) want.push_back(reference<double>(f, v));
      for (const Isa& isa : all) {
        check_values(isa, isa.table->math_float, f, x, want);
      }
    }
  }
}

void test_double_functions(const std::vector<Isa>& all) {
  static_assert(LDBL_MANT_DIG > 53, "no reference for double");
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-40, 10);
  std::vector<double> x;
  for (std::size_t i = 0; i < (std::size_t{1} << 26) / kStride / 16 * 16; ++i) {
    const double magnitude = std::exp2(exponent(random));
    x.push_back(random() & 1 ? magnitude : -magnitude);
  }
  x.resize(x.size() / 8 * 8);
  for (Function f : {kSigmoid, kTanh, kExpm1}) {
    std::vector<long double> want;
    for (double v : x) want.push_back(reference<long double>(f, v));
    for (const Isa& isa : all) {
      check_values(isa, isa.table->math_double, f, x, want);
    }
  }
}

// Every element of a vector of `value` must become `want`, sign included.
template <class C>
void check_special(const Isa& isa, const test::MathTable<C>& table, Function f,
                   C value, C want) {
  std::vector<C> x(table.width, value), y(table.width);
  entry(table, f)(x.data(), y.data());
  for (C got : y) {
    const bool same = std::isnan(want)
                          ? std::isnan(got)
                          : std::memcmp(&got, &want, sizeof(C)) == 0;
    CHECK_THAT(same, "%s %s(%g) = %g, not %g", isa.name.c_str(), kNames[f],
               static_cast<double>(value), static_cast<double>(got),
               static_cast<double>(want));
  }
}

template <class C>
void test_special_values(const Isa& isa, const test::MathTable<C>& table) {
  using Limits = std::numeric_limits<C>;
  const C inf = Limits::infinity(), nan = Limits::quiet_NaN();
  const C huge = Limits::max(), tiny = Limits::denorm_min();
  for (C sign : {C(1), C(-1)}) {
    check_special(isa, table, kSigmoid, sign * 0, C(0.5));
    check_special(isa, table, kSigmoid, sign * tiny, C(0.5));
    check_special(isa, table, kTanh, sign * 0, sign * 0);
    check_special(isa, table, kTanh, sign * tiny, sign * tiny);
    check_special(isa, table, kTanh, sign * huge, sign);
    check_special(isa, table, kTanh, sign * inf, sign);
    for (Function f : {kSigmoid, kTanh, kExpm1}) {
      check_special(isa, table, f, sign * nan, nan);
    }
  }
  for (C large : {huge, inf}) {
    check_special(isa, table, kSigmoid, large, C(1));
    check_special(isa, table, kSigmoid, -large, C(0));
    check_special(isa, table, kExpm1, large, C(0));
    check_special(isa, table, kExpm1, -large, C(-1));
  }
  const std::vector<C> one(table.width, C(1)), two(table.width, C(2)),
      nans(table.width, nan);
  std::vector<C> y(table.width);
  table.min(one.data(), two.data(), y.data());
  CHECK_THAT(y == one, "%s min", isa.name.c_str());
  table.max(one.data(), two.data(), y.data());
  CHECK_THAT(y == two, "%s max", isa.name.c_str());
  for (auto function : {table.min, table.max}) {
    function(one.data(), nans.data(), y.data());
    CHECK_THAT(std::isnan(y[0]), "%s min, max of a NaN", isa.name.c_str());
    function(nans.data(), one.data(), y.data());
    CHECK_THAT(y == one, "%s min, max of a NaN", isa.name.c_str());
  }
}

// The value of a half type by its definition, and the nearest one to a value by
// looking at both neighbours.
struct Format {
  int exponent_bits;
  int mantissa_bits;

  double value(std::uint16_t bits) const {
    const int exponent =
        bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) {
      return mantissa ? std::numeric_limits<double>::quiet_NaN()
                      : sign * std::numeric_limits<double>::infinity();
    }
    if (exponent == 0) {
      return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    }
    return sign * std::ldexp(mantissa + (1 << mantissa_bits),
                             exponent - bias - mantissa_bits);
  }
};

// Every value of the type; what lies between, next to and beyond them; NaN.
template <class T>
void test_scalar_conversions(const char* name, Format format) {
  const std::uint16_t infinity = static_cast<std::uint16_t>(
      ((1 << format.exponent_bits) - 1) << format.mantissa_bits);
  const auto check = [&](float x, std::uint16_t want) {
    const std::uint16_t got = from_compute<T>(x).bits;
    CHECK_THAT(got == want, "%s of %a: %04x, not %04x", name,
               static_cast<double>(x), got, want);
  };
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const T value{static_cast<std::uint16_t>(i)};
    const double want = format.value(value.bits);
    const float got = to_compute(value);
    if (std::isnan(want)) {
      const float again = to_compute(from_compute<T>(got));
      CHECK_THAT(std::isnan(got) && std::isnan(again), "%s %04x is no NaN",
                 name, i);
      continue;
    }
    CHECK_THAT(got == want && std::signbit(got) == std::signbit(want),
               "%s %04x: %a", name, i, static_cast<double>(got));
    check(got, value.bits);
    if ((i & 0x7fff) >= infinity) continue;
    // Halfway to the next larger magnitude, the last one's being what infinity
    // would be as a finite value.
    const std::uint16_t next = static_cast<std::uint16_t>(i + 1);
    const double next_value =
        (next & 0x7fff) == infinity
            ? std::copysign(
                  std::ldexp(1, 1 << (format.exponent_bits - 1)), want)
            : format.value(next);
    const float middle = static_cast<float>((want + next_value) / 2);
    if (static_cast<double>(middle) != (want + next_value) / 2) continue;
    check(middle, i & 1 ? next : value.bits);
    check(std::nextafter(middle, 0.0f), value.bits);
    check(std::nextafter(middle, std::copysign(INFINITY, middle)), next);
  }
}

template <class T, class C>
void test_vector_conversions(const Isa& isa, const char* name,
                             const test::LoadTable<T>& table) {
  const int width = table.width;
  std::vector<T> halves(width), stored(width);
  std::vector<C> values(width);
  const auto same = [](std::uint32_t a, std::uint32_t b) { return a == b; };
  for (std::uint32_t i = 0; i < 0x10000; i += width) {
    for (int k = 0; k < width; ++k) {
      halves[k].bits = static_cast<std::uint16_t>(i + k);
    }
    table.load(halves.data(), values.data());
    for (int k = 0; k < width; ++k) {
      const float want = to_compute(halves[k]);
      CHECK_THAT(std::isnan(want) ? std::isnan(values[k])
                                  : same(bits_of_float(values[k]),
                                         bits_of_float(want)),
                 "%s load %s %04x", isa.name.c_str(), name, halves[k].bits);
    }
  }
  for (std::uint64_t bits = 0; bits >> 32 == 0;) {
    for (int k = 0; k < width; ++k, bits += kStride / 8) {
      values[k] = float_of_bits(static_cast<std::uint32_t>(bits));
    }
    table.store(stored.data(), values.data());
    for (int k = 0; k < width; ++k) {
      const T want = from_compute<T>(values[k]);
      const bool ok = std::isnan(values[k])
                          ? std::isnan(to_compute(stored[k]))
                          : same(stored[k].bits, want.bits);
      if (!ok) {
        CHECK_THAT(false, "%s store %s of %a: %04x, not %04x",
                   isa.name.c_str(), name, static_cast<double>(values[k]),
                   stored[k].bits, want.bits);
      }
    }
  }
}

// Memory that ends where the next page may not be touched.
class Guarded {
 public:
  Guarded() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    start_ = static_cast<unsigned char*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(start_ + page_, page_, PROT_NONE);
  }
  ~Guarded() { munmap(start_, 2 * page_); }
  template <class T>
  T* last(std::size_t n) {
    return reinterpret_cast<T*>(start_ + page_) - n;
  }

 private:
  std::size_t page_;
  unsigned char* start_;
};

template <class T>
void test_partial(const Isa& isa, const test::LoadTable<T>& table) {
  using C = Compute<T>;
  Guarded memory;
  for (int n = 0; n < table.width; ++n) {
    T* p = memory.last<T>(n);
    for (int i = 0; i < n; ++i) p[i] = from_compute<T>(C(i + 1));
    std::vector<C> values(table.width, C(-1));
    table.load_partial(p, values.data(), n);
    for (int i = 0; i < table.width; ++i) {
      CHECK_THAT(values[i] == (i < n ? C(i + 1) : C(0)),
                 "%s partial load of %d: element %d", isa.name.c_str(), n, i);
      values[i] = C(10 + i);
    }
    table.store_partial(p, values.data(), n);
    for (int i = 0; i < n; ++i) {
      CHECK_THAT(to_compute(p[i]) == C(10 + i),
                 "%s partial store of %d: element %d", isa.name.c_str(), n, i);
    }
    // And what lies behind keeps its value where it may be touched.
    std::vector<T> more(table.width, from_compute<T>(C(7)));
    table.store_partial(more.data(), values.data(), n);
    for (int i = n; i < table.width; ++i) {
      CHECK_THAT(to_compute(more[i]) == C(7),
                 "%s partial store of %d touches %d", isa.name.c_str(), n, i);
    }
  }
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  const std::vector<Isa> all = isas();
  test_float_functions(all);
  test_double_functions(all);
  test_scalar_conversions<Half>("float16", {5, 10});
  test_scalar_conversions<BFloat16>("bfloat16", {8, 7});
  for (const Isa& isa : all) {
    test_special_values(isa, isa.table->math_float);
    test_special_values(isa, isa.table->math_double);
    test_vector_conversions<Half, float>(isa, "float16", isa.table->load_half);
    test_vector_conversions<BFloat16, float>(isa, "bfloat16",
                                             isa.table->load_bfloat16);
    test_partial(isa, isa.table->load_float);
    test_partial(isa, isa.table->load_double);
    test_partial(isa, isa.table->load_half);
    test_partial(isa, isa.table->load_bfloat16);
  }
  return test::report("simd_test");
}
