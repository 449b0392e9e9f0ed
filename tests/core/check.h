// Checks of the C++ tests: a failed one is printed, counted, and makes the
// program's exit status 1.
#ifndef FUSED_RNN_TESTS_CORE_CHECK_H_
#define FUSED_RNN_TESTS_CORE_CHECK_H_

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace fused_rnn {
namespace test {

inline std::atomic<int> checks{0};
inline std::atomic<int> failures{0};

// Prints no more than the first 20.
[[gnu::format(printf, 4, 5)]] inline bool check(bool ok, const char* file,
                                                int line, const char* format,
                                                ...) {
  ++checks;
  if (ok) return true;
  if (++failures <= 20) {
    std::va_list arguments;
    va_start(arguments, format);
    std::fprintf(stderr, "%s:%d: ", file, line);
    std::vfprintf(stderr, format, arguments);
    std::fputc('\n', stderr);
    va_end(arguments);
  }
  return false;
}

// For the end of main. A test that checked nothing has failed.
inline int report(const char* name) {
  const int all = checks, bad = failures;
  std::printf("%s: %d checks, %d failed\n", name, all, bad);
  return all > 0 && bad == 0 ? 0 : 1;
}

}  // namespace test
}  // namespace fused_rnn

#define CHECK_THAT(condition, ...) \
  ::fused_rnn::test::check((condition), __FILE__, __LINE__, __VA_ARGS__)

#endif  // FUSED_RNN_TESTS_CORE_CHECK_H_
