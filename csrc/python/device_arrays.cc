#include "python/device_arrays.h"

#include <pybind11/stl.h>

#include <vector>

namespace fused_rnn {
namespace python {
namespace {

constexpr char kInterface[] = "__cuda_array_interface__";

std::string text_of(const Index* sizes, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i)
    text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

}  // namespace

DeviceArray::DeviceArray(const char* name, py::handle value, Index item)
    : name_(name) {
  if (value.is_none()) return;
  if (!py::hasattr(value, kInterface)) {
    throw py::type_error(std::string(name) +
                         " must be an array on a GPU, with " + kInterface +
                         ", got " +
                         std::string(py::str(py::type::handle_of(value))));
  }
  const py::dict interface = value.attr(kInterface);
  const auto type = interface["typestr"].cast<std::string>();
  // "<f4": byte order, kind, bytes.
  if (type.size() < 3 || type[0] == '>' ||
      type.substr(2) != std::to_string(item)) {
    throw py::type_error(std::string(name) + " must have elements of " +
                         std::to_string(item) + " bytes, got " + type);
  }
  const auto shape = interface["shape"].cast<std::vector<Index>>();
  rank_ = static_cast<int>(shape.size());
  if (rank_ < 1 || rank_ > kMostAxes) {
    throw py::value_error(std::string(name) + " must have 1 to 3 axes, got " +
                          std::to_string(rank_));
  }
  std::vector<Index> strides(shape.size(), item);
  if (interface.contains("strides") && !interface["strides"].is_none()) {
    strides = interface["strides"].cast<std::vector<Index>>();
  } else {
    for (int i = rank_ - 2; i >= 0; --i)
      strides[i] = strides[i + 1] * shape[i + 1];
  }
  bool whole = true, empty = false;
  for (int i = 0; i < rank_; ++i) {
    shape_[i] = shape[i];
    empty = empty || shape[i] == 0;
    stride_[i] = shape[i] <= 1 ? 0 : strides[i] / item;
    whole = whole && (shape[i] <= 1 || strides[i] % item == 0);
  }
  const int last = rank_ - 1;
  // A byte's last axis may have any stride: it is the mask's.
  whole = whole && (item == 1 || shape_[last] <= 1 || stride_[last] == 1);
  if (!empty && !whole) {
    throw py::value_error(std::string(name) + " must have contiguous rows");
  }
  present_ = true;
  address_ = interface["data"].cast<py::tuple>()[0].cast<std::uintptr_t>();
  if (address_ % static_cast<std::uintptr_t>(item) != 0) {
    throw py::value_error(std::string(name) +
                          " must be aligned to its elements of " +
                          std::to_string(item) + " bytes");
  }
}

std::string DeviceArray::shape_text() const { return text_of(shape_, rank_); }

void DeviceArray::require_rank(int rank, const char* words) const {
  if (present_ && rank_ == rank) return;
  throw py::value_error(std::string(name_) + " must have shape " + words +
                        ", got " + (present_ ? shape_text() : "None"));
}

void DeviceArray::require_shape(const char* words,
                                std::initializer_list<Index> shape) const {
  if (!present_) return;
  bool same = rank_ == static_cast<int>(shape.size());
  for (int i = 0; same && i < rank_; ++i) same = shape_[i] == shape.begin()[i];
  if (same) return;
  throw py::value_error(
      std::string(name_) + " must have shape " + words + " = " +
      text_of(shape.begin(), static_cast<int>(shape.size())) + ", got " +
      shape_text());
}

}  // namespace python
}  // namespace fused_rnn
