#include "python/arrays.h"

#include <cstring>

namespace fused_rnn {
namespace python {
namespace {

using Proxy = py::detail::PyArray_Proxy;

constexpr int kNumHalf = 23;           // NPY_HALF
constexpr int kNumFirstOfUsers = 256;  // NPY_USERDEF
constexpr int kWriteable = py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
constexpr int kAligned = py::detail::npy_api::NPY_ARRAY_ALIGNED_;

std::string type_name(py::handle value) {
  return py::str(py::type::handle_of(value).attr("__name__"));
}

[[noreturn]] void type_error(const std::string& message) {
  throw py::type_error(message);
}
[[noreturn]] void value_error(const std::string& message) {
  throw py::value_error(message);
}

const Proxy* require_array(const char* name, py::handle value) {
  if (!py::isinstance<py::array>(value)) {
    type_error(std::string(name) + " must be a numpy.ndarray, got " +
               type_name(value));
  }
  return py::detail::array_proxy(value.ptr());
}

std::string dtype_text(const Proxy* array) {
  return py::str(py::handle(array->descr));
}

py::dtype dtype_of(const Proxy* array) {
  return py::reinterpret_borrow<py::dtype>(array->descr);
}

// ml_dtypes registers bfloat16 when it is imported; before, no array has it.
bool is_bfloat16(const Proxy* array, int num) {
  static int known = -1;
  if (num == known) return true;
  if (num < kNumFirstOfUsers || known >= 0) return false;
  const std::string name =
      py::str(py::handle(array->descr).attr("name"));
  if (name != "bfloat16") return false;
  known = num;
  return true;
}

DType require_dtype(const char* name, const Proxy* array) {
  const py::dtype dtype = dtype_of(array);
  const int num = dtype.num();
  DType found;
  if (num == py::detail::npy_api::NPY_FLOAT_) {
    found = DType::kFloat32;
  } else if (num == py::detail::npy_api::NPY_DOUBLE_) {
    found = DType::kFloat64;
  } else if (num == kNumHalf) {
    found = DType::kFloat16;
  } else if (is_bfloat16(array, num)) {
    found = DType::kBFloat16;
  } else {
    type_error(std::string(name) +
               " must have dtype float32, float64, float16 or bfloat16, got " +
               dtype_text(array));
  }
  const char order = dtype.byteorder();
  if (order != '=' && order != '|') {
    type_error(std::string(name) + " must have native byte order, got dtype " +
               dtype_text(array));
  }
  return found;
}

std::string text_of(const Index* sizes, std::size_t count) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i) {
    text += (i ? ", " : "") + std::to_string(sizes[i]);
  }
  return text + "]";
}

std::string shape_of(const Proxy* array) {
  std::string text = "[";
  for (int i = 0; i < array->nd; ++i) {
    text += (i ? ", " : "") + std::to_string(array->dimensions[i]);
  }
  return text + "]";
}

void require_shape_of(const char* name, const Proxy* array, const char* words,
                      std::initializer_list<Index> shape) {
  bool same = array->nd == static_cast<int>(shape.size());
  for (int i = 0; same && i < array->nd; ++i) {
    same = array->dimensions[i] == shape.begin()[i];
  }
  if (same) return;
  value_error(std::string(name) + " must have shape " + words + " = " +
              text_of(shape.begin(), shape.size()) + ", got " +
              shape_of(array));
}

}  // namespace

Argument::Argument(const char* name, py::handle value)
    : name_(name), array_(require_array(name, value)) {
  dtype_ = require_dtype(name, array_);
  if (!(array_->flags & kAligned)) {
    value_error(std::string(name) + " must be aligned to its elements of " +
                std::to_string(item_size()) +
                " bytes; numpy.ascontiguousarray makes such a copy");
  }
}

Argument::Argument(const char* name, py::handle value, const Argument& first)
    : Argument(name, value) {
  if (dtype_ != first.dtype_) {
    type_error(std::string(name) + " must have the dtype of " + first.name_ +
               ", " + dtype_text(first.array_) + ", got " + dtype_text(array_));
  }
}

Argument Argument::optional(const char* name, py::handle value,
                            const Argument& first) {
  return value.is_none() ? Argument(name) : Argument(name, value, first);
}

void Argument::require_rank(int rank, const char* words) const {
  if (array_->nd == rank) return;
  value_error(std::string(name_) + " must have shape " + words + ", got " +
              shape_text());
}

void Argument::require_shape(const char* words,
                             std::initializer_list<Index> shape) const {
  if (!array_) return;
  require_shape_of(name_, array_, words, shape);
  require_rows();
}

void Argument::require_rows() const {
  const int last = array_->nd - 1;
  bool whole = last < 0 || array_->dimensions[last] <= 1 ||
               array_->strides[last] == item_size();
  // Aligned, an array may still step by half an element.
  for (int i = 0; whole && i < last; ++i) {
    whole = array_->strides[i] % item_size() == 0;
  }
  // Strides of nothing mean nothing.
  for (int i = 0; i <= last; ++i) whole = whole || array_->dimensions[i] == 0;
  if (whole) return;
  std::string strides = "[";
  for (int i = 0; i <= last; ++i) {
    strides += (i ? ", " : "") + std::to_string(array_->strides[i]);
  }
  value_error(std::string(name_) +
              " must have contiguous rows (strides [..., " +
              std::to_string(item_size()) + "]), got strides " + strides +
              "]; numpy.ascontiguousarray makes such a copy");
}

void Argument::require_whole() const {
  if (array_->flags & py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_) return;
  value_error(std::string(name_) +
              " must be C-contiguous; numpy.ascontiguousarray makes such a "
              "copy");
}

void Argument::require_writeable() const {
  if (array_->flags & kWriteable) return;
  value_error(std::string(name_) + " must be writeable");
}

Index Argument::stride(int axis) const {
  return array_->dimensions[axis] <= 1
             ? 0
             : array_->strides[axis] / item_size();
}

std::string Argument::shape_text() const { return shape_of(array_); }

BoolArgument::BoolArgument(const char* name, py::handle value) : name_(name) {
  if (value.is_none()) return;
  array_ = require_array(name, value);
  if (dtype_of(array_).num() != py::detail::npy_api::NPY_BOOL_) {
    type_error(std::string(name) + " must have dtype bool, got " +
               dtype_text(array_));
  }
}

void BoolArgument::require_shape(const char* words,
                                 std::initializer_list<Index> shape) const {
  if (array_) require_shape_of(name_, array_, words, shape);
}

Result::Result(const Argument& like, std::initializer_list<Index> shape) {
  py::ssize_t sizes[3];
  int rank = 0;
  for (const Index size : shape) sizes[rank++] = size;
  const auto& api = py::detail::npy_api::get();
  // Takes over a reference to the dtype.
  array_ = py::reinterpret_steal<py::object>(api.PyArray_NewFromDescr_(
      api.PyArray_Type_, like.descr().inc_ref().ptr(), rank, sizes, nullptr,
      nullptr, 0, nullptr));
  if (!array_) throw py::error_already_set();
}

void Result::fill_zero() const {
  const Proxy* array = py::detail::array_proxy(array_.ptr());
  std::size_t bytes = static_cast<std::size_t>(dtype_of(array).itemsize());
  for (int i = 0; i < array->nd; ++i) {
    bytes *= static_cast<std::size_t>(array->dimensions[i]);
  }
  std::memset(array->data, 0, bytes);
}

}  // namespace python
}  // namespace fused_rnn
