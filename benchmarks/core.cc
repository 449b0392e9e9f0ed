// The core's leaf kernels against what the processor does at most, on one
// thread, float. Prints one JSON object; benchmarks/core.py keeps and shows it.
//
//   core_benchmark [SECONDS]   of each measurement; 0.1 unless given
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/cpu/kernels.h"
#include "core/isa.h"
#include "core/probe.h"

namespace fused_rnn {
namespace {

using Floats = std::vector<float>;

// Seconds of one call: the median of batches that fill `seconds`.
double time_of(double seconds, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto now = [] {
    return std::chrono::duration<double>(Clock::now().time_since_epoch())
        .count();
  };
  call();
  int calls = 1;
  // A batch is long enough that reading the clock costs nothing.
  for (double spent = 0; spent < 2e-5; calls *= 2) {
    const double start = now();
    for (int i = 0; i < calls; ++i) call();
    spent = now() - start;
  }
  std::vector<double> times;
  const double end = now() + seconds;
  do {
    const double start = now();
    for (int i = 0; i < calls; ++i) call();
    times.push_back((now() - start) / calls);
  } while (now() < end);
  std::nth_element(times.begin(), times.begin() + times.size() / 2,
                   times.end());
  return times[times.size() / 2];
}

Floats values(Index n) {
  Floats result(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i)
    result[static_cast<std::size_t>(i)] = 0.01f * static_cast<float>(i % 7);
  return result;
}

// The kernels of one stage of a cell's step, and how many arrays each loads and
// stores: what it does both to counts twice.
struct Stage {
  RnnOptions options;
  int number;
  const char *forward, *backward;
  int forward_touched, backward_touched;
};

std::vector<Stage> stages() {
  RnnOptions after, before, lstm, simple;
  after.reset_after = true;
  lstm.cell = Cell::kLstm;
  simple.cell = Cell::kSimpleRnn;
  return {
      {after, 0, "GRU, reset after", "GRU, reset after", 7, 15},
      {before, 0, "GRU, reset before: z, r", "GRU, reset before: z, c", 5, 10},
      {before, 1, "GRU, reset before: c", "GRU, reset before: r", 5, 7},
      {lstm, 0, "LSTM", "LSTM", 8, 18},
      {simple, 0, "simple RNN", "simple RNN", 3, 5},
  };
}

struct Program {
  double seconds;
  double operations;  // a second, at most
  bool first = true;

  // One result: how long a call takes, and how long it must at the least.
  void print(const std::string& kernel, Index rows, Index depth, Index columns,
             double time, double work, double bytes) {
    const double reading =
        bytes / probe_reads(static_cast<std::size_t>(bytes), 1, seconds);
    std::printf(
        "%s\n  {\"kernel\": \"%s\", \"rows\": %lld, \"depth\": %lld, "
        "\"columns\": %lld, \"seconds\": %.4g, \"operations\": %.6g, "
        "\"bytes\": %.6g, \"compute seconds\": %.4g, \"read seconds\": %.4g}",
        first ? "" : ",", kernel.c_str(), static_cast<long long>(rows),
        static_cast<long long>(depth), static_cast<long long>(columns), time,
        work, bytes, work / operations, reading);
    first = false;
  }

  // The register block of a step's product, over one panel of the weights.
  void tile(int rows, Index depth) {
    const Kernels<float>& table = kernels<float>();
    const int vectors = table.max_vectors[rows];
    const Index columns = vectors * table.width;
    const Floats a = values(rows * depth), b = values(depth * columns);
    const Floats init = values(columns);
    Floats c(static_cast<std::size_t>(rows * columns));
    TileArgs<float> args = {};
    args.a = a.data();
    args.a_row = depth;
    args.b = b.data();
    args.b_k = columns;
    args.k = depth;
    args.init = init.data();
    args.init_row = 0;
    args.c = c.data();
    args.c_row = columns;
    args.ahead = reinterpret_cast<const char*>(b.data());
    const auto kernel = table.tile[rows][vectors];
    const double time = time_of(seconds, [&] { kernel(args); });
    print("tile", rows, depth, columns, time,
          2.0 * static_cast<double>(rows * depth * columns),
          4.0 * static_cast<double>(depth * columns + rows * depth));
  }

  // A stage of the elementwise part of a step. Its limit is the reading of as
  // many arrays as it loads and stores.
  void gates(const Stage& stage, Index rows, Index units) {
    const Kernels<float>& table = kernels<float>();
    const Index row = (units + table.width - 1) / table.width * table.width;
    std::vector<Floats> arrays;
    arrays.reserve(64);
    const auto scratch = [&] {
      arrays.push_back(values(rows * row));
      return Rows<float>{arrays.back().data(), row};
    };
    const auto constant = [&] {
      const Rows<float> made = scratch();
      return Rows<const float>{made.data, made.row};
    };
    ForwardTile<float> forward = {};
    forward.rows.count = rows;
    forward.units = units;
    forward.options = stage.options;
    for (auto& gate : forward.gate) gate = constant();
    forward.gh_c = constant();
    forward.h_prev = constant();
    forward.h_next = scratch();
    forward.reset_h = scratch();
    forward.cell_state = scratch();
    forward.output = scratch();
    BackwardTile<float> backward = {};
    backward.rows.count = rows;
    backward.units = units;
    backward.options = stage.options;
    backward.d = constant();
    // Other cells hand nothing to the state besides their products.
    if (stage.options.cell == Cell::kGru) backward.carry = scratch();
    for (auto& operand : backward.operand) operand = scratch();
    backward.d_cell_state = scratch();
    const Rows<const float> previous = constant();
    std::vector<const float*> rows_before;
    for (Index i = 0; i < rows; ++i)
      rows_before.push_back(previous.data + i * previous.row);
    backward.h_prev = backward.c_prev = rows_before.data();
    backward.output = constant();
    for (auto& reserve : backward.reserve) reserve = constant();
    backward.d_output = constant();
    for (auto& d_gate : backward.d_gates) d_gate = scratch();

    const auto measure = [&](const std::string& name, int touched,
                             const std::function<void()>& call) {
      const double bytes = 4.0 * static_cast<double>(touched * rows * units);
      print(name, rows, 0, units, time_of(seconds, call), 0, bytes);
    };
    const auto run_forward = table.forward_gates(stage.options, stage.number);
    measure(std::string("forward ") + stage.forward, stage.forward_touched,
            [&] { run_forward(forward); });
    const auto run_backward = table.backward_gates(stage.options, stage.number);
    measure(std::string("backward ") + stage.backward, stage.backward_touched,
            [&] { run_backward(backward); });
  }

  void run() {
    std::printf("{\"instruction set\": \"%s\", \"operations\": %.4g,\n"
                "\"results\": [",
                active_isa().c_str(), operations);
    for (int rows : {1, 4, kernels<float>().block_rows})
      for (Index depth : {64, 256, 1024}) tile(rows, depth);
    for (const Stage& stage : stages())
      for (Index units : {64, 256, 1024}) gates(stage, 8, units);
    std::printf("\n]}\n");
  }
};

}  // namespace
}  // namespace fused_rnn

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.1;
  const std::string error = fused_rnn::isa_error();
  if (!error.empty() || seconds <= 0) {
    std::fprintf(stderr, "%s\n",
                 error.empty() ? "SECONDS must be above 0" : error.c_str());
    return 2;
  }
  fused_rnn::Program program{
      seconds, fused_rnn::probe_multiply_adds(1, seconds)};
  program.run();
  return 0;
}
