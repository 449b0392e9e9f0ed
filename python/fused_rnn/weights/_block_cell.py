"""The layout of TensorFlow's GRUBlockCell, both ways."""

from typing import NamedTuple

import numpy as np

from fused_rnn.weights._keras import KerasWeights, checked, matrix, vector


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
    if isinstance(variables, dict):
        has, get = variables.__contains__, variables.__getitem__
    else:
        has, get = variables.has_tensor, variables.get_tensor
    prefix = scope.rstrip("/") + "/" if scope else ""
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
