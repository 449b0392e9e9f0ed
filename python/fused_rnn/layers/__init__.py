"""Keras layers over the fused ops.

The recurrent layers and cells are Keras' own classes with another loop inside:
every argument, property, weight and config key is inherited. A module for each
of Keras' layers; what they share is in ``_base``, what tells one cell from
another in ``_kinds``.
"""

from fused_rnn.layers.block_cell import GRUBlockCell, LSTMBlockCell
from fused_rnn.layers.gru import GRU, GRUCell
from fused_rnn.layers.lstm import LSTM, LSTMCell
from fused_rnn.layers.rnn import RNN
from fused_rnn.layers.simple_rnn import SimpleRNN, SimpleRNNCell

__all__ = [
    "GRU",
    "GRUBlockCell",
    "GRUCell",
    "LSTM",
    "LSTMBlockCell",
    "LSTMCell",
    "RNN",
    "SimpleRNN",
    "SimpleRNNCell",
]
