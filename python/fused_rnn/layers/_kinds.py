"""What tells Keras' recurrent cells apart, and which of them are fused."""

from typing import Callable, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from fused_rnn import ops as fused_ops

DTYPES = ("float32", "float64", "float16", "bfloat16")

# Functions that a user may pass for an activation, and the op's name of it.
_ACTIVATIONS = {
    keras.activations.tanh: "tanh",
    keras.activations.sigmoid: "sigmoid",
    keras.activations.relu: "relu",
    keras.activations.linear: "linear",
    keras.activations.hard_sigmoid: "hard_sigmoid",
    keras.activations.softsign: "softsign",
    keras.activations.elu: "elu",
    ops.tanh: "tanh",
    ops.sigmoid: "sigmoid",
    ops.relu: "relu",
    ops.hard_sigmoid: "hard_sigmoid",
    ops.softsign: "softsign",
    ops.elu: "elu",
    tf.tanh: "tanh",
    tf.sigmoid: "sigmoid",
    tf.nn.relu: "relu",
    tf.identity: "linear",
    tf.nn.softsign: "softsign",
    tf.nn.elu: "elu",
}


class Kind(NamedTuple):
    """A cell as the layers know it.

    op: outputs and the last states of (sequences, *states, kernel,
      recurrent_kernel, bias, **options).
    gates: whose matrices lie side by side in the kernels.
    states: the tensors that a step hands to the next.
    activations: attributes of the cell, and options of the op, that name one.
    options: attributes of the cell that the op takes as they are.
    drops_all: whether a rate of dropout of 1 drops everything, or nothing.
    """

    op: Callable
    gates: int
    states: int = 1
    activations: tuple = ("activation", "recurrent_activation")
    options: tuple = ()
    drops_all: bool = False


KINDS = {
    keras.layers.GRUCell: Kind(fused_ops.gru, 3, options=("reset_after",)),
    keras.layers.LSTMCell: Kind(fused_ops.lstm, 4, states=2),
    keras.layers.SimpleRNNCell: Kind(
        fused_ops.simple_rnn, 1, activations=("activation",), drops_all=True
    ),
}


def kind_of(cell):
    """The Kind of one of Keras' cells or of ours; None of subclasses."""
    cls = type(cell)
    return KINDS.get(vars(cls).get("_keras_class", cls))


def cells_of(cell):
    """The cells that an RNN layer runs one after the other, as a list."""
    if type(cell) is keras.layers.StackedRNNCells:
        cell = cell.cells
    return list(cell) if isinstance(cell, (list, tuple)) else [cell]


def activation_name(function):
    """The op's name of an activation function, or None."""
    try:
        return _ACTIVATIONS.get(function)
    except TypeError:  # not hashable
        return None


def one_of(classes):
    """Their names in a sentence."""
    *names, last = (cls.__name__ for cls in classes)
    return f"{', '.join(names)} or {last}" if names else last


def why_not_fused(cell, allowed=tuple(KINDS)):
    """Why an op cannot compute what this cell does, or None if it can.

    The cell has to be one of Keras' classes that are allowed, or of ours.
    """
    kind = kind_of(cell)
    if kind is None or not isinstance(cell, allowed):
        return f"the cell is a {type(cell).__name__}, not a {one_of(allowed)}"
    for attribute in kind.activations:
        function = getattr(cell, attribute)
        if activation_name(function) is None:
            name = getattr(function, "__name__", None) or repr(function)
            known = sorted(set(_ACTIVATIONS.values()))
            return f"{attribute} {name} is not one of {', '.join(known)}"
    if cell.compute_dtype not in DTYPES:
        return (
            f"the compute dtype {cell.compute_dtype} is not one of"
            f" {', '.join(DTYPES)}"
        )
    if kind.gates > 1 and (
        cell.recurrent_dropout or (cell.dropout and cell.implementation == 1)
    ):
        # Before 3.8 one mask served all gates, and a GRU's state was dropped.
        if getattr(cell, "dropout_mask_count", None) != kind.gates:
            return (
                f"with these dropouts the cell of Keras {keras.__version__}"
                " computes another function than that of 3.8 and newer"
            )
    return None
