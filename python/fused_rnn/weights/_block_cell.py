"""The layouts of TensorFlow's GRUBlockCell and LSTMBlockCell, both ways."""

from typing import NamedTuple

import numpy as np

from fused_rnn.weights._keras import (
    KerasWeights,
    checked,
    matrix,
    reorder,
    vector,
)


class BlockCellWeights(NamedTuple):
    """In the order of ``fused_rnn.GRUBlockCell.get_weights()``.

    gates_kernel [I+H, 2H] is the op's w_ru, gates_bias [2H] its b_ru,
    candidate_kernel [I+H, H] its w_c and candidate_bias [H] its b_c.
    """

    gates_kernel: np.ndarray
    gates_bias: np.ndarray
    candidate_kernel: np.ndarray
    candidate_bias: np.ndarray


def keras_to_block_cell(kernel, recurrent_kernel, bias=None):
    """Keras' reset_after=False layout to TensorFlow's block cell.

        w_ru = [[K_r K_z], [R_r R_z]]    b_ru = [b_r b_z]
        w_c  = [K_c, R_c]                b_c  = b_c

    Args:
      kernel: [I, 3H].
      recurrent_kernel: [H, 3H].
      bias: [3H], or None, which the block cell stores as zeros.

    Returns:
      BlockCellWeights; ``cell.set_weights`` takes it as it is.

    Raises:
      ValueError: a shape does not fit; a bias [2, 3H] is of the other
        convention.
    """
    weights = checked(
        kernel, recurrent_kernel, bias, reset_after=False, cell="GRU"
    )
    bias = weights.bias
    if bias is None:
        bias = np.zeros(3 * weights.units, weights.kernel.dtype)
    both = np.concatenate([weights.kernel, weights.recurrent_kernel])
    z, r, c = np.split(both, 3, axis=1)
    b_z, b_r, b_c = np.split(bias, 3)
    return BlockCellWeights(
        np.concatenate([r, z], axis=1), np.concatenate([b_r, b_z]), c, b_c
    )


def block_cell_to_keras(
    gates_kernel, gates_bias, candidate_kernel, candidate_bias
):
    """TensorFlow's block cell to Keras' reset_after=False layout.

    The inverse of ``keras_to_block_cell``.

    Returns:
      KerasWeights with a bias [3H].

    Raises:
      ValueError: a shape does not fit.
    """
    candidate_kernel = matrix("candidate_kernel", candidate_kernel)
    rows, units = candidate_kernel.shape
    if rows < units:
        raise ValueError(
            "candidate_kernel: expected shape [I + H, H], got "
            f"{[rows, units]}"
        )
    gates_kernel = matrix("gates_kernel", gates_kernel, rows, 2 * units)
    gates_bias = vector("gates_bias", gates_bias, 2 * units)
    candidate_bias = vector("candidate_bias", candidate_bias, units)
    r, z = np.split(gates_kernel, 2, axis=1)
    b_r, b_z = np.split(gates_bias, 2)
    both = np.concatenate([z, r, candidate_kernel], axis=1)
    return KerasWeights(
        both[: rows - units], both[rows - units:],
        np.concatenate([b_z, b_r, candidate_bias]),
    )


def _reader(variables, scope):
    """What says whether a name is there, what gets it, and its prefix."""
    prefix = scope.rstrip("/") + "/" if scope else ""
    if isinstance(variables, dict):
        return variables.__contains__, variables.__getitem__, prefix
    return variables.has_tensor, variables.get_tensor, prefix


def tf1_to_block_cell(variables, scope=""):
    """The block cell's weights out of a TensorFlow 1 checkpoint.

    Both names are known: ``gates/kernel`` ... of GRUBlockCellV2 (and of
    tf.nn.rnn_cell.GRUCell, whose layout is the same), and ``w_ru`` ... of
    tf.contrib.rnn.GRUBlockCell. Of the latter's two matrices the shapes decide
    which is which, since some versions stored them under each other's name.

    Args:
      variables: anything with ``get_tensor(name)`` and
        ``has_tensor(name)``, such as tf.train.load_checkpoint(path); or a
        dict from names to arrays.
      scope: what stands before the names, such as "rnn/gru_cell".

    Returns:
      BlockCellWeights.

    Raises:
      KeyError: neither set of names is there under the scope.
      ValueError: a shape does not fit.

    Example:
      cell.set_weights(tf1_to_block_cell(tf.train.load_checkpoint(path),
                                         "rnn/gru_cell"))
    """
    has, get, prefix = _reader(variables, scope)
    for names in (
        ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"),
        ("w_ru", "b_ru", "w_c", "b_c"),
    ):
        if all(has(prefix + name) for name in names):
            gates, gates_bias, candidate, candidate_bias = (
                np.asarray(get(prefix + name)) for name in names
            )
            if candidate.shape[-1] == 2 * gates.shape[-1]:
                gates, candidate = candidate, gates
            if candidate_bias.shape[-1] == 2 * gates_bias.shape[-1]:
                gates_bias, candidate_bias = candidate_bias, gates_bias
            # Called for its checks.
            block_cell_to_keras(gates, gates_bias, candidate, candidate_bias)
            return BlockCellWeights(
                gates, gates_bias, candidate, candidate_bias
            )
    raise KeyError(
        f"no GRUBlockCell under {prefix!r}: expected {prefix}gates/kernel, "
        f"{prefix}gates/bias, {prefix}candidate/kernel and "
        f"{prefix}candidate/bias, or {prefix}w_ru, {prefix}b_ru, {prefix}w_c "
        f"and {prefix}b_c"
    )


