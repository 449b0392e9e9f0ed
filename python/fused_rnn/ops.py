"""Functional API over the ops: tensors in, tensors out."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from fused_rnn import _library
from fused_rnn import gradients as _gradients  # noqa: F401  registers them

_ops = _library.load()

_DTYPES = (tf.float32, tf.float64, tf.float16, tf.bfloat16)


class GRUBlockCellOutput(NamedTuple):
    """What one step computes, each [batch size, cell size].

    r: the reset gate. u: the update gate. c: the candidate. h: the new state.
    """

    r: tf.Tensor
    u: tf.Tensor
    c: tf.Tensor
    h: tf.Tensor


def _tensors(**arguments) -> list[tf.Tensor]:
    """Converts arguments to tensors of one dtype, the first argument's."""
    tensors = []
    for name, value in arguments.items():
        dtype = tensors[0].dtype if tensors else None
        # Numbers and lists take that dtype; arrays have one already, and a
        # hint would round them to it without a word.
        hint = None if hasattr(value, "dtype") else dtype
        try:
            tensor = tf.convert_to_tensor(value, dtype_hint=hint)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{name} must be a tensor or convertible to one, got"
                f" {type(value).__name__}: {error}"
            ) from error
        if not tensors and tensor.dtype not in _DTYPES:
            raise TypeError(
                f"{name} must have dtype"
                f" {', '.join(dtype.name for dtype in _DTYPES)}, got"
                f" {tensor.dtype.name}"
            )
        if tensors and tensor.dtype != dtype:
            first = next(iter(arguments))
            raise TypeError(
                f"{name} must have the dtype of {first}, {dtype.name}, got"
                f" {tensor.dtype.name}"
            )
        tensors.append(tensor)
    return tensors


def gru_block_cell(
    x, h_prev, w_ru, w_c, b_ru, b_c, name: str | None = None
) -> GRUBlockCellOutput:
    """One step of a gated recurrent unit, as TensorFlow's GRUBlockCell does it.

    The reset gate acts before the product:

        [r_bar u_bar] = [x h_prev] w_ru + b_ru      r = sigmoid(r_bar)
                                                    u = sigmoid(u_bar)
        c_bar = [x (r * h_prev)] w_c + b_c          c = tanh(c_bar)
        h = u * h_prev + (1 - u) * c

    This is the unit of Cho et al. 2014 (https://arxiv.org/abs/1406.1078), with
    biases; Keras computes the same with ``reset_after=False``, where u is
    called z. It is differentiable in all six arguments and all four results,
    to any order.

    Args:
      x: [batch size, input size]; float32, float64, float16 or bfloat16. The
        other arguments have its dtype.
      h_prev: [batch size, cell size], the previous state.
      w_ru: [input size + cell size, 2 * cell size], weights of the reset gate
        (the left half of the columns) and of the update gate.
      w_c: [input size + cell size, cell size], weights of the candidate.
      b_ru: [2 * cell size].
      b_c: [cell size].
      name: of the op in a graph.

    Returns:
      GRUBlockCellOutput(r, u, c, h), each [batch size, cell size].

    Raises:
      TypeError: a dtype that is not supported, or differs from x's.
      tf.errors.InvalidArgumentError: a shape contradicts the others.
      ValueError: the same while a graph is built (in ``tf.function`` too).

    Example:

    >>> import tensorflow as tf, fused_rnn
    >>> x, h = tf.ones([2, 3]), tf.zeros([2, 4])
    >>> w_ru, w_c = tf.ones([7, 8]), tf.ones([7, 4])
    >>> cell = fused_rnn.gru_block_cell(
    ...     x, h, w_ru, w_c, tf.ones([8]), tf.zeros([4]))
    >>> cell.h.shape
    TensorShape([2, 4])
    """
    inputs = _tensors(
        x=x, h_prev=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c
    )
    return GRUBlockCellOutput(*_ops.fused_rnn_gru_block_cell(*inputs, name=name))
