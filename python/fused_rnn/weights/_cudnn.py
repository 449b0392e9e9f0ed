"""cuDNN's canonical order, both ways."""

from typing import NamedTuple

import numpy as np

from fused_rnn.weights._keras import (
    CELLS,
    checked,
    inverse,
    keras_bias,
    pair_of_biases,
    reorder,
)

# cuDNN's gates by their places in Keras, for each number of gates. SimpleRNN;
# GRU: r z n; LSTM: i f c o.
_GATES = {1: (0,), 3: (1, 0, 2), 4: (0, 1, 2, 3)}


class CudnnWeights(NamedTuple):
    """Matrices and biases in cuDNN's canonical order, G gates each.

    matrices: W of each gate [H, I], then R of each [H, H]. biases: b of each
    gate, then q, the recurrent bias, of each; [H]. The gates are r z n of a
    GRU, i f c o of an LSTM.
    """

    matrices: tuple
    biases: tuple


def keras_to_cudnn(kernel, recurrent_kernel, bias=None):
    """Keras' layout to cuDNN's canonical order.

    Args:
      kernel: [I, GH].
      recurrent_kernel: [H, GH].
      bias: [GH], of a GRU (reset_after=True) [2, 3H], or None.

    Returns:
      CudnnWeights; cuDNN always has biases, so None becomes zeros.

    Raises:
      ValueError: a shape does not fit.
    """
    weights = checked(kernel, recurrent_kernel, bias, reset_after=True)
    biases = pair_of_biases(weights)
    if biases is None:
        biases = np.zeros((2, weights.kernel.shape[1]), weights.kernel.dtype)
    order = _GATES[weights.gates]

    def split(values):
        return np.split(reorder(values, order), len(order))

    return CudnnWeights(
        (*split(weights.kernel.T), *split(weights.recurrent_kernel.T)),
        (*split(biases[0]), *split(biases[1])),
    )


def cudnn_to_keras(matrices, biases):
    """cuDNN's canonical order to Keras' layout.

    The number of matrices tells the cell: 2 of a SimpleRNN, 6 of a GRU (with
    reset_after=True), 8 of an LSTM.

    Returns:
      KerasWeights.

    Raises:
      ValueError: a shape does not fit, or there are not so many of each.
    """
    gates = len(matrices) // 2
    if len(matrices) != len(biases) or len(matrices) not in (
        2 * count for count in CELLS
    ):
        raise ValueError(
            "expected 6 matrices and 6 biases of a GRU, 8 of an LSTM or 2 of a"
            f" SimpleRNN, got {len(matrices)} and {len(biases)}"
        )
    order = inverse(_GATES[gates])
    kernel, recurrent_kernel = (
        reorder(np.concatenate(m).T, order, 1)
        for m in (matrices[:gates], matrices[gates:])
    )
    pair = np.stack([
        reorder(np.concatenate(b), order)
        for b in (biases[:gates], biases[gates:])
    ])
    bias = keras_bias(pair, reset_after=gates == 3)
    return checked(kernel, recurrent_kernel, bias, reset_after=True)
