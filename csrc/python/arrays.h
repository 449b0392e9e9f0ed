// NumPy arrays as arguments and results: what is checked, and how the core sees
// them. Nothing is copied.
#ifndef FUSED_RNN_PYTHON_ARRAYS_H_
#define FUSED_RNN_PYTHON_ARRAYS_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <initializer_list>
#include <string>

#include "core/types.h"

namespace fused_rnn {
namespace python {

namespace py = pybind11;

enum class DType { kFloat32, kFloat64, kFloat16, kBFloat16 };

// Calls body(T{}) with the core's type for a dtype.
template <class Body>
void with_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(float{});
    case DType::kFloat64:
      return body(double{});
    case DType::kFloat16:
      return body(Half{});
    case DType::kBFloat16:
      return body(BFloat16{});
  }
}

// An array that a caller passed. Borrows it: valid during the call.
class Argument {
 public:
  // None, or a name for an argument to come.
  explicit Argument(const char* name) : name_(name) {}
  // TypeError unless it is a numpy.ndarray of a supported dtype in native byte
  // order, ValueError unless its elements are aligned.
  Argument(const char* name, py::handle value);
  // The same, and TypeError unless its dtype is that of `first`.
  Argument(const char* name, py::handle value, const Argument& first);
  // None makes an absent one.
  static Argument optional(const char* name, py::handle value,
                           const Argument& first);

  explicit operator bool() const { return array_ != nullptr; }
  DType dtype() const { return dtype_; }
  py::handle descr() const { return array_->descr; }
  int rank() const { return array_->nd; }
  Index size(int axis) const { return array_->dimensions[axis]; }
  Index item_size() const {
    return dtype_ == DType::kFloat64 ? 8 : dtype_ == DType::kFloat32 ? 4 : 2;
  }

  // ValueError unless the shape has the rank of `words`, "[batch size, ...]".
  void require_rank(int rank, const char* words) const;
  // ValueError unless it has this shape and contiguous rows. Absent is fine.
  void require_shape(const char* words,
                     std::initializer_list<Index> shape) const;
  // ValueError unless rows are contiguous: the last axis has no gaps.
  void require_rows() const;
  // ValueError unless it has no gaps at all.
  void require_whole() const;
  // ValueError unless it may be written.
  void require_writeable() const;

  // The element at the origin, or null if absent.
  template <class T>
  T* data() const {
    return array_ ? reinterpret_cast<T*>(array_->data) : nullptr;
  }
  // In elements; 0 along axes of one element, whose stride means nothing.
  Index stride(int axis) const;

  // Of rank 2.
  template <class T>
  Rows<const T> rows() const {
    if (!array_) return {};
    return {data<const T>(), stride(0)};
  }
  // Of rank 3, or of rank 2 with time_axis -1.
  template <class T>
  Sequence<T> sequence(int time_axis, int batch_axis) const {
    if (!array_) return {};
    return {data<T>(), time_axis < 0 ? 0 : stride(time_axis),
            stride(batch_axis)};
  }

  std::string shape_text() const;
  const char* name() const { return name_; }

 private:
  friend class BoolArgument;
  const char* name_;
  const py::detail::PyArray_Proxy* array_ = nullptr;
  DType dtype_ = DType::kFloat32;
};

// A mask: an array of bool, any strides.
class BoolArgument {
 public:
  // None makes an absent one.
  BoolArgument(const char* name, py::handle value);
  explicit operator bool() const { return array_ != nullptr; }
  void require_shape(const char* words,
                     std::initializer_list<Index> shape) const;
  const std::uint8_t* data() const {
    return reinterpret_cast<const std::uint8_t*>(array_->data);
  }
  Index stride(int axis) const { return array_->strides[axis]; }

 private:
  const char* name_;
  const py::detail::PyArray_Proxy* array_ = nullptr;
};

// A new C-ordered array, not initialised, of the dtype of an argument.
class Result {
 public:
  Result(const Argument& like, std::initializer_list<Index> shape);

  template <class T>
  T* data() const {
    return static_cast<T*>(
        static_cast<void*>(py::detail::array_proxy(array_.ptr())->data));
  }
  void fill_zero() const;
  const py::object& object() const { return array_; }

 private:
  py::object array_;
};

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_ARRAYS_H_
