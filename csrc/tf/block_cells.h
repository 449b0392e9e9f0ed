// The block cells, GRU and LSTM as TensorFlow 1 laid them out: what each of
// their ops takes and gives, in tables that op definitions and kernels share.
#ifndef FUSED_RNN_TF_BLOCK_CELLS_H_
#define FUSED_RNN_TF_BLOCK_CELLS_H_

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/rnn.h"

namespace fused_rnn {

// What an argument is to the core; as an output of a gradient, what it is the
// gradient of. The shape follows: n gates side by side are n·H columns, and
// T stands in front where the op runs over a sequence.
enum class Role {
  kSteps,       // [], how many steps of the sequence are computed
  kX,           // [T, B, I]
  kH,           // [B, H], the state before the op, or after
  kC,           // [B, H], the cell state likewise
  kWeights,     // [I + H, n·H], rows of x before those of h
  kBias,        // [n·H]
  kPeephole,    // [H]
  kReserve,     // [T, B, n·H], gates and what else a step keeps
  kOutputs,     // [T, B, H], the state after each step
  kDState,      // [B, H], arriving at the state
  kDCellState,  // [B, H]
  kDReserve,    // [T, B, n·H], arriving at gates and so on
  kDGates,      // [T, B, n·H], of the gates before activation
};

struct Argument {
  const char* name = "";
  Role role = Role::kX;
  int count = 1;               // of gates side by side
  int gates[kMaxGates] = {};  // which, as the core numbers them
};

// One gate, or none; and several side by side.
constexpr Argument one(const char* name, Role role, int gate = 0) {
  return {name, role, 1, {gate}};
}
constexpr Argument reset_update(const char* name, Role role) {
  return {name, role, 2, {kReset, kUpdate}};
}
constexpr Argument icfo(const char* name, Role role) {
  return {name, role, 4, {kInput, kCellInput, kForget, kOutput}};
}
constexpr Argument ifco(const char* name, Role role) {
  return {name, role, 4, {kInput, kForget, kCellInput, kOutput}};
}

constexpr std::array<Argument, 1> as_table(const Argument& argument) {
  return {argument};
}
template <std::size_t kSize>
constexpr std::array<Argument, kSize> as_table(
    const std::array<Argument, kSize>& arguments) {
  return arguments;
}
// A table of arguments and of others' tables.
template <class... Parts>
constexpr auto table(const Parts&... parts) {
  std::array<Argument, (as_table(Parts{}).size() + ...)> all{};
  std::size_t next = 0;
  const auto append = [&](const auto& part) {
    for (const Argument& argument : as_table(part)) all[next++] = argument;
  };
  (append(parts), ...);
  return all;
}

// A view of such a table.
struct Arguments {
  template <std::size_t kSize>
  constexpr Arguments(const std::array<Argument, kSize>& table)
      : data(table.data()), size(kSize) {}
  constexpr const Argument* begin() const { return data; }
  constexpr const Argument* end() const { return data + size; }
  constexpr const Argument& operator[](int i) const { return data[i]; }

  const Argument* data;
  int size;
};

struct BlockOp {
  Cell cell;
  Arguments inputs;
  Arguments outputs;
  // The last inputs that come all or not at all, as a list of that name.
  int optional = 0;
  const char* list = "";

  // The first input of that role, or -1.
  constexpr int find(Role role) const {
    for (int i = 0; i < inputs.size; ++i)
      if (inputs[i].role == role) return i;
    return -1;
  }
  constexpr bool sequence() const { return find(Role::kSteps) >= 0; }
  // The most gates side by side.
  constexpr int widest() const {
    int most = 1;
    for (const Arguments& arguments : {inputs, outputs})
      for (const Argument& argument : arguments)
        if (argument.count > most) most = argument.count;
    return most;
  }
  std::string wrong_list(int count) const {
    std::string names = inputs[inputs.size - optional].name;
    for (int i = inputs.size - optional + 1; i < inputs.size; ++i)
      absl::StrAppend(&names, i + 1 < inputs.size ? ", " : " and ",
                      inputs[i].name);
    return absl::StrCat(list, " must hold no tensor, or ", names, "; got ",
                        count, " tensors");
  }
};

// ---- The axes of an argument.

enum class Size { kSteps, kBatch, kInputs, kUnits, kRows };
struct Axis {
  Size size = Size::kUnits;
  int times = 1;

