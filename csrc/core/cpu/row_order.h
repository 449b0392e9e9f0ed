// What a mask means for the order of work: rows sorted by their last valid
// step, so that the rows still running at any step are a prefix and a
// right-padded tail costs nothing.
#ifndef FUSED_RNN_CORE_CPU_ROW_ORDER_H_
#define FUSED_RNN_CORE_CPU_ROW_ORDER_H_

#include "core/cpu/kernels.h"
#include "core/cpu/split.h"
#include "core/cpu/workspace.h"

namespace fused_rnn {

class RowOrder {
 public:
  void take(Workspace& workspace, const Mask& mask, const RnnShape& shape,
            const Split& split);
  // Reads the mask; sorts within what each part of a split by rows will get.
  void build();

  bool masked() const { return mask_.data != nullptr; }
  Index batch(Index position) const {
    return sorted_ ? position_[position] : position;
  }
  // One more than the last valid step of the row at this position.
  Index length(Index position) const {
    return masked() ? length_[position] : shape_.steps;
  }
  // Rows of the slice that are not past their length at step t: a prefix.
  Index active(const Slice& slice, Index t) const;
  // Fills valid[i] for the first `count` rows of the slice; false if all are.
  bool holes(const Slice& slice, Index t, Index count,
             std::uint8_t* valid) const;
  // The last valid step before t, or -1.
  Index previous_valid(Index t, Index position) const;

  // The first `count` rows of the slice as the leaf kernels want them.
  BlockRows block(const Slice& slice, Index count,
                  const std::uint8_t* valid = nullptr) const {
    return {count, slice.row, sorted_ ? position_ + slice.row : nullptr, valid};
  }

 private:
  bool at(Index t, Index b) const {
    return mask_.data[t * mask_.step + b * mask_.row] != 0;
  }

  Mask mask_;
  RnnShape shape_;
  Split split_;
  Index* position_ = nullptr;
  Index* length_ = nullptr;
  bool sorted_ = false;
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_ROW_ORDER_H_
