// A stream of single steps: weights packed once, the state kept.
#ifndef FUSED_RNN_PYTHON_GRU_STREAM_H_
#define FUSED_RNN_PYTHON_GRU_STREAM_H_

#include <pybind11/pybind11.h>

namespace fused_rnn {
namespace python {

// Adds the class GRUStream.
void bind_gru_stream(pybind11::module_& m);

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_GRU_STREAM_H_