  std::string words() const {
    constexpr const char* kWords[] = {"steps", "batch size", "input size",
                                      "cell size", "input size + cell size"};
    const char* word = kWords[static_cast<int>(size)];
    return times == 1 ? word : absl::StrCat(times, " * ", word);
  }
};
struct Axes {
  int rank = 0;
  Axis axis[3];

  std::string words() const {
    std::string text = "[";
    for (int i = 0; i < rank; ++i)
      absl::StrAppend(&text, i ? ", " : "", axis[i].words());
    return text + "]";
  }
};

constexpr Axes axes_of(const Argument& argument, bool sequence) {
  const Axis steps{Size::kSteps}, batch{Size::kBatch};
  const Axis columns{Size::kUnits, argument.count};
  switch (argument.role) {
    case Role::kSteps:
      return {};
    case Role::kWeights:
      return {2, {{Size::kRows}, columns}};
    case Role::kBias:
    case Role::kPeephole:
      return {1, {columns}};
    case Role::kH:
    case Role::kC:
    case Role::kDState:
    case Role::kDCellState:
      return {2, {batch, columns}};
    default:
      break;
  }
  const Axis last = argument.role == Role::kX ? Axis{Size::kInputs} : columns;
  if (sequence) return {3, {steps, batch, last}};
  return {2, {batch, last}};
}

// ---- GRU.

inline constexpr auto kGruInputs = table(
    one("x", Role::kX), one("h_prev", Role::kH),
    reset_update("w_ru", Role::kWeights),
    one("w_c", Role::kWeights, kCandidate), reset_update("b_ru", Role::kBias),
    one("b_c", Role::kBias, kCandidate));
inline constexpr auto kGruGateArguments = table(
    one("r", Role::kReserve, kReset), one("u", Role::kReserve, kUpdate),
    one("c", Role::kReserve, kCandidate));
inline constexpr auto kGruOutputs =
    table(kGruGateArguments, one("h", Role::kH));
inline constexpr auto kGruGradInputs = table(
    kGruInputs, kGruGateArguments, one("d_h", Role::kDState),
    one("d_r", Role::kDReserve, kReset), one("d_u", Role::kDReserve, kUpdate),
    one("d_c", Role::kDReserve, kCandidate));
inline constexpr auto kGruGateGradients =
    table(one("d_c_bar", Role::kDGates, kCandidate),
          reset_update("d_r_bar_u_bar", Role::kDGates));
inline constexpr auto kGruGradOutputs = table(
    one("d_x", Role::kX), one("d_h_prev", Role::kH), kGruGateGradients);
inline constexpr auto kGruWeightGradInputs =
    table(one("x", Role::kX), one("h_prev", Role::kH),
          one("r", Role::kReserve, kReset), kGruGateGradients);
inline constexpr auto kGruWeightGradients = table(
    reset_update("d_w_ru", Role::kWeights),
    one("d_w_c", Role::kWeights, kCandidate),
    reset_update("d_b_ru", Role::kBias), one("d_b_c", Role::kBias, kCandidate));

inline constexpr BlockOp kGruBlockCell{Cell::kGru, kGruInputs, kGruOutputs};
inline constexpr BlockOp kGruBlockCellGrad{
    Cell::kGru, kGruGradInputs, kGruGradOutputs, 3, "d_gates"};
inline constexpr BlockOp kGruBlockCellWeightGrad{
    Cell::kGru, kGruWeightGradInputs, kGruWeightGradients};

// ---- LSTM. TensorFlow's ci is the core's cell input, co its cell output.

inline constexpr auto kLstmStates =
    table(one("x", Role::kX), one("cs_prev", Role::kC),
          one("h_prev", Role::kH));
inline constexpr auto kPeepholes = table(one("wci", Role::kPeephole, kInput),
                                         one("wcf", Role::kPeephole, kForget),
                                         one("wco", Role::kPeephole, kOutput));
inline constexpr auto kLstmInputs =
    table(kLstmStates, icfo("w", Role::kWeights), kPeepholes,
          icfo("b", Role::kBias));
inline constexpr auto kLstmOutputs = table(
    one("i", Role::kReserve, kInput), one("cs", Role::kC),
    one("f", Role::kReserve, kForget), one("o", Role::kReserve, kOutput),
    one("ci", Role::kReserve, kCellInput),
    one("co", Role::kReserve, kCellOutput), one("h", Role::kH));
inline constexpr auto kLstmGradInputs = table(
    kLstmInputs, one("i", Role::kReserve, kInput),
    one("cs", Role::kReserve, kCellState), one("f", Role::kReserve, kForget),
    one("o", Role::kReserve, kOutput), one("ci", Role::kReserve, kCellInput),
    one("d_cs", Role::kDCellState), one("d_h", Role::kDState),
    one("d_i", Role::kDReserve, kInput), one("d_f", Role::kDReserve, kForget),
    one("d_o", Role::kDReserve, kOutput),
    one("d_ci", Role::kDReserve, kCellInput),
    one("d_co", Role::kDReserve, kCellOutput));
inline constexpr auto kLstmGradOutputs =
    table(one("d_x", Role::kX), one("d_cs_prev", Role::kC),
          one("d_h_prev", Role::kH), icfo("d_gates_bar", Role::kDGates));
inline constexpr auto kLstmWeightGradInputs =
    table(one("x", Role::kX), one("h_prev", Role::kH),
          icfo("d_gates_bar", Role::kDGates));
inline constexpr auto kLstmWeightGradients =
    table(icfo("d_w", Role::kWeights), icfo("d_b", Role::kBias));

inline constexpr BlockOp kLstmBlockCell{Cell::kLstm, kLstmInputs, kLstmOutputs};
inline constexpr BlockOp kLstmBlockCellGrad{
    Cell::kLstm, kLstmGradInputs, kLstmGradOutputs, 5, "d_gates"};
inline constexpr BlockOp kLstmBlockCellWeightGrad{
    Cell::kLstm, kLstmWeightGradInputs, kLstmWeightGradients};

// Over a whole sequence. Core's two ops differ in the order of the gates.
inline constexpr auto kBlockLstmOutputs = table(
    one("i", Role::kReserve, kInput), one("cs", Role::kReserve, kCellState),
    one("f", Role::kReserve, kForget), one("o", Role::kReserve, kOutput),
    one("ci", Role::kReserve, kCellInput),
    one("co", Role::kReserve, kCellOutput), one("h", Role::kOutputs));
inline constexpr auto kBlockLstmInputs =
    table(one("seq_len_max", Role::kSteps), kLstmInputs);
inline constexpr auto kBlockLstmV2Inputs =
    table(one("seq_len_max", Role::kSteps), kLstmStates,
          ifco("w", Role::kWeights), kPeepholes, ifco("b", Role::kBias));

inline constexpr BlockOp kBlockLstm{Cell::kLstm, kBlockLstmInputs,
                                    kBlockLstmOutputs};
inline constexpr BlockOp kBlockLstmV2{Cell::kLstm, kBlockLstmV2Inputs,
                                      kBlockLstmOutputs};

}  // namespace fused_rnn

#endif  // FUSED_RNN_TF_BLOCK_CELLS_H_
