"""Functional API over the ops: tensors in, tensors out."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from fused_rnn import _library
from fused_rnn import gradients as _gradients  # noqa: F401  registers them

_ops = _library.load()

ACTIVATIONS = (
    "tanh", "sigmoid", "relu", "linear", "hard_sigmoid", "softsign", "elu"
)
_DTYPES = (tf.float32, tf.float64, tf.float16, tf.bfloat16)


class GRUBlockCellOutput(NamedTuple):
    """What one step computes, each [batch size, cell size].

    r: the reset gate. u: the update gate. c: the candidate. h: the new state.
    """

    r: tf.Tensor
    u: tf.Tensor
    c: tf.Tensor
    h: tf.Tensor


class GRUOutput(NamedTuple):
    """What a sequence gives.

    outputs: the sequence of states, [B, T, H] or [T, B, H], or the last output
    alone, [B, H]. state: the last state, [B, H].
    """

    outputs: tf.Tensor
    state: tf.Tensor


def _tensors(**arguments) -> list[tf.Tensor]:
    """Converts arguments to tensors of one dtype, the first argument's.

    None stays None.
    """
    tensors = []
    for name, value in arguments.items():
        if value is None:
            tensors.append(None)
            continue
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
    results = _ops.fused_rnn_gru_block_cell(*inputs, name=name)
    return GRUBlockCellOutput(*results)


def gru(
    x, h0, kernel, recurrent_kernel, bias=None, *, reset_after: bool = True,
    mask=None, go_backwards: bool = False, time_major: bool = False,
    zero_output_for_mask: bool = False, activation: str = "tanh",
    recurrent_activation: str = "sigmoid", recurrent_dropout_mask=None,
    return_sequences: bool = True, training: bool | None = None,
    recompute: bool = False, name: str | None = None,
) -> GRUOutput:
    """A gated recurrent unit over a whole sequence, in one op.

    Weights are laid out as Keras lays them out, gates in the order z (update),
    r (reset), c (candidate). With f the recurrent activation, g the activation
    and h the state before a step:

        z = f(x K_z + b_z + h R_z + q_z)
        r = f(x K_r + b_r + h R_r + q_r)
        c = g(x K_c + b_c + r * (h R_c + q_c))     with reset_after
        c = g(x K_c + b_c + (r * h) R_c)           without
        h <- z * h + (1 - z) * c

    The first is the unit of cuDNN, PyTorch and Keras' default, the second that
    of Cho et al. 2014 (https://arxiv.org/abs/1406.1078). It is differentiable
    in x, h0, kernel, recurrent_kernel and bias, to any order. The masks get no
    gradient.

    Args:
      x: [B, T, I]; float32, float64, float16 or bfloat16. The other arguments
        have its dtype.
      h0: [B, H], the first state, or None for zeros.
      kernel: [I, 3H].
      recurrent_kernel: [H, 3H].
      bias: [2, 3H], input and recurrent, with reset_after, [3H] without; or
        None.
      reset_after: whether the reset gate acts after the recurrent product.
      mask: [B, T], false where a step is left out; or None. At such a step
        nothing is computed, whatever x holds there: the state is carried, and
        the output repeats the one before, zeros at first.
      go_backwards: process the last step first. Outputs are in the order of
        processing, as Keras has them.
      time_major: x and the outputs are [T, B, ...]. The mask stays [B, T].
      zero_output_for_mask: the outputs of masked steps are zeros instead.
      activation, recurrent_activation: one of tanh, sigmoid, relu, linear,
        hard_sigmoid (Keras 3's, relu6(x + 3) / 6), softsign, elu.
      recurrent_dropout_mask: [3, B, H], factors of the state on its way into
        the product of each gate, the same at every step; or None.
      return_sequences: whether all outputs are wanted, or the last one only.
      training: whether to keep what the gradient needs, 4H values a row and
        step. Without it a gradient is computed all the same: the forward pass
        runs again for it. None: if a tf.GradientTape watches an argument here.
        (A tape outside of a tf.function cannot be seen from within.)
      recompute: run the forward pass again in training too, which trades a
        third of the time for that memory.
      name: of the op in a graph.

    Returns:
      GRUOutput(outputs, state). outputs is [B, T, H] ([T, B, H] with
      time_major), or [B, H] without return_sequences; state is [B, H]. In a
      row whose steps are all masked, outputs are zeros and state is h0. The
      last output of a sequence of no steps and no mask is h0.

    Raises:
      TypeError: a dtype that is not supported, or differs from x's.
      ValueError: an activation that is not known; a shape that contradicts the
        others while a graph is built (in ``tf.function`` too).
      tf.errors.InvalidArgumentError: the same shape in eager execution.

    Example:

    >>> import tensorflow as tf, fused_rnn
    >>> x, kernel, recurrent_kernel = (
    ...     tf.ones([2, 7, 3]), tf.ones([3, 12]), tf.ones([4, 12]))
    >>> outputs, state = fused_rnn.gru(x, None, kernel, recurrent_kernel)
    >>> outputs.shape, state.shape
    (TensorShape([2, 7, 4]), TensorShape([2, 4]))
    """
    for argument, value in (
        ("activation", activation),
        ("recurrent_activation", recurrent_activation),
    ):
        if value not in ACTIVATIONS:
            raise ValueError(
                f"{argument} must be one of {', '.join(ACTIVATIONS)}, got"
                f" {value!r}"
            )
    x, h0, kernel, recurrent_kernel, bias, recurrent_dropout_mask = _tensors(
        x=x, h0=h0, kernel=kernel, recurrent_kernel=recurrent_kernel,
        bias=bias, recurrent_dropout_mask=recurrent_dropout_mask,
    )
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
    if training is None:
        training = _gradients.watched(
            [
                tensor for tensor in (x, h0, kernel, recurrent_kernel, bias)
                if tensor is not None
            ]
        )
    outputs, state, _ = _ops.fused_rnn_gru(
        x=x, h0=_present(h0), kernel=kernel, recurrent_kernel=recurrent_kernel,
        bias=_present(bias), mask=_present(mask),
        recurrent_dropout_mask=_present(recurrent_dropout_mask),
        reset_after=reset_after, go_backwards=go_backwards,
        time_major=time_major, zero_output_for_mask=zero_output_for_mask,
        activation=activation, recurrent_activation=recurrent_activation,
        return_sequences=return_sequences,
        keep_reserve=training and not recompute, name=name,
    )
    if not return_sequences:
        outputs = _last_output(state, mask, go_backwards, zero_output_for_mask)
    return GRUOutput(outputs, state)


def _last_output(state, mask, go_backwards, zero_output_for_mask):
    """The state, but zero where the last output is."""
    if mask is None:
        return state
    if zero_output_for_mask:
        # A slice: there may be no step.
        mask = mask[:, :1] if go_backwards else mask[:, -1:]
    valid = tf.reduce_any(mask, axis=1, keepdims=True)
    return tf.where(valid, state, tf.zeros_like(state))


def _present(tensor) -> list:
    return [] if tensor is None else [tensor]
