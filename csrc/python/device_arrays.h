// Arrays on a GPU as arguments, by the protocol __cuda_array_interface__: what
// is checked, and how the core sees them. Nothing is copied.
#ifndef FUSED_RNN_PYTHON_DEVICE_ARRAYS_H_
#define FUSED_RNN_PYTHON_DEVICE_ARRAYS_H_

#include <pybind11/pybind11.h>

#include <initializer_list>
#include <string>

#include "core/types.h"

namespace fused_rnn {
namespace python {

namespace py = pybind11;

// Borrows memory that the caller keeps until the stream has done the call.
class DeviceArray {
 public:
  // None makes an absent one. TypeError unless the object has the interface and
  // elements of `item` bytes (what they mean, the caller says elsewhere: the
  // protocol knows no bfloat16), ValueError unless rows are contiguous.
  DeviceArray(const char* name, py::handle value, Index item);

  explicit operator bool() const { return present_; }
  int rank() const { return rank_; }
  Index size(int axis) const { return shape_[axis]; }
  // In elements; 0 along axes of one element, whose stride means nothing.
  Index stride(int axis) const { return stride_[axis]; }
  // ValueError unless it has the rank of `words`, or this shape. Absent is
  // fine for the second.
  void require_rank(int rank, const char* words) const;
  void require_shape(const char* words,
                     std::initializer_list<Index> shape) const;

  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(address_);
  }
  template <class T>
  Rows<T> rows() const {
    return present_ ? Rows<T>{data<T>(), stride_[0]} : Rows<T>{};
  }
  template <class T>
  Sequence<T> sequence(int time_axis, int batch_axis) const {
    if (!present_) return {};
    return {data<T>(), stride_[time_axis], stride_[batch_axis]};
  }

 private:
  static constexpr int kMostAxes = 3;

  std::string shape_text() const;

  const char* name_;
  bool present_ = false;
  std::uintptr_t address_ = 0;
  int rank_ = 0;
  Index shape_[kMostAxes] = {};
  Index stride_[kMostAxes] = {};
};

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_DEVICE_ARRAYS_H_
