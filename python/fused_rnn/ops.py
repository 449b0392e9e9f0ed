"""Functional API over the ops: tensors in, tensors out."""

from fused_rnn._block_cells import (
    GRUBlockCellOutput,
    LSTMBlockCellOutput,
    gru_block_cell,
    lstm_block_cell,
)
from fused_rnn._sequences import (
    ACTIVATIONS,
    GRUOutput,
    LSTMOutput,
    SimpleRNNOutput,
    gru,
    lstm,
    simple_rnn,
)

__all__ = [
    "ACTIVATIONS", "GRUBlockCellOutput", "GRUOutput", "LSTMBlockCellOutput",
    "LSTMOutput", "SimpleRNNOutput", "gru", "gru_block_cell", "lstm",
    "lstm_block_cell", "simple_rnn",
]
