// What the module offers to Python, without its docstrings: those stand in
// python/fused_rnn/numpy.py.
#ifndef FUSED_RNN_PYTHON_FUNCTIONS_H_
#define FUSED_RNN_PYTHON_FUNCTIONS_H_

#include <pybind11/pybind11.h>

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

// (outputs, state, reserve); outputs and reserve are None if not wanted.
py::tuple gru(py::handle x, py::handle h0, py::handle kernel,
              py::handle recurrent_kernel, py::handle bias, bool reset_after,
              py::handle mask, bool go_backwards, bool time_major,
              bool zero_output_for_mask, py::handle activation,
              py::handle recurrent_activation, py::handle dropout,
              bool want_outputs, bool want_reserve);

// The gradients of x, h0, kernel, recurrent_kernel and bias (or None).
py::tuple gru_grad(py::handle x, py::handle h0, py::handle kernel,
                   py::handle recurrent_kernel, py::handle bias,
                   bool reset_after, py::handle mask, bool go_backwards,
                   bool time_major, bool zero_output_for_mask,
                   py::handle activation, py::handle recurrent_activation,
                   py::handle dropout, py::handle outputs, py::handle reserve,
                   py::handle d_outputs, py::handle d_state,
                   bool overwrite_reserve);

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_FUNCTIONS_H_
