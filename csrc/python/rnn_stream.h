// Streams of single steps: weights packed once, the states kept.
#ifndef FUSED_RNN_PYTHON_RNN_STREAM_H_
#define FUSED_RNN_PYTHON_RNN_STREAM_H_

#include <pybind11/pybind11.h>

namespace fused_rnn {
namespace python {

// Adds the classes GRUStream, LSTMStream and SimpleRNNStream.
void bind_streams(pybind11::module_& m);

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_RNN_STREAM_H_
