"""The kernels on NumPy arrays, without TensorFlow.

For serving a model without a framework, for profiling, and for tests. Arrays
are float32, float64, float16 or, with the package ml_dtypes, bfloat16; half
types are computed in float32. Rows (the last axis) must be contiguous, other
axes may have any strides; nothing is copied. The GIL is released while a kernel
runs, and calls from many threads are safe.

    >>> import numpy as np
    >>> import fused_rnn.numpy as rnn
    >>> x, kernel = np.ones((2, 7, 3)), np.ones((3, 12))
    >>> outputs, state = rnn.gru(x, None, kernel, np.ones((4, 12)))[:2]
    >>> outputs.shape, state.shape
    ((2, 7, 4), (2, 4))

Set ``FUSED_RNN_NO_TENSORFLOW=1`` to keep ``import fused_rnn`` from loading
TensorFlow where it is installed.
"""

from fused_rnn.numpy._block_cells import (
    GRUBlockCellGradients, GRUBlockCellOutput, LSTMBlockCellGradients,
    LSTMBlockCellOutput, gru_block_cell, gru_block_cell_grad, lstm_block_cell,
    lstm_block_cell_grad,
)
from fused_rnn.numpy._gru import (
    GRUGradients, GRUOutput, GRUReserve, GRUStream, gru, gru_grad,
)
from fused_rnn.numpy._lstm import (
    LSTMGradients, LSTMOutput, LSTMReserve, LSTMStream, lstm, lstm_grad,
)
from fused_rnn.numpy._settings import (
    active_isa, get_num_threads, select_isa, set_num_threads, supported_isas,
)
from fused_rnn.numpy._simple_rnn import (
    SimpleRNNGradients, SimpleRNNOutput, SimpleRNNReserve, SimpleRNNStream,
    simple_rnn, simple_rnn_grad,
)

__all__ = [
    "GRUBlockCellGradients", "GRUBlockCellOutput", "GRUGradients", "GRUOutput",
    "GRUReserve", "GRUStream", "LSTMBlockCellGradients", "LSTMBlockCellOutput",
    "LSTMGradients", "LSTMOutput", "LSTMReserve", "LSTMStream",
    "SimpleRNNGradients", "SimpleRNNOutput", "SimpleRNNReserve",
    "SimpleRNNStream", "active_isa", "get_num_threads", "gru", "gru_block_cell",
    "gru_block_cell_grad", "gru_grad", "lstm", "lstm_block_cell",
    "lstm_block_cell_grad", "lstm_grad", "select_isa", "set_num_threads",
    "simple_rnn", "simple_rnn_grad", "supported_isas",
]
