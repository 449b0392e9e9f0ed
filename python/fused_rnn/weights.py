"""Weights of a GRU in the layouts of other libraries, both ways.

Plain NumPy in and out: no TensorFlow, PyTorch or ONNX needed. Keras' layout is
the middle: convert from one library to Keras and from there to the next.

The update gate is the same gate everywhere here (Keras z, TensorFlow u,
PyTorch z, ONNX z all multiply the previous state), so no gate is ever negated.
What differs is the order of the gates, which side is transposed, how biases
are summed, and where the reset gate acts (``reset_after``). The two reset
conventions are different functions: no conversion leads from one to the other.

    layout            gates  kernels        biases            reset
    Keras             z r c  [I,3H] [H,3H]  [3H] or [2,3H]    both
    TF block cell     r u    [I+H,2H]       [2H]              before
                      c      [I+H,H]        [H]
    PyTorch           r z n  [3H,I] [3H,H]  [3H] [3H]         after
    ONNX              z r h  [3H,I] [3H,H]  [6H]              both
    cuDNN canonical   r z n  6 x [H,I or H] 6 x [H]           after
"""

from typing import NamedTuple, Optional

import numpy as np


class KerasWeights(NamedTuple):
    """In the order of ``keras.layers.GRU.get_weights()``.

    kernel [I, 3H], recurrent_kernel [H, 3H], and bias [3H] (reset before),
    [2, 3H] (reset after) or None (``use_bias=False``).
    """

    kernel: np.ndarray
    recurrent_kernel: np.ndarray
    bias: Optional[np.ndarray]


class BlockCellWeights(NamedTuple):
    """In the order of ``fused_rnn.GRUBlockCell.get_weights()``.

    gates_kernel [I+H, 2H] is the op's w_ru, gates_bias [2H] its b_ru,
    candidate_kernel [I+H, H] its w_c and candidate_bias [H] its b_c.
    """

    gates_kernel: np.ndarray
    gates_bias: np.ndarray
    candidate_kernel: np.ndarray
    candidate_bias: np.ndarray


class OnnxWeights(NamedTuple):
    """Inputs of ONNX' GRU for one direction.

    W [1, 3H, I], R [1, 3H, H], B [1, 6H] or None, and the attribute
    linear_before_reset.
    """

    W: np.ndarray
    R: np.ndarray
    B: Optional[np.ndarray]
    linear_before_reset: int


class CudnnWeights(NamedTuple):
    """Matrices and biases in cuDNN's canonical order.

    matrices: W_r, W_z, W_n [H, I], then R_r, R_z, R_n [H, H].
    biases: b_r, b_z, b_n, then q_r, q_z, q_n, each [H].
    """

    matrices: tuple
    biases: tuple


def _matrix(name, value, rows=None, columns=None):
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


def _vector(name, value, size):
    value = np.asarray(value)
    if value.shape != (size,):
        raise ValueError(
            f"{name}: expected shape [{size}], got {list(value.shape)}"
        )
    return value


def _keras(kernel, recurrent_kernel, bias, reset_after=None):
    """Checks Keras' weights; returns them with units."""
    recurrent_kernel = _matrix("recurrent_kernel", recurrent_kernel)
    units = recurrent_kernel.shape[0]
    _matrix("recurrent_kernel", recurrent_kernel, units, 3 * units)
    kernel = _matrix("kernel", kernel, None, 3 * units)
    if bias is not None:
        bias = np.asarray(bias)
        allowed = {True: [(2, 3 * units)], False: [(3 * units,)]}.get(
            reset_after, [(3 * units,), (2, 3 * units)]
        )
        if bias.shape not in allowed:
            shapes = " or ".join(str(list(shape)) for shape in allowed)
            raise ValueError(
                f"bias: expected shape {shapes}, got {list(bias.shape)}"
            )
    return kernel, recurrent_kernel, bias, units


def _reorder(a, order, axis):
    """Permutes the three gates that lie side by side along an axis."""
    gates = np.split(a, 3, axis=axis)
    return np.concatenate([gates[i] for i in order], axis=axis)


# Swapping the first two gates leads from z r c to r z c and back.
_SWAP = (1, 0, 2)


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
    kernel, recurrent_kernel, bias, units = _keras(
        kernel, recurrent_kernel, bias, reset_after=False
    )
    if bias is None:
        bias = np.zeros(3 * units, kernel.dtype)
    both = np.concatenate([kernel, recurrent_kernel])
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
    candidate_kernel = _matrix("candidate_kernel", candidate_kernel)
    rows, units = candidate_kernel.shape
    if rows < units:
        raise ValueError(
            "candidate_kernel: expected shape [I + H, H], got "
            f"{[rows, units]}"
        )
    gates_kernel = _matrix("gates_kernel", gates_kernel, rows, 2 * units)
    gates_bias = _vector("gates_bias", gates_bias, 2 * units)
    candidate_bias = _vector("candidate_bias", candidate_bias, units)
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


def keras_to_torch(
    kernel, recurrent_kernel, bias=None, *, layer=0, reverse=False
):
    """Keras' reset_after=True layout to the entries of a torch.nn.GRU.

    Transposed, and z and r swapped: weight_ih = [K_r K_z K_c]ᵀ, likewise
    weight_hh of R, bias_ih of bias[0] and bias_hh of bias[1].

    Args:
      kernel: [I, 3H].
      recurrent_kernel: [H, 3H].
      bias: [2, 3H], or None (``bias=False`` in torch).
      layer, reverse: which of the layers and directions they are.

    Returns:
      A dict "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0" (for
      layer 0) of arrays, to go through torch.from_numpy into
      ``load_state_dict``.

    Raises:
      ValueError: a shape does not fit.
    """
    kernel, recurrent_kernel, bias, _ = _keras(
        kernel, recurrent_kernel, bias, reset_after=True
    )
    suffix = f"_l{layer}" + ("_reverse" if reverse else "")
    state = {
        "weight_ih" + suffix: _reorder(kernel.T, _SWAP, 0),
        "weight_hh" + suffix: _reorder(recurrent_kernel.T, _SWAP, 0),
    }
    if bias is not None:
        state["bias_ih" + suffix] = _reorder(bias[0], _SWAP, 0)
        state["bias_hh" + suffix] = _reorder(bias[1], _SWAP, 0)
    return state


