"""What the registered gradients share: what arrives, and what is wanted."""

from __future__ import annotations

import tensorflow as tf

try:
    from tensorflow.python.eager.record import should_record_backprop
except ImportError:  # Not public: without it every tensor may be watched.

    def should_record_backprop(tensors):
        return True


def surely_zero(tensor) -> bool:
    """Whether a graph says that this incoming gradient is zero.

    TensorFlow fills in zeros for an output that nobody differentiates. In a
    graph they can be recognised, and then need not exist. Zeros that a tape
    watches, for double backpropagation, are a variable's value like another.
    """
    if hasattr(tensor, "numpy"):  # Eager: a value like another.
        return False
    kind = tensor.op.type
    if kind == "Fill":
        zero = tf.get_static_value(tensor.op.inputs[1]) == 0
    elif kind == "Const":
        zero = not tf.get_static_value(tensor).any()
    else:
        zero = kind == "ZerosLike"
    return bool(zero) and not watched([tensor])


def watched(tensors) -> bool:
    """Whether a tape may differentiate with respect to these tensors."""
    return should_record_backprop(tensors)


def dense(*gradients) -> list:
    """Incoming gradients as tensors; of tf.gather's result they are slices."""
    return [
        tf.convert_to_tensor(gradient)
        if isinstance(gradient, tf.IndexedSlices) else gradient
        for gradient in gradients
    ]


def skipped(op) -> frozenset:
    """Inputs whose gradient an eager tape will throw away."""
    return frozenset(getattr(op, "skip_input_indices", None) or ())
