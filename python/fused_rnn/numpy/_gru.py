"""The gated recurrent unit over sequences and streams."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fused_rnn import _core
from fused_rnn.numpy._results import last_output, named


class GRUReserve(NamedTuple):
    """What ``gru_grad`` needs of a forward pass.

    outputs: all outputs, in the layout of x. gates: [T, B, 4H], its order is
    the kernels' own.
    """

    outputs: np.ndarray
    gates: np.ndarray


class GRUOutput(NamedTuple):
    """What a sequence gives.

    outputs: the sequence of states, [B, T, H] or [T, B, H], or the last output
    alone, [B, H]. state: the last state, [B, H]. reserve: for ``gru_grad``, or
    None.
    """

    outputs: np.ndarray
    state: np.ndarray
    reserve: GRUReserve | None


class GRUGradients(NamedTuple):
    """Gradients of the arguments of ``gru``, each shaped like it; bias is None
    where there is none, h0 is there in any case.
    """

    x: np.ndarray
    h0: np.ndarray
    kernel: np.ndarray
    recurrent_kernel: np.ndarray
    bias: np.ndarray | None


def gru(
    x, h0, kernel, recurrent_kernel, bias=None, *, reset_after: bool = True,
    mask=None, go_backwards: bool = False, time_major: bool = False,
    zero_output_for_mask: bool = False, activation: str = "tanh",
    recurrent_activation: str = "sigmoid", recurrent_dropout_mask=None,
    return_sequences: bool = True, return_reserve: bool = False,
) -> GRUOutput:
    """A gated recurrent unit over a whole sequence.

    Weights are laid out as Keras lays them out, gates in the order z (update),
    r (reset), c (candidate). With f the recurrent activation, g the activation
    and h the state before a step:

        z = f(x K_z + b_z + h R_z + q_z)
        r = f(x K_r + b_r + h R_r + q_r)
        c = g(x K_c + b_c + r * (h R_c + q_c))     with reset_after
        c = g(x K_c + b_c + (r * h) R_c)           without
        h <- z * h + (1 - z) * c

    The first is the unit of cuDNN, PyTorch and Keras' default, the second that
    of Cho et al. 2014 (https://arxiv.org/abs/1406.1078).

    Args:
      x: [B, T, I]; the other arguments have its dtype.
      h0: [B, H], the first state, or None for zeros.
      kernel: [I, 3H].
      recurrent_kernel: [H, 3H].
      bias: [2, 3H], input and recurrent, with reset_after, [3H] without; or
        None.
      reset_after: whether the reset gate acts after the recurrent product.
      mask: [B, T], bool, false where a step is left out; or None. At such a
        step nothing is computed, whatever x holds there: the state is carried,
        and the output repeats the one before, zeros at first.
      go_backwards: process the last step first. Outputs are in the order of
        processing.
      time_major: x and the outputs are [T, B, ...]. The mask stays [B, T].
      zero_output_for_mask: the outputs of masked steps are zeros instead.
      activation, recurrent_activation: one of tanh, sigmoid, relu, linear,
        hard_sigmoid (Keras 3's, relu6(x + 3) / 6), softsign, elu.
      recurrent_dropout_mask: [3, B, H], factors of the state on its way into
        the product of each gate, the same at every step; [1, B, H], the same
        for all gates, which takes less time; or None.
      return_sequences: whether all outputs are wanted, or the last one only.
      return_reserve: whether to keep what ``gru_grad`` needs, 4H values a row
        and step.

    Returns:
      GRUOutput(outputs, state, reserve), new arrays.

    Raises:
      TypeError: an argument is no array, or has another dtype.
      ValueError: a shape contradicts the others; rows are not contiguous or
        not aligned; an activation is not known.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> x, kernel, recurrent_kernel = (
    ...     np.ones((2, 7, 3)), np.ones((3, 12)), np.ones((4, 12)))
    >>> rnn.gru(x, None, kernel, recurrent_kernel).outputs.shape
    (2, 7, 4)
    """
    outputs, state, _, gates, _ = _core.gru(
        x, h0, None, kernel, recurrent_kernel, bias, reset_after, mask,
        go_backwards, time_major, zero_output_for_mask, activation,
        recurrent_activation, recurrent_dropout_mask,
        return_sequences or return_reserve, return_reserve,
    )
    reserve = GRUReserve(outputs, gates) if return_reserve else None
    if not return_sequences:
        outputs = last_output(state, mask, go_backwards, zero_output_for_mask)
    return named(GRUOutput, (outputs, state, reserve))


def gru_grad(
    x, h0, kernel, recurrent_kernel, bias=None, *, d_outputs=None, d_state=None,
    reserve: GRUReserve | None = None, overwrite_reserve: bool = False,
    reset_after: bool = True, mask=None, go_backwards: bool = False,
    time_major: bool = False, zero_output_for_mask: bool = False,
    activation: str = "tanh", recurrent_activation: str = "sigmoid",
    recurrent_dropout_mask=None,
) -> GRUGradients:
    """The gradient of ``gru``.

    Args:
      d_outputs: the gradient that arrives at the sequence of outputs, shaped
        like it; None for none.
      d_state: [B, H], the one that arrives at the last state; None for none.
      reserve: what ``gru`` kept with return_reserve; None computes the forward
        pass anew.
      overwrite_reserve: whether reserve.gates may be used as scratch memory.
        It holds no reserve any more afterwards.
      the others: as given to ``gru``.

    Returns:
      GRUGradients(x, h0, kernel, recurrent_kernel, bias), new arrays.

    Raises:
      TypeError, ValueError: as ``gru``.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> arguments = (np.ones((2, 7, 3)), None, np.ones((3, 12)),
    ...              np.ones((4, 12)))
    >>> outputs, state, reserve = rnn.gru(*arguments, return_reserve=True)
    >>> d = rnn.gru_grad(*arguments, d_outputs=outputs, reserve=reserve)
    >>> d.kernel.shape
    (3, 12)
    """
    outputs, gates = (None, None) if reserve is None else reserve
    d_x, d_h0, _, *d_weights = _core.gru_grad(
        x, h0, None, kernel, recurrent_kernel, bias, reset_after, mask,
        go_backwards, time_major, zero_output_for_mask, activation,
        recurrent_activation, recurrent_dropout_mask, outputs, gates, None,
        d_outputs, d_state, None, overwrite_reserve,
    )
    return GRUGradients(d_x, d_h0, *d_weights)


class GRUStream(_core.GRUStream):
    """A GRU that is fed one step at a time, as when serving a model.

    Weights are copied and packed once, and the state is kept between steps. A
    step allocates no memory, unless the number of threads or the instruction
    set has changed since the last.

    ``step(x_t)`` takes the input of one step, [B, I] or, with one sequence,
    [I], and returns ``state``, [B, H]: always the same array, which the next
    step overwrites; copy what is to last. ``reset(h0=None)`` starts anew, from
    h0 [B, H] or zeros. One thread at a time: give each thread its own stream.

    Args:
      kernel, recurrent_kernel, bias, reset_after, activation,
        recurrent_activation: as in ``gru``.
      batch: how many sequences run side by side, B.

    Raises:
      TypeError, ValueError: as ``gru``; step and reset too.
      RuntimeError: step, if another thread is inside it.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> stream = rnn.GRUStream(np.ones((3, 12)), np.ones((4, 12)))
    >>> for x_t in np.ones((7, 3)):
    ...     state = stream.step(x_t)
    >>> state.shape
    (1, 4)
    """

    def __init__(
        self, kernel, recurrent_kernel, bias=None, *, reset_after: bool = True,
        batch: int = 1, activation: str = "tanh",
        recurrent_activation: str = "sigmoid",
    ):
        super().__init__(
            kernel, recurrent_kernel, bias, reset_after, batch, activation,
            recurrent_activation,
        )
