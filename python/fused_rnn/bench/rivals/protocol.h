// The protocol of ../worker.py for programs in C++.
#ifndef FUSED_RNN_BENCHMARKS_RIVALS_PROTOCOL_H_
#define FUSED_RNN_BENCHMARKS_RIVALS_PROTOCOL_H_

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace protocol {

struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Case {
  std::string folder, out, mode, convention, dtype, cell;
  std::size_t batch, steps, inputs, units;

  bool training() const { return mode == "training"; }
  bool reset_after() const { return convention == "after"; }

  // Of the weights: a block of units each gate.
  std::size_t columns() const {
    return (cell == "gru" ? 3 : cell == "lstm" ? 4 : 1) * units;
  }

  std::vector<float> read(const std::string& name, std::size_t size) const {
    std::vector<float> values(size);
    std::ifstream file(folder + "/" + name + ".bin", std::ios::binary);
    if (!file.read(reinterpret_cast<char*>(values.data()),
                   static_cast<std::streamsize>(size * sizeof(float)))) {
      throw std::runtime_error("cannot read " + name);
    }
    return values;
  }

  void write(const std::string& name, const std::vector<float>& values) const {
    std::ofstream file(out + "/" + name + ".bin", std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
};

// [d0, d1, n] -> [d1, d0, n].
inline std::vector<float> swap_axes(const std::vector<float>& from,
                                    std::size_t d0, std::size_t d1) {
  const std::size_t rows = d0 * d1;
  const std::size_t n = rows == 0 ? 0 : from.size() / rows;
  std::vector<float> to(from.size());
  for (std::size_t i = 0; i < d0; ++i) {
    for (std::size_t j = 0; j < d1; ++j) {
      std::copy_n(&from[(i * d1 + j) * n], n, &to[(j * d0 + i) * n]);
    }
  }
  return to;
}

using Call = std::function<void()>;

inline double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = position - static_cast<double>(below);
  return sorted[below] * (1 - part) + sorted[above] * part;
}

// As measure() of worker.py.
inline std::string measure(const Call& call, double seconds) {
  constexpr std::size_t kMaxCalls = 20000;
  const double end_of_warm_up = now() + seconds / 10;
  do {
    call();
  } while (now() < end_of_warm_up);
  std::vector<double> times;
  const double end = now() + seconds;
  for (double after = 0; after < end && times.size() < kMaxCalls;) {
    const double before = now();
    call();
    after = now();
    times.push_back(after - before);
  }
  std::sort(times.begin(), times.end());
  char text[256];
  std::snprintf(text, sizeof text,
                "{\"calls\": %zu, \"min\": %.9g, \"low\": %.9g, "
                "\"median\": %.9g, \"high\": %.9g}",
                times.size(), times[0], quantile(times, 0.25),
                quantile(times, 0.5), quantile(times, 0.75));
  return text;
}

// What libraries print on standard output is no reply.
inline void reply(const std::string& json) {
  static std::FILE* const replies = [] {
    std::FILE* file = fdopen(dup(1), "w");
    dup2(2, 1);
    return file;
  }();
  std::fprintf(replies, "%s\n", json.c_str());
  std::fflush(replies);
}

inline void reply(const char* name, std::string text) {
  for (char& c : text) {
    if (c == '"' || c == '\\' || c < ' ') c = '\'';
  }
  reply(std::string("{\"") + name + "\": \"" + text + "\"}");
}

inline int threads() {
  const char* text = std::getenv("BENCHMARK_THREADS");
  return text ? std::atoi(text) : 1;
}

// Answers requests until standard input ends. `versions` is a JSON object.
// `prepare` builds a case's computation, runs it once, writes its results and
// returns one call of it.
inline int serve(const std::string& versions,
                 const std::function<Call(const Case&)>& prepare) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have ended before it was asked for.
  const char* parent = std::getenv("BENCHMARK_PARENT");
  if (parent && std::atoi(parent) != getppid()) return 1;
  reply("{\"versions\": " + versions + "}");
  std::map<std::string, Call> calls;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::vector<std::string> words;
    std::istringstream stream(line);
    for (std::string word; std::getline(stream, word, '\t');) {
      words.push_back(word);
    }
    try {
      const std::string& command = words.at(0);
      if (command == "prepare") {
        const auto size = [&](std::size_t at) {
          return static_cast<std::size_t>(std::stoull(words.at(at)));
        };
        const std::string& key = words.at(1);
        const Case c = {words.at(2), words.at(3), words.at(4), words.at(5),
                        words.at(6), words.at(7), size(8),     size(9),
                        size(10),    size(11)};
        if (c.dtype != "float32") throw Unsupported("float32 only");
        mkdir(c.out.c_str(), 0777);
        calls[key] = prepare(c);
        reply("{}");
      } else if (command == "run") {
        reply(measure(calls.at(words.at(1)), std::stod(words.at(2))));
      } else if (command == "drop") {
        calls.clear();
        reply("{}");
      } else {
        reply("error", "unknown request " + command);
      }
    } catch (const Unsupported& error) {
      reply("unsupported", error.what());
    } catch (const std::exception& error) {
      reply("error", error.what());
    }
  }
  return 0;
}

}  // namespace protocol

#endif  // FUSED_RNN_BENCHMARKS_RIVALS_PROTOCOL_H_
