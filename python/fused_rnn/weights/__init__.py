"""Weights of GRU, LSTM and SimpleRNN in the layouts of others, both ways.

Plain NumPy in and out: no TensorFlow, PyTorch or ONNX needed. Keras' layout is
the middle: convert from one library to Keras and from there to the next. The
shapes tell which cell it is.

    layout             gates    kernels        biases
    GRU
    Keras              z r c    [I,3H] [H,3H]  [3H] or [2,3H]
    TF block cell      r u      [I+H,2H]       [2H]
                       c        [I+H,H]        [H]
    PyTorch            r z n    [3H,I] [3H,H]  [3H] [3H]
    ONNX               z r h    [3H,I] [3H,H]  [6H]
    cuDNN canonical    r z n    6 x [H,I or H] 6 x [H]
    textbook           z r h    3 x [H+I,H]    3 x [H]
    LSTM
    Keras              i f c o  [I,4H] [H,4H]  [4H]
    TF block cell      i c f o  [I+H,4H]       [4H]
    PyTorch            i f g o  [4H,I] [4H,H]  [4H] [4H]
    ONNX               i o f c  [4H,I] [4H,H]  [8H]
    cuDNN canonical    i f c o  8 x [H,I or H] 8 x [H]
    textbook           f i c o  4 x [H+I,H]    4 x [H]
    SimpleRNN
    Keras                       [I,H] [H,H]    [H]
    PyTorch                     [H,I] [H,H]    [H] [H]
    ONNX                        [H,I] [H,H]    [2H]
    cuDNN canonical             2 x [H,I or H] 2 x [H]
    textbook                    [I,H] [H,H]    [H]

The update gate of a GRU is the same gate in every library (Keras z, TensorFlow
u, PyTorch z, ONNX z all multiply the previous state), so none is negated; only
that of textbooks is 1 − z. What else differs is the order of the gates, which
side is transposed, how biases are summed, and where a GRU's reset gate acts
(``reset_after``): before the product in TensorFlow's block cell and textbooks,
after it in PyTorch and cuDNN, either in Keras and ONNX. The two are different
functions: no conversion leads from one to the other.
"""

from fused_rnn.weights._block_cell import (
    BlockCellWeights,
    LSTMBlockCellWeights,
    block_cell_to_keras,
    keras_to_block_cell,
    keras_to_lstm_block_cell,
    lstm_block_cell_to_keras,
    tf1_to_block_cell,
    tf1_to_lstm_block_cell,
)
from fused_rnn.weights._cudnn import (
    CudnnWeights,
    cudnn_to_keras,
    keras_to_cudnn,
)
from fused_rnn.weights._keras import KerasWeights
from fused_rnn.weights._onnx import OnnxWeights, keras_to_onnx, onnx_to_keras
from fused_rnn.weights._textbook import (
    keras_to_textbook_gru,
    keras_to_textbook_lstm,
    keras_to_textbook_rnn,
    textbook_gru_to_keras,
    textbook_lstm_to_keras,
    textbook_rnn_to_keras,
)
from fused_rnn.weights._torch import keras_to_torch, torch_to_keras

__all__ = [
    "BlockCellWeights",
    "CudnnWeights",
    "KerasWeights",
    "LSTMBlockCellWeights",
    "OnnxWeights",
    "block_cell_to_keras",
    "cudnn_to_keras",
    "keras_to_block_cell",
    "keras_to_cudnn",
    "keras_to_lstm_block_cell",
    "keras_to_onnx",
    "keras_to_textbook_gru",
    "keras_to_textbook_lstm",
    "keras_to_textbook_rnn",
    "keras_to_torch",
    "lstm_block_cell_to_keras",
    "onnx_to_keras",
    "textbook_gru_to_keras",
    "textbook_lstm_to_keras",
    "textbook_rnn_to_keras",
    "tf1_to_block_cell",
    "tf1_to_lstm_block_cell",
    "torch_to_keras",
]