def torch_to_keras(state, *, layer=0, reverse=False, prefix=""):
    """One layer and direction of a torch.nn.GRU to Keras' reset_after=True.

    Args:
      state: a state dict; values that ``np.asarray`` takes.
      layer, reverse: which of the layers and directions to take.
      prefix: what stands before the names, such as "encoder.gru.".

    Returns:
      KerasWeights.

    Raises:
      KeyError: the state has no such layer.
      ValueError: a shape does not fit.
    """
    suffix = f"_l{layer}" + ("_reverse" if reverse else "")
    names = [prefix + kind + suffix for kind in ("weight_ih", "weight_hh")]
    missing = [name for name in names if name not in state]
    if missing:
        raise KeyError(f"the state has no {' and no '.join(missing)}")
    kernel, recurrent_kernel = (
        np.ascontiguousarray(
            _reorder(_matrix(name, state[name]), _SWAP, 0).T
        )
        for name in names
    )
    bias = None
    if prefix + "bias_ih" + suffix in state:
        bias = np.stack([
            _reorder(np.asarray(state[prefix + kind + suffix]), _SWAP, 0)
            for kind in ("bias_ih", "bias_hh")
        ])
    return KerasWeights(
        *_keras(kernel, recurrent_kernel, bias, reset_after=True)[:3]
    )


def keras_to_onnx(kernel, recurrent_kernel, bias=None, *, reset_after):
    """Keras' layout to the inputs of ONNX' GRU, one direction.

    Transposed; the order z r h is Keras'. B holds the input biases, then the
    recurrent ones, which are zeros with reset_after=False. For a bidirectional
    GRU concatenate both directions along the first axis.

    Returns:
      OnnxWeights with linear_before_reset = reset_after.

    Raises:
      ValueError: a shape does not fit.
    """
    kernel, recurrent_kernel, bias, _ = _keras(
        kernel, recurrent_kernel, bias, reset_after
    )
    if bias is not None:
        if not reset_after:
            bias = np.stack([bias, np.zeros_like(bias)])
        bias = bias.reshape(1, -1)
    return OnnxWeights(
        np.ascontiguousarray(kernel.T)[None],
        np.ascontiguousarray(recurrent_kernel.T)[None], bias,
        int(reset_after),
    )


def onnx_to_keras(W, R, B=None, linear_before_reset=0, *, direction=0):
    """The inputs of ONNX' GRU to Keras' layout.

    With linear_before_reset = 0 the two biases only ever appear as a sum, so
    Keras' single bias is that sum.

    Args:
      W: [directions, 3H, I].
      R: [directions, 3H, H].
      B: [directions, 6H] or None.
      linear_before_reset: the attribute; Keras' reset_after.
      direction: which of the directions to take.

    Returns:
      KerasWeights.

    Raises:
      ValueError: a shape does not fit.
    """
    kernel = np.ascontiguousarray(_matrix("W", np.asarray(W)[direction]).T)
    recurrent = np.ascontiguousarray(_matrix("R", np.asarray(R)[direction]).T)
    bias = None
    if B is not None:
        both = _vector("B", np.asarray(B)[direction], 6 * recurrent.shape[0])
        bias = both.reshape(2, -1)
        if not linear_before_reset:
            bias = bias[0] + bias[1]
    return KerasWeights(
        *_keras(kernel, recurrent, bias, bool(linear_before_reset))[:3]
    )


def keras_to_cudnn(kernel, recurrent_kernel, bias=None):
    """Keras' reset_after=True layout to cuDNN's canonical order.

    Returns:
      CudnnWeights; cuDNN always has biases, so None becomes zeros.

    Raises:
      ValueError: a shape does not fit.
    """
    kernel, recurrent_kernel, bias, units = _keras(
        kernel, recurrent_kernel, bias, reset_after=True
    )
    if bias is None:
        bias = np.zeros((2, 3 * units), kernel.dtype)
    matrices = [
        np.split(_reorder(m.T, _SWAP, 0), 3) for m in (kernel, recurrent_kernel)
    ]
    biases = [np.split(_reorder(b, _SWAP, 0), 3) for b in bias]
    return CudnnWeights(tuple(sum(matrices, [])), tuple(sum(biases, [])))


def cudnn_to_keras(matrices, biases):
    """cuDNN's canonical order to Keras' reset_after=True layout.

    Returns:
      KerasWeights.

    Raises:
      ValueError: a shape does not fit, or there are not six of each.
    """
    if len(matrices) != 6 or len(biases) != 6:
        raise ValueError(
            "expected 6 matrices and 6 biases, got "
            f"{len(matrices)} and {len(biases)}"
        )
    kernel, recurrent_kernel = (
        np.ascontiguousarray(_reorder(np.concatenate(m), _SWAP, 0).T)
        for m in (matrices[:3], matrices[3:])
    )
    bias = np.stack([
        _reorder(np.concatenate(b), _SWAP, 0)
        for b in (biases[:3], biases[3:])
    ])
    return KerasWeights(*_keras(kernel, recurrent_kernel, bias, True)[:3])