class LSTMBlockCellWeights(NamedTuple):
    """In the order of ``fused_rnn.LSTMBlockCell.get_weights()``.

    kernel [I+H, 4H] is the op's w and bias [4H] its b, gates in the order i, c,
    f, o.
    """

    kernel: np.ndarray
    bias: np.ndarray


# From Keras' i, f, c, o to i, c, f, o, and back.
_SWAP = (0, 2, 1, 3)


def keras_to_lstm_block_cell(
    kernel, recurrent_kernel, bias=None, *, forget_bias=1.0
):
    """Keras' layout of an LSTM to TensorFlow's block cell.

        w = [[K_i K_c K_f K_o], [R_i R_c R_f R_o]]
        b = [b_i b_c b_f−forget_bias b_o]

    Args:
      kernel: [I, 4H].
      recurrent_kernel: [H, 4H].
      bias: [4H], or None, which counts as zeros.
      forget_bias: what the block cell will add to the forget gate, so that its
        own bias is smaller by as much.

    Returns:
      LSTMBlockCellWeights; ``cell.set_weights`` of a cell without peepholes
      takes it as it is.

    Raises:
      ValueError: a shape does not fit.
    """
    weights = checked(kernel, recurrent_kernel, bias, cell="LSTM")
    units, bias = weights.units, weights.bias
    if bias is None:
        bias = np.zeros(4 * units, weights.kernel.dtype)
    both = np.concatenate([weights.kernel, weights.recurrent_kernel])
    bias = reorder(bias, _SWAP)
    bias[2 * units : 3 * units] -= forget_bias
    return LSTMBlockCellWeights(reorder(both, _SWAP, axis=1), bias)


def lstm_block_cell_to_keras(kernel, bias, *, forget_bias=1.0):
    """TensorFlow's block cell to Keras' layout of an LSTM.

    The inverse of ``keras_to_lstm_block_cell``. A cell with peepholes or
    clipping is another function than Keras'.

    Returns:
      KerasWeights.

    Raises:
      ValueError: a shape does not fit.
    """
    kernel = matrix("kernel", kernel)
    rows, columns = kernel.shape
    units = columns // 4
    if columns % 4 or rows < units:
        raise ValueError(
            f"kernel: expected shape [I + H, 4H], got {[rows, columns]}"
        )
    bias = reorder(vector("bias", bias, columns), _SWAP)
    bias[units : 2 * units] += forget_bias
    kernel = reorder(kernel, _SWAP, axis=1)
    return KerasWeights(kernel[: rows - units], kernel[rows - units:], bias)


def tf1_to_lstm_block_cell(variables, scope=""):
    """An LSTM block cell's weights out of a TensorFlow 1 checkpoint.

    The names are those of tf.contrib.rnn.LSTMBlockCell and, with the same
    layout, tf.nn.rnn_cell.LSTMCell and BasicLSTMCell.

    Args:
      variables: anything with ``get_tensor(name)`` and
        ``has_tensor(name)``, such as tf.train.load_checkpoint(path); or a
        dict from names to arrays.
      scope: what stands before the names, such as "rnn/lstm_cell".

    Returns:
      A list of kernel and bias and, where they are there, w_i_diag, w_f_diag
      and w_o_diag, as ``cell.set_weights`` takes it.

    Raises:
      KeyError: kernel or bias is not there under the scope.
      ValueError: a shape does not fit.
    """
    has, get, prefix = _reader(variables, scope)
    names = ["kernel", "bias", "w_i_diag", "w_f_diag", "w_o_diag"]
    values = [np.asarray(get(prefix + n)) for n in names if has(prefix + n)]
    if not all(has(prefix + name) for name in names[:2]):
        raise KeyError(
            f"no LSTMBlockCell under {prefix!r}: expected {prefix}kernel and"
            f" {prefix}bias"
        )
    # Called for its checks.
    keras = lstm_block_cell_to_keras(*values[:2])
    for name, value in zip(names[2:], values[2:]):
        vector(name, value, keras.units)
    return values
