"""Keras' layout, the middle of all conversions, and the checks of shapes."""

from typing import NamedTuple, Optional

import numpy as np

# The number of gates, in Keras' order, tells a cell.
CELLS = {1: "SimpleRNN", 3: "GRU", 4: "LSTM"}


class KerasWeights(NamedTuple):
    """In the order of ``get_weights()`` of Keras' GRU, LSTM and SimpleRNN.

    kernel [I, GH] and recurrent_kernel [H, GH] with G gates: 3 of a GRU, 4 of
    an LSTM, 1 of a SimpleRNN. bias [GH], of a GRU with reset_after [2, 3H], or
    None (``use_bias=False``).
    """

    kernel: np.ndarray
    recurrent_kernel: np.ndarray
    bias: Optional[np.ndarray]

    @property
    def units(self):
        """H."""
        return self.recurrent_kernel.shape[0]

    @property
    def gates(self):
        """G."""
        return self.recurrent_kernel.shape[1] // self.units


def matrix(name, value, rows=None, columns=None):
    """The value as an array, if it is a matrix of that size."""
    value = np.asarray(value)
    if value.ndim != 2 or (
        (rows is not None and value.shape[0] != rows)
        or (columns is not None and value.shape[1] != columns)
    ):
        expected = ", ".join("any" if n is None else str(n)
                             for n in (rows, columns))
        raise ValueError(
            f"{name}: expected shape [{expected}], got {list(value.shape)}"
        )
    return value


def vector(name, value, size):
    """The value as an array, if it is a vector of that size."""
    value = np.asarray(value)
    if value.shape != (size,):
        raise ValueError(
            f"{name}: expected shape [{size}], got {list(value.shape)}"
        )
    return value


def checked(kernel, recurrent_kernel, bias, reset_after=None, cell=None):
    """KerasWeights of arrays whose shapes fit each other.

    Args:
      kernel, recurrent_kernel, bias: as in KerasWeights.
      reset_after: what the bias of a GRU must be of; None: either.
      cell: the only cell that will do; None: any.

    Raises:
      ValueError: a shape does not fit.
    """
    recurrent_kernel = matrix("recurrent_kernel", recurrent_kernel)
    units, columns = recurrent_kernel.shape
    allowed = [g * units for g, name in CELLS.items() if cell in (None, name)]
    if not units or columns not in allowed:
        shapes = " or ".join(
            f"[{units}, {size}]" for size in allowed
        ) if units else "[H, any] with H > 0"
        raise ValueError(
            f"recurrent_kernel: expected shape {shapes}, got"
            f" {list(recurrent_kernel.shape)}"
        )
    kernel = matrix("kernel", kernel, None, columns)
    weights = KerasWeights(kernel, recurrent_kernel, bias)
    if bias is not None:
        bias = np.asarray(bias)
        allowed = [(columns,), (2, columns)]
        if CELLS[weights.gates] != "GRU":
            allowed = allowed[:1]
        elif reset_after is not None:
            allowed = [allowed[reset_after]]
        if bias.shape not in allowed:
            shapes = " or ".join(str(list(shape)) for shape in allowed)
            raise ValueError(
                f"bias: expected shape {shapes}, got {list(bias.shape)}"
            )
    return weights._replace(bias=bias)


def reorder(a, order, axis=0):
    """Permutes the gates that lie side by side along an axis; contiguous."""
    gates = np.split(a, len(order), axis=axis)
    return np.ascontiguousarray(
        np.concatenate([gates[i] for i in order], axis=axis)
    )


def inverse(order):
    """The order that leads back."""
    return tuple(np.argsort(order).tolist())


def pair_of_biases(weights):
    """[2, GH] as others keep them, for inputs and state; None without bias.

    Where Keras has one bias, which is their sum, the second is zeros.
    """
    bias = weights.bias
    if bias is None or bias.ndim == 2:
        return bias
    return np.stack([bias, np.zeros_like(bias)])


def keras_bias(pair, reset_after):
    """Keras' bias of such a pair: the sum, unless a reset gate needs both."""
    return pair if pair is None or reset_after else pair[0] + pair[1]
