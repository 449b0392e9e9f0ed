// The module fused_rnn._core: the core on NumPy arrays, without TensorFlow.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "core/isa.h"
#include "core/probe.h"
#include "core/thread_pool.h"
#include "python/call.h"
#include "python/functions.h"
#include "python/rnn_cuda.h"
#include "python/rnn_stream.h"

namespace fused_rnn {
namespace python {
namespace {

// Hardly a machine has more processors: a number above it is a mistake, which
// would take every thread that the system grants the process.
constexpr int kMostThreads = 1024;

void set_num_threads(long long threads) {
  if (threads < 1 || threads > kMostThreads) {
    throw py::value_error("threads must be from 1 to " +
                          std::to_string(kMostThreads) + ", got " +
                          std::to_string(threads));
  }
  // Joins the workers of the pool before, which end when their work does.
  without_gil([&] { set_shared_thread_count(static_cast<int>(threads)); });
}

void require_isa(const std::string& name) {
  const std::string error = select_isa(name);
  if (!error.empty()) throw py::value_error(error);
}

double multiply_adds(int threads, double seconds) {
  py::gil_scoped_release released;
  return probe_multiply_adds(threads, seconds);
}

double reads(std::size_t bytes, int threads, double seconds) {
  py::gil_scoped_release released;
  return probe_reads(bytes, threads, seconds);
}

// Adds a function over sequences, of one cell.
template <class... More>
void def_sequence(py::module_& m, const char* name, Cell cell,
                  py::tuple (*function)(const GivenArguments&, More...)) {
  m.def(name, [cell, function](
                  py::handle x, py::handle h0, py::handle c0, py::handle kernel,
                  py::handle recurrent_kernel, py::handle bias,
                  bool reset_after, py::handle mask, bool go_backwards,
                  bool time_major, bool zero_output_for_mask,
                  py::handle activation, py::handle recurrent_activation,
                  py::handle dropout, More... more) {
    return function({cell, x, h0, c0, kernel, recurrent_kernel, bias,
                     reset_after, mask, go_backwards, time_major,
                     zero_output_for_mask, activation, recurrent_activation,
                     dropout},
                    more...);
  });
}

PYBIND11_MODULE(_core, m) {
  m.def("compiled_isas", &compiled_isas);
  m.def("supported_isas", &supported_isas);
  m.def("active_isa", &active_isa);
  m.def("isa_error", &isa_error);
  m.def("select_isa", &require_isa, py::arg("name"));
  m.def("set_num_threads", &set_num_threads, py::arg("threads"));
  m.def("get_num_threads", &shared_thread_count);
  m.def("probe_multiply_adds", &multiply_adds, py::arg("threads"),
        py::arg("seconds"));
  m.def("probe_reads", &reads, py::arg("bytes"), py::arg("threads"),
        py::arg("seconds"));
  m.def("gru_block_cell", &gru_block_cell);
  m.def("gru_block_cell_grad", &gru_block_cell_grad);
  m.def("lstm_block_cell", &lstm_block_cell);
  m.def("lstm_block_cell_grad", &lstm_block_cell_grad);
  def_sequence(m, "gru", Cell::kGru, &rnn);
  def_sequence(m, "gru_grad", Cell::kGru, &rnn_grad);
  def_sequence(m, "lstm", Cell::kLstm, &rnn);
  def_sequence(m, "lstm_grad", Cell::kLstm, &rnn_grad);
  def_sequence(m, "simple_rnn", Cell::kSimpleRnn, &rnn);
  def_sequence(m, "simple_rnn_grad", Cell::kSimpleRnn, &rnn_grad);
  bind_streams(m);
  bind_rnn_cuda(m);
}

}  // namespace
}  // namespace python
}  // namespace fused_rnn
