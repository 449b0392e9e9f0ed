// Compiled once for each instruction set, with FUSED_RNN_ISA_NAME naming it:
// the leaf kernels and nothing else. A template or inline function that another
// object also holds would be merged by the linker, and the widest instruction
// set's copy might then serve every processor; so everything here lies in an
// anonymous namespace and no header with code of its own is included.
#include "core/cpu/gru_gates_isa.h"
#include "core/cpu/lstm_gates_isa.h"
#include "core/cpu/simple_gates_isa.h"
#include "core/cpu/kernel_tables.h"
#include "core/cpu/kernels.h"
#include "core/cpu/rows_isa.h"
#include "core/cpu/tile_isa.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

template <class T>
void fill(Kernels<T>& table) {
  using C = Compute<T>;
  table.width = kWidth<C>;
  table.block_rows = kBlockRows;
  for (int rows = 1; rows <= kMaxRows; ++rows)
    table.max_vectors[rows] = max_vectors(rows);
  fill_tiles<C, false>(table.tile);
  fill_tiles<C, true>(table.tile_transposed);
  table.row_product = &row_product<T>;

  table.pack = &pack<T>;
  table.pack_transposed = &pack_transposed<T>;
  table.read_rows = &read_rows<T>;
  table.read_groups = &read_groups<T>;
  table.write_rows = &write_rows<T>;
  table.add_rows = &add_rows<T>;
  table.scale_rows = &scale_rows<T>;
  table.add_scaled_rows = &add_scaled_rows<T>;

  table.gru_forward_after = &gru_forward_after<T>;
  table.gru_forward_before[0] = &gru_forward_before_gates<T>;
  table.gru_forward_before[1] = &gru_forward_before_candidate<T>;
  table.lstm_forward = &lstm_forward<T>;
  table.simple_forward = &simple_forward<T>;
  table.gru_backward_after = &gru_backward_after<T>;
  table.gru_backward_before[0] = &gru_backward_before_candidate<T>;
  table.gru_backward_before[1] = &gru_backward_before_reset<T>;
  table.lstm_backward = &lstm_backward<T>;
  table.simple_backward = &simple_backward<T>;
}

}  // namespace

void fill_tables(KernelTables& tables) {
  fill(tables.of_float);
  fill(tables.of_double);
  fill(tables.of_half);
  fill(tables.of_bfloat16);
}

}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn
