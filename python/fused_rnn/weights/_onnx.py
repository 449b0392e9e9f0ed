"""ONNX' layout, both ways."""

from typing import NamedTuple, Optional

import numpy as np

from fused_rnn.weights._keras import (
    checked,
    inverse,
    keras_bias,
    matrix,
    pair_of_biases,
    reorder,
    vector,
)

# ONNX' gates by their places in Keras, for each number of gates. RNN; GRU:
# z r h; LSTM: i o f c.
_GATES = {1: (0,), 3: (0, 1, 2), 4: (0, 3, 1, 2)}


class OnnxWeights(NamedTuple):
    """Inputs of ONNX' GRU, LSTM or RNN for one direction.

    W [1, GH, I], R [1, GH, H], B [1, 2GH] or None, and of a GRU the attribute
    linear_before_reset.
    """

    W: np.ndarray
    R: np.ndarray
    B: Optional[np.ndarray]
    linear_before_reset: Optional[int]


def keras_to_onnx(kernel, recurrent_kernel, bias=None, *, reset_after=None):
    """Keras' layout to the inputs of ONNX' GRU, LSTM or RNN, one direction.

    Transposed; the order z r h of a GRU is Keras', that of an LSTM i o f c. B
    holds the input biases, then the recurrent ones, which are zeros but for a
    GRU with reset_after=True. For both directions concatenate along the first
    axis.

    Args:
      kernel: [I, GH].
      recurrent_kernel: [H, GH].
      bias: [GH], of a GRU with reset_after=True [2, 3H], or None.
      reset_after: of a GRU; no other has it.

    Returns:
      OnnxWeights, of a GRU with linear_before_reset = reset_after.

    Raises:
      ValueError: a shape does not fit; reset_after of a GRU is missing.
    """
    weights = checked(kernel, recurrent_kernel, bias, reset_after)
    if weights.gates == 3 and reset_after is None:
        raise ValueError("reset_after: expected True or False of a GRU")
    order = _GATES[weights.gates]
    biases = pair_of_biases(weights)
    if biases is not None:
        biases = reorder(biases, order, 1).reshape(1, -1)
    return OnnxWeights(
        reorder(weights.kernel.T, order)[None],
        reorder(weights.recurrent_kernel.T, order)[None],
        biases,
        int(reset_after) if weights.gates == 3 else None,
    )


def onnx_to_keras(W, R, B=None, linear_before_reset=0, *, direction=0):
    """The inputs of ONNX' GRU, LSTM or RNN to Keras' layout.

    Without linear_before_reset the two biases only ever appear as a sum, so
    Keras' single bias is that sum. The peepholes P of an LSTM have no place in
    Keras.

    Args:
      W: [directions, GH, I].
      R: [directions, GH, H].
      B: [directions, 2GH] or None.
      linear_before_reset: the attribute of a GRU; Keras' reset_after.
      direction: which of the directions to take.

    Returns:
      KerasWeights.

    Raises:
      ValueError: a shape does not fit.
    """
    kernel, recurrent = (
        matrix(name, np.asarray(value)[direction]).T
        for name, value in (("W", W), ("R", R))
    )
    weights = checked(kernel, recurrent, None)
    order = inverse(_GATES[weights.gates])
    biases = None
    if B is not None:
        size = weights.gates * weights.units
        both = vector("B", np.asarray(B)[direction], 2 * size)
        biases = reorder(both.reshape(2, size), order, 1)
    return weights._replace(
        kernel=reorder(kernel, order, 1),
        recurrent_kernel=reorder(recurrent, order, 1),
        bias=keras_bias(
            biases, reset_after=weights.gates == 3 and linear_before_reset
        ),
    )
