"""The simple recurrent network over sequences and streams."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fused_rnn import _core
from fused_rnn.numpy._results import last_output, named

# There is no recurrent activation.
_UNUSED = "linear"


class SimpleRNNReserve(NamedTuple):
    """What ``simple_rnn_grad`` needs of a forward pass: all outputs, in the
    layout of x.
    """

    outputs: np.ndarray


class SimpleRNNOutput(NamedTuple):
    """What a sequence gives.

    outputs: the sequence of states, [B, T, H] or [T, B, H], or the last output
    alone, [B, H]. state: the last state, [B, H]. reserve: for
    ``simple_rnn_grad``, or None.
    """

    outputs: np.ndarray
    state: np.ndarray
    reserve: SimpleRNNReserve | None


class SimpleRNNGradients(NamedTuple):
    """Gradients of the arguments of ``simple_rnn``, each shaped like it; bias
    is None where there is none, h0 is there in any case.
    """

    x: np.ndarray
    h0: np.ndarray
    kernel: np.ndarray
    recurrent_kernel: np.ndarray
    bias: np.ndarray | None


def simple_rnn(
    x, h0, kernel, recurrent_kernel, bias=None, *, mask=None,
    go_backwards: bool = False, time_major: bool = False,
    zero_output_for_mask: bool = False, activation: str = "tanh",
    recurrent_dropout_mask=None, return_sequences: bool = True,
    return_reserve: bool = False,
) -> SimpleRNNOutput:
    """A simple recurrent network over a whole sequence.

    With g the activation and h the state before a step:

        h <- g(x K + b + h R)

    This is the network of Elman 1990
    (https://doi.org/10.1207/s15516709cog1402_1); Keras computes the same.

    Args:
      x: [B, T, I]; the other arguments have its dtype.
      h0: [B, H], the first state, or None for zeros.
      kernel: [I, H].
      recurrent_kernel: [H, H].
      bias: [H] or None.
      recurrent_dropout_mask: [1, B, H], factors of the state on its way into
        the product, the same at every step; or None.
      return_reserve: whether to keep what ``simple_rnn_grad`` needs, the
        outputs.
      mask, go_backwards, time_major, zero_output_for_mask, activation,
        return_sequences: as in ``gru``.

    Returns:
      SimpleRNNOutput(outputs, state, reserve), new arrays.

    Raises:
      TypeError, ValueError: as ``gru``.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> x, kernel, recurrent_kernel = (
    ...     np.ones((2, 7, 3)), np.ones((3, 4)), np.ones((4, 4)))
    >>> rnn.simple_rnn(x, None, kernel, recurrent_kernel).outputs.shape
    (2, 7, 4)
    """
    outputs, state, *_ = _core.simple_rnn(
        x, h0, None, kernel, recurrent_kernel, bias, False, mask, go_backwards,
        time_major, zero_output_for_mask, activation, _UNUSED,
        recurrent_dropout_mask, return_sequences or return_reserve,
        return_reserve,
    )
    reserve = SimpleRNNReserve(outputs) if return_reserve else None
    if not return_sequences:
        outputs = last_output(state, mask, go_backwards, zero_output_for_mask)
    return named(SimpleRNNOutput, (outputs, state, reserve))


def simple_rnn_grad(
    x, h0, kernel, recurrent_kernel, bias=None, *, d_outputs=None, d_state=None,
    reserve: SimpleRNNReserve | None = None, mask=None,
    go_backwards: bool = False, time_major: bool = False,
    zero_output_for_mask: bool = False, activation: str = "tanh",
    recurrent_dropout_mask=None,
) -> SimpleRNNGradients:
    """The gradient of ``simple_rnn``.

    Args:
      d_outputs: the gradient that arrives at the sequence of outputs, shaped
        like it; None for none.
      d_state: [B, H], the one that arrives at the last state; None for none.
      reserve: what ``simple_rnn`` kept with return_reserve; None computes the
        forward pass anew.
      the others: as given to ``simple_rnn``.

    Returns:
      SimpleRNNGradients(x, h0, kernel, recurrent_kernel, bias), new arrays.

    Raises:
      TypeError, ValueError: as ``gru``.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> arguments = (np.ones((2, 7, 3)), None, np.ones((3, 4)), np.ones((4, 4)))
    >>> outputs, state, reserve = rnn.simple_rnn(
    ...     *arguments, return_reserve=True)
    >>> d = rnn.simple_rnn_grad(*arguments, d_state=state, reserve=reserve)
    >>> d.kernel.shape
    (3, 4)
    """
    (outputs,) = reserve or (None,)
    d_x, d_h0, _, *d_weights = _core.simple_rnn_grad(
        x, h0, None, kernel, recurrent_kernel, bias, False, mask, go_backwards,
        time_major, zero_output_for_mask, activation, _UNUSED,
        recurrent_dropout_mask, outputs, None, None, d_outputs, d_state, None,
        False,
    )
    return SimpleRNNGradients(d_x, d_h0, *d_weights)


class SimpleRNNStream(_core.SimpleRNNStream):
    """A simple recurrent network that is fed one step at a time; see
    ``GRUStream``, whose ``step``, ``state`` and ``reset`` it has.

    Args:
      kernel, recurrent_kernel, bias, activation: as in ``simple_rnn``.
      batch: how many sequences run side by side, B.

    Raises:
      TypeError, ValueError, RuntimeError: as ``GRUStream``.

    Example:

    >>> import numpy as np, fused_rnn.numpy as rnn
    >>> stream = rnn.SimpleRNNStream(np.ones((3, 4)), np.ones((4, 4)))
    >>> for x_t in np.ones((7, 3)):
    ...     state = stream.step(x_t)
    >>> state.shape
    (1, 4)
    """

    def __init__(
        self, kernel, recurrent_kernel, bias=None, *, batch: int = 1,
        activation: str = "tanh",
    ):
        super().__init__(
            kernel, recurrent_kernel, bias, False, batch, activation, _UNUSED
        )
