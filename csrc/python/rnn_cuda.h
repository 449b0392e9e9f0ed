// The functions on arrays of a GPU. Their docstrings stand in
// python/fused_rnn/cuda.py.
#ifndef FUSED_RNN_PYTHON_RNN_CUDA_H_
#define FUSED_RNN_PYTHON_RNN_CUDA_H_

#include <pybind11/pybind11.h>

namespace fused_rnn {
namespace python {

void bind_rnn_cuda(pybind11::module_& m);

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_RNN_CUDA_H_
