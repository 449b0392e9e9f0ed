"""The kernels on arrays of an NVIDIA GPU, without TensorFlow.

For profiling, tests and other frameworks: arrays are those of torch, cupy or
whatever has ``__cuda_array_interface__``, and the caller brings every one of
them, results and scratch memory too. A call enqueues its work on a stream and
returns; it allocates nothing and waits for nothing, so that a CUDA graph can
capture it. Pass no ``workspace`` to learn how many bytes it must have:

    >>> size = cuda.gru(..., workspace=None)                # doctest: +SKIP
    >>> cuda.gru(..., workspace=torch.empty(                # doctest: +SKIP
    ...     size, dtype=torch.uint8, device="cuda"))

Products are made by the cuBLAS that the process has loaded.
"""

from __future__ import annotations

from fused_rnn import _core

__all__ = [
    "available", "describe", "gru", "gru_grad", "lstm", "lstm_grad",
    "simple_rnn", "simple_rnn_grad",
]


def describe() -> str:
    """What the kernels were built with and what the machine has, in a line."""
    return _core.cuda_describe()


def available() -> bool:
    """Whether kernels can run: built, a driver that fits, and a GPU."""
    return not _core.cuda_error()


def gru(
    x, h0, kernel, recurrent_kernel, bias=None, *, dtype: str, outputs=None,
    state=None, reserve=None, workspace=None, stream: int = 0,
    tf32: bool = False, reset_after: bool = True, mask=None,
    go_backwards: bool = False, time_major: bool = False,
    zero_output_for_mask: bool = False, activation: str = "tanh",
    recurrent_activation: str = "sigmoid", recurrent_dropout_mask=None,
) -> int:
    """A gated recurrent unit over a whole sequence, as ``numpy.gru``.

    Args:
      dtype: float32, float64, float16 or bfloat16, of all arrays; an array of
        bfloat16 is passed as what has two bytes an element, since the protocol
        has no name for it.
      outputs: [B, T, H] or time-major [T, B, H], written; None: not wanted.
      state: [B, H], written; may be h0; None: not wanted.
      reserve: [T, B, 4H], what ``gru_grad`` needs, written; None: not wanted.
      workspace: bytes on the GPU, aligned to 256; None: nothing is run.
      stream: a cudaStream_t as a number; 0 is the default stream.
      tf32: whether float32 products may round their factors to TF32.
      mask: [B, T], a byte an element; the others: as in ``numpy.gru``.

    Returns:
      How many bytes ``workspace`` must have.

    Raises:
      TypeError, ValueError: an argument does not fit the others.
      RuntimeError: kernels were not built, or CUDA reports an error.
    """
    return _core.cuda_gru(dict(locals()))


def gru_grad(
    x, h0, kernel, recurrent_kernel, bias=None, *, dtype: str, outputs, reserve,
    d_gates, d_outputs=None, d_state=None, d_x=None, d_h0=None, d_kernel=None,
    d_recurrent_kernel=None, d_bias=None, workspace=None, stream: int = 0,
    tf32: bool = False, reset_after: bool = True, mask=None,
    go_backwards: bool = False, time_major: bool = False,
    zero_output_for_mask: bool = False, activation: str = "tanh",
    recurrent_activation: str = "sigmoid", recurrent_dropout_mask=None,
) -> int:
    """The gradient of ``gru``.

    Args:
      outputs, reserve: what ``gru`` wrote.
      d_gates: like ``reserve``, written; not ``reserve`` itself.
      d_outputs, d_state: gradients that arrive; None for none.
      d_x, d_h0, d_kernel, d_recurrent_kernel, d_bias: gradients of the
        arguments, written; None: not wanted.
      the others: as given to ``gru``.

    Returns, Raises: as ``gru``.
    """
    return _core.cuda_gru_grad(dict(locals()))


def lstm(
    x, h0, c0, kernel, recurrent_kernel, bias=None, *, dtype: str, outputs=None,
    state=None, cell_state=None, reserve=None, cell_states=None, workspace=None,
    stream: int = 0, tf32: bool = False, mask=None, go_backwards: bool = False,
    time_major: bool = False, zero_output_for_mask: bool = False,
    activation: str = "tanh", recurrent_activation: str = "sigmoid",
    recurrent_dropout_mask=None,
) -> int:
    """A long short-term memory over a whole sequence, as ``numpy.lstm``.

    Args:
      outputs: as in ``gru``.
      state, cell_state: [B, H], written; may be h0 and c0; None: not wanted.
      reserve: [T, B, 4H], and cell_states: [T, B, H], what ``lstm_grad`` needs,
        written; None: not wanted.
      dtype, workspace, stream, tf32, mask: as in ``gru``; the others: as in
        ``numpy.lstm``.

    Returns, Raises: as ``gru``.
    """
    return _core.cuda_lstm(dict(locals()))


def lstm_grad(
    x, h0, c0, kernel, recurrent_kernel, bias=None, *, dtype: str, outputs,
    reserve, cell_states, d_gates, d_outputs=None, d_state=None,
    d_cell_state=None, d_x=None, d_h0=None, d_c0=None, d_kernel=None,
    d_recurrent_kernel=None, d_bias=None, workspace=None, stream: int = 0,
    tf32: bool = False, mask=None, go_backwards: bool = False,
    time_major: bool = False, zero_output_for_mask: bool = False,
    activation: str = "tanh", recurrent_activation: str = "sigmoid",
    recurrent_dropout_mask=None,
) -> int:
    """The gradient of ``lstm``.

    Args:
      outputs, reserve, cell_states: what ``lstm`` wrote.
      d_outputs, d_state, d_cell_state: gradients that arrive; None for none.
      d_c0: as d_h0 in ``gru_grad``.
      the others: as in ``gru_grad``, or as given to ``lstm``.

    Returns, Raises: as ``gru``.
    """
    return _core.cuda_lstm_grad(dict(locals()))


def simple_rnn(
    x, h0, kernel, recurrent_kernel, bias=None, *, dtype: str, outputs=None,
    state=None, workspace=None, stream: int = 0, tf32: bool = False, mask=None,
    go_backwards: bool = False, time_major: bool = False,
    zero_output_for_mask: bool = False, activation: str = "tanh",
    recurrent_dropout_mask=None,
) -> int:
    """A simple recurrent network over a whole sequence, as
    ``numpy.simple_rnn``.

    Args:
      the same as of ``gru``, but for the reserve: ``simple_rnn_grad`` needs the
        outputs alone.

    Returns, Raises: as ``gru``.
    """
    return _core.cuda_simple_rnn(dict(locals()))


def simple_rnn_grad(
    x, h0, kernel, recurrent_kernel, bias=None, *, dtype: str, outputs, d_gates,
    d_outputs=None, d_state=None, d_x=None, d_h0=None, d_kernel=None,
    d_recurrent_kernel=None, d_bias=None, workspace=None, stream: int = 0,
    tf32: bool = False, mask=None, go_backwards: bool = False,
    time_major: bool = False, zero_output_for_mask: bool = False,
    activation: str = "tanh", recurrent_dropout_mask=None,
) -> int:
    """The gradient of ``simple_rnn``.

    Args:
      outputs: what ``simple_rnn`` wrote.
      d_gates: [T, B, H], written.
      the others: as in ``gru_grad``, or as given to ``simple_rnn``.

    Returns, Raises: as ``gru``.
    """
    return _core.cuda_simple_rnn_grad(dict(locals()))
