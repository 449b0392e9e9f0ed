// What the module offers to Python, without its docstrings: those stand in
// python/fused_rnn/numpy.
#ifndef FUSED_RNN_PYTHON_FUNCTIONS_H_
#define FUSED_RNN_PYTHON_FUNCTIONS_H_

#include <pybind11/pybind11.h>

#include "python/rnn_arguments.h"

namespace fused_rnn {
namespace python {

namespace py = pybind11;

py::tuple gru_block_cell(py::handle x, py::handle h_prev, py::handle w_ru,
                         py::handle w_c, py::handle b_ru, py::handle b_c);

// The gradients of all arguments, then d_c_bar and d_r_bar_u_bar.
py::tuple gru_block_cell_grad(py::handle x, py::handle h_prev, py::handle w_ru,
                              py::handle w_c, py::handle b_ru, py::handle b_c,
                              py::handle r, py::handle u, py::handle c,
                              py::handle d_r, py::handle d_u, py::handle d_c,
                              py::handle d_h);

// (i, cs, f, o, ci, co, h)
py::tuple lstm_block_cell(py::handle x, py::handle cs_prev, py::handle h_prev,
                          py::handle w, py::handle wci, py::handle wcf,
                          py::handle wco, py::handle b, double forget_bias,
                          double cell_clip, bool use_peephole);

// The gradients of all arguments (None of peepholes not used), then
// d_gates_bar.
py::tuple lstm_block_cell_grad(
    py::handle x, py::handle cs_prev, py::handle h_prev, py::handle w,
    py::handle wci, py::handle wcf, py::handle wco, py::handle b, py::handle i,
    py::handle cs, py::handle f, py::handle o, py::handle ci, py::handle d_i,
    py::handle d_cs, py::handle d_f, py::handle d_o, py::handle d_ci,
    py::handle d_co, py::handle d_h, double cell_clip, bool use_peephole);

// (outputs, state, cell_state, gates, cell_states); None where a cell has no
// such thing or it is not wanted.
py::tuple rnn(const GivenArguments& given, bool want_outputs,
              bool want_reserve);

// The gradients of x, h0, c0, kernel, recurrent_kernel and bias, or None. All
// of outputs, gates and cell_states that the cell has, or None to compute them.
py::tuple rnn_grad(const GivenArguments& given, py::handle outputs,
                   py::handle gates, py::handle cell_states,
                   py::handle d_outputs, py::handle d_state,
                   py::handle d_cell_state, bool overwrite_reserve);

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_FUNCTIONS_H_
