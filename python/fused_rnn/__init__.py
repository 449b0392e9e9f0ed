"""Fused recurrent layers for TensorFlow, and the same kernels on NumPy arrays.

Importing the package loads TensorFlow, if it is installed, and registers the
ops, so that existing graphs use them too. Set ``FUSED_RNN_NO_TENSORFLOW=1`` to
leave TensorFlow alone: ``fused_rnn.numpy`` works without it.
"""

from fused_rnn import _library
from fused_rnn._library import library_path
from fused_rnn._version import __version__

# Each public name that needs TensorFlow, and the module that defines it.
_TENSORFLOW_NAMES: dict[str, str] = {
    "GRU": "layers",
    "GRUBlockCell": "layers",
    "GRUBlockCellOutput": "ops",
    "GRUCell": "layers",
    "GRUOutput": "ops",
    "LSTM": "layers",
    "LSTMBlockCell": "layers",
    "LSTMBlockCellOutput": "ops",
    "LSTMCell": "layers",
    "LSTMOutput": "ops",
    "RNN": "layers",
    "SimpleRNN": "layers",
    "SimpleRNNCell": "layers",
    "SimpleRNNOutput": "ops",
    "fuse": "_fuse",
    "fused_scope": "_fuse",
    "gru": "ops",
    "gru_block_cell": "ops",
    "lstm": "ops",
    "lstm_block_cell": "ops",
    "simple_rnn": "ops",
    "unfuse": "_fuse",
}

__all__ = ["__version__", "library_path", *_TENSORFLOW_NAMES]


def __getattr__(name):
    if name not in _TENSORFLOW_NAMES:
        raise AttributeError(f"module 'fused_rnn' has no attribute '{name}'")
    value = getattr(_library.import_module(_TENSORFLOW_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *_TENSORFLOW_NAMES])


if _library.wanted_at_import():
    for _name in _TENSORFLOW_NAMES:
        __getattr__(_name)
