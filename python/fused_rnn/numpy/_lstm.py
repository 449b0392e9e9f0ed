"""The long short-term memory over sequences and streams."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fused_rnn import _core
from fused_rnn.numpy._results import last_output, named


class LSTMReserve(NamedTuple):
    """What ``lstm_grad`` needs of a forward pass.

    outputs: all outputs, in the layout of x. gates: [T, B, 4H], its order is
    the kernels' own. cell_states: [T, B, H] in the order of processing.
    """

    outputs: np.ndarray
    gates: np.ndarray
    cell_states: np.ndarray


class LSTMOutput(NamedTuple):
    """What a sequence gives.

    outputs: the sequence of states, [B, T, H] or [T, B, H], or the last output
    alone, [B, H]. state: the last state h, [B, H]. cell_state: the last c,
    [B, H]. reserve: for ``lstm_grad``, or None.
    """

    outputs: np.ndarray
    state: np.ndarray
    cell_state: np.ndarray
    reserve: LSTMReserve | None


class LSTMGradients(NamedTuple):
    """Gradients of the arguments of ``lstm``, each shaped like it; bias is None
    where there is none, h0 and c0 are there in any case.
    """

    x: np.ndarray
    h0: np.ndarray
    c0: np.ndarray
    kernel: np.ndarray
    recurrent_kernel: np.ndarray
    bias: np.ndarray | None


def lstm(
    x, h0, c0, kernel, recurrent_kernel, bias=None, *, mask=None,
    go_backwards: bool = False, time_major: bool = False,
    zero_output_for_mask: bool = False, activation: str = "tanh",
    recurrent_activation: str = "sigmoid", recurrent_dropout_mask=None,
    return_sequences: bool = True, return_reserve: bool = False,
) -> LSTMOutput:
    """A long short-term memory over a whole sequence.

    Weights are laid out as Keras lays them out, gates in the order i (input),
    f (forget), g (cell input), o (output). With s the recurrent activation, t
    the activation, h and c the states before a step:

        i = s(x K_i + b_i + h R_i)      f = s(x K_f + b_f + h R_f)
        g = t(x K_g + b_g + h R_g)      o = s(x K_o + b_o + h R_o)
        c <- f * c + i * g
        h <- o * t(c)

    This is the unit of Hochreiter and Schmidhuber 1997
    (https://doi.org/10.1162/neco.1997.9.8.1735) with the forget gate of Gers
    et al. 2000 (https://doi.org/10.1162/089976600300015015). No forget bias is
    added: it belongs into ``bias``.

    Args:
      x: [B, T, I]; the other arguments have its dtype.
      h0, c0: [B, H], the first states, each may be None for zeros.
      kernel: [I, 4H].
      recurrent_kernel: [H, 4H].
      bias: [4H] or None.
      mask: [B, T], bool, false where a step is left out; or None. At such a
        step both states are carried; the rest as in ``gru``.
      recurrent_dropout_mask: [4, B, H] or [1, B, H], as in ``gru``; or None.
      return_reserve: whether to keep what ``lstm_grad`` needs, 5H values a row
        and step.
      go_backwards, time_major, zero_output_for_mask, activation,
        recurrent_activation, return_sequences: as in ``gru``.

    Returns:
      LSTMOutput(outputs, state, cell_state, reserve), new arrays.

    Raises:
      TypeError, ValueError: as ``gru``.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> x, kernel, recurrent_kernel = (
    ...     np.ones((2, 7, 3)), np.ones((3, 16)), np.ones((4, 16)))
    >>> result = rnn.lstm(x, None, None, kernel, recurrent_kernel)
    >>> result.outputs.shape, result.cell_state.shape
    ((2, 7, 4), (2, 4))
    """
    outputs, state, cell_state, gates, cell_states = _core.lstm(
        x, h0, c0, kernel, recurrent_kernel, bias, False, mask, go_backwards,
        time_major, zero_output_for_mask, activation, recurrent_activation,
        recurrent_dropout_mask, return_sequences or return_reserve,
        return_reserve,
    )
    reserve = None
    if return_reserve:
        reserve = LSTMReserve(outputs, gates, cell_states)
    if not return_sequences:
        outputs = last_output(state, mask, go_backwards, zero_output_for_mask)
    return named(LSTMOutput, (outputs, state, cell_state, reserve))


def lstm_grad(
    x, h0, c0, kernel, recurrent_kernel, bias=None, *, d_outputs=None,
    d_state=None, d_cell_state=None, reserve: LSTMReserve | None = None,
    overwrite_reserve: bool = False, mask=None, go_backwards: bool = False,
    time_major: bool = False, zero_output_for_mask: bool = False,
    activation: str = "tanh", recurrent_activation: str = "sigmoid",
    recurrent_dropout_mask=None,
) -> LSTMGradients:
    """The gradient of ``lstm``.

    Args:
      d_outputs: the gradient that arrives at the sequence of outputs, shaped
        like it; None for none.
      d_state, d_cell_state: [B, H], those that arrive at the last states; None
        for none.
      reserve, overwrite_reserve: as in ``gru_grad``.
      the others: as given to ``lstm``.

    Returns:
      LSTMGradients(x, h0, c0, kernel, recurrent_kernel, bias), new arrays.

    Raises:
      TypeError, ValueError: as ``gru``.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> arguments = (np.ones((2, 7, 3)), None, None, np.ones((3, 16)),
    ...              np.ones((4, 16)))
    >>> result = rnn.lstm(*arguments, return_reserve=True)
    >>> d = rnn.lstm_grad(*arguments, d_cell_state=result.cell_state,
    ...                   reserve=result.reserve)
    >>> d.c0.shape
    (2, 4)
    """
    outputs, gates, cell_states = reserve or (None, None, None)
    return LSTMGradients(*_core.lstm_grad(
        x, h0, c0, kernel, recurrent_kernel, bias, False, mask, go_backwards,
        time_major, zero_output_for_mask, activation, recurrent_activation,
        recurrent_dropout_mask, outputs, gates, cell_states, d_outputs,
        d_state, d_cell_state, overwrite_reserve,
    ))


class LSTMStream(_core.LSTMStream):
    """An LSTM that is fed one step at a time; see ``GRUStream``.

    ``step(x_t)`` returns ``state``, h, and leaves c in ``cell_state``: both
    [B, H] and always the same arrays. ``reset(h0=None, c0=None)`` starts anew,
    from such states or zeros.

    Args:
      kernel, recurrent_kernel, bias, activation, recurrent_activation: as in
        ``lstm``.
      batch: how many sequences run side by side, B.

    Raises:
      TypeError, ValueError, RuntimeError: as ``GRUStream``.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> stream = rnn.LSTMStream(np.ones((3, 16)), np.ones((4, 16)))
    >>> for x_t in np.ones((7, 3)):
    ...     state = stream.step(x_t)
    >>> state.shape, stream.cell_state.shape
    ((1, 4), (1, 4))
    """

    def __init__(
        self, kernel, recurrent_kernel, bias=None, *, batch: int = 1,
        activation: str = "tanh", recurrent_activation: str = "sigmoid",
    ):
        super().__init__(
            kernel, recurrent_kernel, bias, False, batch, activation,
            recurrent_activation,
        )
