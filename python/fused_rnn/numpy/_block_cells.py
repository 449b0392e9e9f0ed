"""The block cells of TensorFlow 1, one step each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fused_rnn import _core
from fused_rnn.numpy._results import named


class GRUBlockCellOutput(NamedTuple):
    """What one step computes, each [batch size, cell size].

    r: the reset gate. u: the update gate. c: the candidate. h: the new state.
    """

    r: np.ndarray
    u: np.ndarray
    c: np.ndarray
    h: np.ndarray


class GRUBlockCellGradients(NamedTuple):
    """Gradients of the arguments of ``gru_block_cell``, each shaped like it,
    and of what its activations are applied to: c_bar [batch size, cell size],
    r_bar_u_bar [batch size, 2 * cell size].
    """

    x: np.ndarray
    h_prev: np.ndarray
    w_ru: np.ndarray
    w_c: np.ndarray
    b_ru: np.ndarray
    b_c: np.ndarray
    c_bar: np.ndarray
    r_bar_u_bar: np.ndarray


class LSTMBlockCellOutput(NamedTuple):
    """What one step computes, each [batch size, cell size].

    i, f, o: the input, forget and output gates. cs: the new cell state. ci: the
    cell input. co: tanh(cs). h: the new state.
    """

    i: np.ndarray
    cs: np.ndarray
    f: np.ndarray
    o: np.ndarray
    ci: np.ndarray
    co: np.ndarray
    h: np.ndarray


class LSTMBlockCellGradients(NamedTuple):
    """Gradients of the arguments of ``lstm_block_cell``, each shaped like it
    (None for peepholes that are not used), and of what its activations are
    applied to: gates_bar [batch size, 4 * cell size], in the order of w.
    """

    x: np.ndarray
    cs_prev: np.ndarray
    h_prev: np.ndarray
    w: np.ndarray
    wci: np.ndarray | None
    wcf: np.ndarray | None
    wco: np.ndarray | None
    b: np.ndarray
    gates_bar: np.ndarray


def gru_block_cell(x, h_prev, w_ru, w_c, b_ru, b_c) -> GRUBlockCellOutput:
    """One step of a gated recurrent unit, as TensorFlow's GRUBlockCell does it.

    The reset gate acts before the product:

        [r_bar u_bar] = [x h_prev] w_ru + b_ru      r = sigmoid(r_bar)
                                                    u = sigmoid(u_bar)
        c_bar = [x (r * h_prev)] w_c + b_c          c = tanh(c_bar)
        h = u * h_prev + (1 - u) * c

    This is the unit of Cho et al. 2014 (https://arxiv.org/abs/1406.1078), with
    biases; Keras computes the same with ``reset_after=False``.

    Args:
      x: [batch size, input size]; the other arguments have its dtype.
      h_prev: [batch size, cell size], the previous state.
      w_ru: [input size + cell size, 2 * cell size], weights of the reset gate
        (the left half of the columns) and of the update gate.
      w_c: [input size + cell size, cell size], weights of the candidate.
      b_ru: [2 * cell size].
      b_c: [cell size].

    Returns:
      GRUBlockCellOutput(r, u, c, h), new arrays.

    Raises:
      TypeError: an argument is no array, or has another dtype.
      ValueError: a shape contradicts the others; rows are not contiguous or
        not aligned.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> x, h = np.ones((2, 3)), np.zeros((2, 4))
    >>> cell = rnn.gru_block_cell(
    ...     x, h, np.ones((7, 8)), np.ones((7, 4)), np.ones(8), np.zeros(4))
    >>> cell.h.shape
    (2, 4)
    """
    return named(
        GRUBlockCellOutput,
        _core.gru_block_cell(x, h_prev, w_ru, w_c, b_ru, b_c),
    )


def gru_block_cell_grad(
    x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, *, d_r=None, d_u=None, d_c=None,
    d_h=None,
) -> GRUBlockCellGradients:
    """The gradient of ``gru_block_cell``, for gradients of all its results.

    Args:
      x, h_prev, w_ru, w_c, b_ru, b_c: what ``gru_block_cell`` was given.
      r, u, c: what it gave.
      d_r, d_u, d_c, d_h: gradients that arrive at its results, each
        [batch size, cell size]; None where there is none.

    Returns:
      GRUBlockCellGradients.

    Raises:
      TypeError, ValueError: as ``gru_block_cell``.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> arguments = (np.ones((2, 3)), np.zeros((2, 4)), np.ones((7, 8)),
    ...              np.ones((7, 4)), np.ones(8), np.zeros(4))
    >>> r, u, c, h = rnn.gru_block_cell(*arguments)
    >>> rnn.gru_block_cell_grad(*arguments, r, u, c, d_h=h).w_c.shape
    (7, 4)
    """
    return named(
        GRUBlockCellGradients,
        _core.gru_block_cell_grad(
            x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_r, d_u, d_c, d_h
        ),
    )


def lstm_block_cell(
    x, cs_prev, h_prev, w, wci, wcf, wco, b, *, forget_bias: float = 1.0,
    cell_clip: float = 3.0, use_peephole: bool = False,
) -> LSTMBlockCellOutput:
    """One step of a long short-term memory, as TensorFlow's LSTMBlockCell does
    it, with its defaults.

        [i_bar ci_bar f_bar o_bar] = [x h_prev] w + b
        i = sigmoid(i_bar + wci * cs_prev)
        f = sigmoid(f_bar + forget_bias + wcf * cs_prev)
        ci = tanh(ci_bar)
        cs = clip(ci * i + cs_prev * f)
        o = sigmoid(o_bar + wco * cs)
        co = tanh(cs)       h = co * o

    The terms with wci, wcf and wco are peepholes (Gers and Schmidhuber 2000,
    https://doi.org/10.1109/IJCNN.2000.861302), left out without use_peephole.

    Args:
      x: [batch size, input size]; the other arguments have its dtype.
      cs_prev: [batch size, cell size], the previous cell state.
      h_prev: [batch size, cell size], the previous state.
      w: [input size + cell size, 4 * cell size].
      wci, wcf, wco: [cell size]; without use_peephole they are not looked at
        and may be None.
      b: [4 * cell size].
      forget_bias: added to the forget gate before its activation.
      cell_clip: the bound of abs(cs), rounded to the dtype; none if it is not
        positive.
      use_peephole: whether the gates see the cell state.

    Returns:
      LSTMBlockCellOutput(i, cs, f, o, ci, co, h), new arrays.

    Raises:
      TypeError, ValueError: as ``gru_block_cell``.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> x, state = np.ones((2, 3)), np.zeros((2, 4))
    >>> cell = rnn.lstm_block_cell(
    ...     x, state, state, np.ones((7, 16)), None, None, None, np.ones(16))
    >>> cell.h.shape
    (2, 4)
    """
    return named(
        LSTMBlockCellOutput,
        _core.lstm_block_cell(
            x, cs_prev, h_prev, w, wci, wcf, wco, b, forget_bias, cell_clip,
            use_peephole,
        ),
    )


def lstm_block_cell_grad(
    x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, *, d_i=None,
    d_cs=None, d_f=None, d_o=None, d_ci=None, d_co=None, d_h=None,
    cell_clip: float = 3.0, use_peephole: bool = False,
) -> LSTMBlockCellGradients:
    """The gradient of ``lstm_block_cell``, for gradients of all its results.

    Where the cell state was cut off, no gradient passes to what it was made of.
    (TensorFlow's own gradient ops pass it.)

    Args:
      x, cs_prev, h_prev, w, wci, wcf, wco, b, cell_clip, use_peephole: what
        ``lstm_block_cell`` was given.
      i, cs, f, o, ci: what it gave.
      d_i, d_cs, d_f, d_o, d_ci, d_co, d_h: gradients that arrive at its
        results, each [batch size, cell size]; None where there is none.

    Returns:
      LSTMBlockCellGradients.

    Raises:
      TypeError, ValueError: as ``gru_block_cell``.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> state = np.zeros((2, 4))
    >>> arguments = (np.ones((2, 3)), state, state, np.ones((7, 16)), None,
    ...              None, None, np.ones(16))
    >>> i, cs, f, o, ci, co, h = rnn.lstm_block_cell(*arguments)
    >>> rnn.lstm_block_cell_grad(*arguments, i, cs, f, o, ci, d_h=h).w.shape
    (7, 16)
    """
    return named(
        LSTMBlockCellGradients,
        _core.lstm_block_cell_grad(
            x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, d_i,
            d_cs, d_f, d_o, d_ci, d_co, d_h, cell_clip, use_peephole,
        ),
    )
