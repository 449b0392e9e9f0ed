// The unit of the tables: the matrix products that a shape cannot avoid, done
// by MKL and nothing else. Forward: x·K over all steps, and h·R step by step.
// Training adds d·Rᵀ step by step, and d·Kᵀ, xᵀ·d and hᵀ·d over all steps.
// The time of a case is that of the fastest of the ways to call MKL for the
// products of one step: plain, with R packed before, and matrix times vector.
#include <mkl.h>

#include <memory>
#include <string>
#include <vector>

#include "protocol.h"

namespace {

struct Free {
  void operator()(float* pointer) const { mkl_free(pointer); }
};
using Buffer = std::unique_ptr<float[], Free>;

Buffer buffer(std::size_t size) {
  Buffer values(static_cast<float*>(mkl_malloc((size + 16) * 4, 64)));
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = 0.01f * static_cast<float>(i % 7);
  }
  return values;
}

enum class Way { kPlain, kPacked, kVector };

struct Products {
  MKL_INT batch, steps, inputs, units;
  MKL_INT columns;  // Of the weights: a block of units each gate.
  Buffer x, kernel, recurrent, h, gates, packed, packed_transposed;
  // Of their own, so that no call feeds the next: values neither grow nor
  // shrink to denormals, whose arithmetic takes other time.
  Buffer d_x, d_h, d_kernel, d_recurrent;

  explicit Products(const protocol::Case& c)
      : batch(static_cast<MKL_INT>(c.batch)),
        steps(static_cast<MKL_INT>(c.steps)),
        inputs(static_cast<MKL_INT>(c.inputs)),
        units(static_cast<MKL_INT>(c.units)),
        columns(static_cast<MKL_INT>(c.columns())) {
    const std::size_t rows = c.batch * c.steps;
    x = buffer(rows * c.inputs);
    kernel = buffer(c.inputs * c.columns());
    recurrent = buffer(c.units * c.columns());
    h = buffer((rows + c.batch) * c.units);
    gates = buffer(rows * c.columns());
    d_x = buffer(rows * c.inputs);
    d_h = buffer(c.batch * c.units);
    d_kernel = buffer(c.inputs * c.columns());
    d_recurrent = buffer(c.units * c.columns());
    packed = pack(CblasNoTrans, columns, units);
    packed_transposed = pack(CblasTrans, units, columns);
  }

  Buffer pack(CBLAS_TRANSPOSE transpose, MKL_INT n, MKL_INT k) {
    Buffer to(static_cast<float*>(mkl_malloc(
        cblas_sgemm_pack_get_size(CblasBMatrix, batch, n, k) + 64, 64)));
    cblas_sgemm_pack(CblasRowMajor, CblasBMatrix, transpose, batch, n, k, 1.0f,
                     recurrent.get(), columns, to.get());
    return to;
  }

  void forward(Way way) {
    const MKL_INT rows = batch * steps;
    if (way == Way::kVector && rows == 1) {
      cblas_sgemv(CblasRowMajor, CblasTrans, inputs, columns, 1.0f,
                  kernel.get(), columns, x.get(), 1, 0.0f, gates.get(), 1);
    } else {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns,
                  inputs, 1.0f, x.get(), inputs, kernel.get(), columns, 0.0f,
                  gates.get(), columns);
    }
    for (MKL_INT t = 0; t < steps; ++t) {
      float* gate = &gates[static_cast<std::size_t>(t) * batch * columns];
      const float* state = &h[static_cast<std::size_t>(t) * batch * units];
      switch (way) {
        case Way::kPlain:
          cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, batch, columns,
                      units, 1.0f, state, units, recurrent.get(), columns, 1.0f,
                      gate, columns);
          break;
        case Way::kPacked:
          cblas_sgemm_compute(CblasRowMajor, CblasNoTrans, CblasPacked, batch,
                              columns, units, state, units, packed.get(),
                              columns, 1.0f, gate, columns);
          break;
        case Way::kVector:
          cblas_sgemv(CblasRowMajor, CblasTrans, units, columns, 1.0f,
                      recurrent.get(), columns, state, 1, 1.0f, gate, 1);
      }
    }
  }

  void backward(Way way) {
    const MKL_INT rows = batch * steps;
    for (MKL_INT t = steps - 1; t >= 0; --t) {
      const float* gate = &gates[static_cast<std::size_t>(t) * batch * columns];
      switch (way) {
        case Way::kPlain:
          cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, batch, units,
                      columns, 1.0f, gate, columns, recurrent.get(), columns,
                      0.0f, d_h.get(), units);
          break;
        case Way::kPacked:
          cblas_sgemm_compute(CblasRowMajor, CblasNoTrans, CblasPacked, batch,
                              units, columns, gate, columns,
                              packed_transposed.get(), units, 0.0f, d_h.get(),
                              units);
          break;
        case Way::kVector:
          cblas_sgemv(CblasRowMajor, CblasNoTrans, units, columns, 1.0f,
                      recurrent.get(), columns, gate, 1, 0.0f, d_h.get(), 1);
      }
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, inputs, columns,
                1.0f, gates.get(), columns, kernel.get(), columns, 0.0f,
                d_x.get(), inputs);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, inputs, columns, rows,
                1.0f, x.get(), inputs, gates.get(), columns, 0.0f,
                d_kernel.get(), columns);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, units, columns, rows,
                1.0f, h.get(), units, gates.get(), columns, 0.0f,
                d_recurrent.get(), columns);
  }
};

}  // namespace

int main() {
  mkl_set_num_threads(protocol::threads());
  MKLVersion version;
  mkl_get_version(&version);
  const std::string versions = "{\"MKL\": \"" +
                               std::to_string(version.MajorVersion) + "." +
                               std::to_string(version.MinorVersion) + "." +
                               std::to_string(version.UpdateVersion) + "\"}";
  return protocol::serve(versions, [](const protocol::Case& c) {
    auto products = std::make_shared<Products>(c);
    const bool training = c.training();
    // The convention names the way: each is a row of its own.
    Way way;
    if (c.convention == "plain") {
      way = Way::kPlain;
    } else if (c.convention == "packed") {
      way = Way::kPacked;
    } else if (c.batch == 1) {
      way = Way::kVector;
    } else {
      throw protocol::Unsupported("more than one row");
    }
    return [products, training, way] {
      products->forward(way);
      if (training) products->backward(way);
    };
  });
}
