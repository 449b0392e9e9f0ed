"""Functional API: single steps in the layout of TensorFlow's block cells."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from fused_rnn import _library
from fused_rnn import _block_cell_gradients  # noqa: F401  registers them
from fused_rnn._arguments import tensors_of

_ops = _library.load()


class GRUBlockCellOutput(NamedTuple):
    """What one step computes, each [batch size, cell size].

    r: the reset gate. u: the update gate. c: the candidate. h: the new state.
    """

    r: tf.Tensor
    u: tf.Tensor
    c: tf.Tensor
    h: tf.Tensor


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
    inputs = tensors_of(
        x=x, h_prev=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c
    )
    results = _ops.fused_rnn_gru_block_cell(*inputs, name=name)
    return GRUBlockCellOutput(*results)
