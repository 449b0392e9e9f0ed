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


class LSTMBlockCellOutput(NamedTuple):
    """What one step computes, each [batch size, cell size].

    i: the input gate. cs: the new cell state. f: the forget gate. o: the output
    gate. ci: the cell input. co: the cell output. h: the new state.
    """

    i: tf.Tensor
    cs: tf.Tensor
    f: tf.Tensor
    o: tf.Tensor
    ci: tf.Tensor
    co: tf.Tensor
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


def lstm_block_cell(
    x, cs_prev, h_prev, w, b, *, wci=None, wcf=None, wco=None,
    forget_bias: float = 1.0, cell_clip: float = 3.0,
    use_peephole: bool | None = None, name: str | None = None,
) -> LSTMBlockCellOutput:
    """One step of an LSTM, as TensorFlow's LSTMBlockCell does it.

        [i_bar ci_bar f_bar o_bar] = [x h_prev] w + b
        i = sigmoid(i_bar + wci * cs_prev)
        f = sigmoid(f_bar + forget_bias + wcf * cs_prev)
        ci = tanh(ci_bar)
        cs = clip(i * ci + f * cs_prev)
        o = sigmoid(o_bar + wco * cs)
        co = tanh(cs)
        h = o * co

    This is the unit of Gers, Schraudolph and Schmidhuber 2002
    (https://www.jmlr.org/papers/v3/gers02a.html), whose peepholes are the terms
    with wci, wcf and wco, with a bound on the cell state. It is differentiable
    in all tensors and all seven results, to any order. Where cs was cut off it
    depends on nothing: its gradient is zero there.

    Args:
      x: [batch size, input size]; float32, float64, float16 or bfloat16. The
        other tensors have its dtype.
      cs_prev: [batch size, cell size], the previous cell state.
      h_prev: [batch size, cell size], the previous state.
      w: [input size + cell size, 4 * cell size], columns in the order i, ci, f,
        o.
      b: [4 * cell size], likewise.
      wci, wcf, wco: [cell size], peepholes; one that is None counts as zeros.
      forget_bias: added to the forget gate. This and cell_clip reach the op in
        float32, and are rounded to a narrower dtype.
      cell_clip: cs is cut off at plus and minus this; 0 or less: not at all. As
        in TensorFlow, the default does cut off.
      use_peephole: whether there are peepholes. None: if any is given. False:
        they are neither read nor checked.
      name: of the op in a graph.

    Returns:
      LSTMBlockCellOutput(i, cs, f, o, ci, co, h), each [batch size, cell size].

    Raises:
      TypeError: a dtype that is not supported, or differs from x's.
      tf.errors.InvalidArgumentError: a shape contradicts the others.
      ValueError: the same while a graph is built (in ``tf.function`` too).

    Example:

    >>> import tensorflow as tf, fused_rnn
    >>> x, cs, h = tf.ones([2, 3]), tf.zeros([2, 4]), tf.zeros([2, 4])
    >>> cell = fused_rnn.lstm_block_cell(
    ...     x, cs, h, tf.ones([7, 16]), tf.zeros([16]))
    >>> cell.cs.shape, cell.h.shape
    (TensorShape([2, 4]), TensorShape([2, 4]))
    """
    x, cs_prev, h_prev, w, b, *peepholes = tensors_of(
        x=x, cs_prev=cs_prev, h_prev=h_prev, w=w, b=b, wci=wci, wcf=wcf,
        wco=wco,
    )
    given = [peephole for peephole in peepholes if peephole is not None]
    if use_peephole is None:
        use_peephole = bool(given)
    if use_peephole and len(given) < 3:
        zeros = tf.zeros(tf.shape(cs_prev)[1:], x.dtype)
        peepholes = [zeros if p is None else p for p in peepholes]
    elif not use_peephole:
        peepholes = [b, b, b]  # Not read: any tensor will do.
    results = _ops.fused_rnn_lstm_block_cell(
        x, cs_prev, h_prev, w, *peepholes, b, forget_bias=forget_bias,
        cell_clip=cell_clip, use_peephole=use_peephole, name=name,
    )
    return LSTMBlockCellOutput(*results)
