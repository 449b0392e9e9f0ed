"""The recurrent cells in plain NumPy float64: what every kernel is tested
against. Written for reading, not for speed; it shares no code with csrc.

Formulas, forward and backward, and their derivations are in ``cell_gru``,
``cell_lstm``, ``cell_simple_rnn`` and ``cell_lstm_block`` (TensorFlow's own
LSTM ops), with what they share in ``common``. ``sequences`` runs them over
sequences, in the one loop of ``time_loop``. ``networks`` has a character-level
language model on each cell, written as textbooks do.

    >>> from fused_rnn import reference
    >>> import numpy as np
    >>> x, h0 = np.ones((2, 5, 3)), np.zeros((2, 4))
    >>> kernel, recurrent = np.ones((3, 12)), np.ones((4, 12))
    >>> outputs, state = reference.gru(x, h0, kernel, recurrent,
    ...                                reset_after=True)
    >>> outputs.shape, state.shape
    ((2, 5, 4), (2, 4))
"""

from fused_rnn.reference.adam import Adam
from fused_rnn.reference.cell_gru import (
    BlockCellOutput,
    CellOutput,
    gru_block_cell,
    gru_block_cell_grad,
    gru_cell,
    gru_cell_grad,
)
from fused_rnn.reference.cell_lstm import (
    LstmCellOutput,
    lstm_cell,
    lstm_cell_grad,
)
from fused_rnn.reference.cell_lstm_block import (
    LstmBlockCellOutput,
    lstm_block_cell,
    lstm_block_cell_grad,
)
from fused_rnn.reference.cell_simple_rnn import (
    SimpleRnnCellOutput,
    simple_rnn_cell,
    simple_rnn_cell_grad,
)
from fused_rnn.reference.common import ACTIVATIONS
from fused_rnn.reference.networks import (
    CharacterGru,
    CharacterLstm,
    CharacterModel,
    CharacterRnn,
)
from fused_rnn.reference.sequences import (
    block_lstm,
    block_lstm_grad,
    gru,
    gru_grad,
    lstm,
    lstm_grad,
    simple_rnn,
    simple_rnn_grad,
)

__all__ = [
    "ACTIVATIONS", "Adam", "BlockCellOutput", "CellOutput", "CharacterGru",
    "CharacterLstm", "CharacterModel", "CharacterRnn", "LstmBlockCellOutput",
    "LstmCellOutput", "SimpleRnnCellOutput", "block_lstm", "block_lstm_grad",
    "gru", "gru_block_cell", "gru_block_cell_grad", "gru_cell",
    "gru_cell_grad", "gru_grad", "lstm", "lstm_block_cell",
    "lstm_block_cell_grad", "lstm_cell", "lstm_cell_grad", "lstm_grad",
    "simple_rnn", "simple_rnn_cell", "simple_rnn_cell_grad", "simple_rnn_grad",
]
