"""Functional API: whole sequences in one op."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from fused_rnn import _gradients, _library
from fused_rnn import _sequence_gradients  # noqa: F401  registers them
from fused_rnn._arguments import present, tensors_of

_ops = _library.load()

ACTIVATIONS = (
    "tanh", "sigmoid", "relu", "linear", "hard_sigmoid", "softsign", "elu"
)


class GRUOutput(NamedTuple):
    """What a sequence gives.

    outputs: the sequence of states, [B, T, H] or [T, B, H], or the last output
    alone, [B, H]. state: the last state, [B, H].
    """

    outputs: tf.Tensor
    state: tf.Tensor


class LSTMOutput(NamedTuple):
    """What a sequence gives.

    outputs: the sequence of states, [B, T, H] or [T, B, H], or the last output
    alone, [B, H]. state: the last state h, [B, H]. cell_state: the last cell
    state c, [B, H].
    """

    outputs: tf.Tensor
    state: tf.Tensor
    cell_state: tf.Tensor


class SimpleRNNOutput(NamedTuple):
    """What a sequence gives.

    outputs: the sequence of states, [B, T, H] or [T, B, H], or the last output
    alone, [B, H]. state: the last state, [B, H].
    """

    outputs: tf.Tensor
    state: tf.Tensor


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
        the product of each gate, the same at every step; [1, B, H], the same
        for all gates too; or None.
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
    outputs, state, _ = _run(
        _ops.fused_rnn_gru,
        dict(x=x, h0=h0, kernel=kernel, recurrent_kernel=recurrent_kernel,
             bias=bias, recurrent_dropout_mask=recurrent_dropout_mask),
        dict(activation=activation, recurrent_activation=recurrent_activation),
        mask=mask, return_sequences=return_sequences, training=training,
        recompute=recompute, reset_after=reset_after,
        go_backwards=go_backwards, time_major=time_major,
        zero_output_for_mask=zero_output_for_mask, name=name,
    )
    return GRUOutput(outputs, state)


def lstm(
    x, h0, c0, kernel, recurrent_kernel, bias=None, *, mask=None,
    go_backwards: bool = False, time_major: bool = False,
    zero_output_for_mask: bool = False, activation: str = "tanh",
    recurrent_activation: str = "sigmoid", recurrent_dropout_mask=None,
    return_sequences: bool = True, training: bool | None = None,
    recompute: bool = False, name: str | None = None,
) -> LSTMOutput:
    """A long short-term memory over a whole sequence, in one op.

    Weights are laid out as Keras lays them out, gates in the order i (input),
    f (forget), c (cell input, here j), o (output). With f the recurrent
    activation, g the activation, and h and c the states before a step:

        i = f(x K_i + h R_i + b_i)      f = f(x K_f + h R_f + b_f)
        j = g(x K_c + h R_c + b_c)      o = f(x K_o + h R_o + b_o)
        c <- f * c + i * j
        h <- o * g(c)

    This is the unit of Hochreiter and Schmidhuber 1997 with the forget gate of
    Gers et al. 2000 (https://doi.org/10.1162/089976600300015015), as Keras,
    cuDNN and PyTorch have it. Keras starts b_f at 1. It is differentiable in x,
    h0, c0, kernel, recurrent_kernel and bias, to any order. The masks get no
    gradient.

    Args:
      x: [B, T, I]; float32, float64, float16 or bfloat16. The other arguments
        have its dtype.
      h0, c0: [B, H], the first states; or None for zeros, each on its own.
      kernel: [I, 4H].
      recurrent_kernel: [H, 4H].
      bias: [4H]; or None.
      recurrent_dropout_mask: [4, B, H], factors of h on its way into the
        product of each gate, the same at every step; [1, B, H], the same for
        all gates too; or None.
      training: whether to keep what the gradient needs, 5H values a row and
        step; otherwise as in ``gru``.
      mask, go_backwards, time_major, zero_output_for_mask, activation,
        recurrent_activation, return_sequences, recompute, name: as in ``gru``.
        At a masked step both states are carried.

    Returns:
      LSTMOutput(outputs, state, cell_state). outputs is [B, T, H] ([T, B, H]
      with time_major), or [B, H] without return_sequences; state and cell_state
      are [B, H]. In a row whose steps are all masked, outputs are zeros and the
      states are h0 and c0.

    Raises:
      TypeError: a dtype that is not supported, or differs from x's.
      ValueError: an activation that is not known; a shape that contradicts the
        others while a graph is built (in ``tf.function`` too).
      tf.errors.InvalidArgumentError: the same shape in eager execution.

    Example:

    >>> import tensorflow as tf, fused_rnn
    >>> x, kernel, recurrent_kernel = (
    ...     tf.ones([2, 7, 3]), tf.ones([3, 16]), tf.ones([4, 16]))
    >>> outputs, h, c = fused_rnn.lstm(x, None, None, kernel, recurrent_kernel)
    >>> outputs.shape, h.shape, c.shape
    (TensorShape([2, 7, 4]), TensorShape([2, 4]), TensorShape([2, 4]))
    """
    outputs, state, cell_state, *_ = _run(
        _ops.fused_rnn_lstm,
        dict(x=x, h0=h0, c0=c0, kernel=kernel,
             recurrent_kernel=recurrent_kernel, bias=bias,
             recurrent_dropout_mask=recurrent_dropout_mask),
        dict(activation=activation, recurrent_activation=recurrent_activation),
        mask=mask, return_sequences=return_sequences, training=training,
        recompute=recompute, go_backwards=go_backwards, time_major=time_major,
        zero_output_for_mask=zero_output_for_mask, name=name,
    )
    return LSTMOutput(outputs, state, cell_state)


def simple_rnn(
    x, h0, kernel, recurrent_kernel, bias=None, *, mask=None,
    go_backwards: bool = False, time_major: bool = False,
    zero_output_for_mask: bool = False, activation: str = "tanh",
    recurrent_dropout_mask=None, return_sequences: bool = True,
    training: bool | None = None, recompute: bool = False,
    name: str | None = None,
) -> SimpleRNNOutput:
    """A plain recurrent network over a whole sequence, in one op.

    With g the activation and h the state before a step:

        h <- g(x K + h R + b)

    This is the network of Elman 1990
    (https://doi.org/10.1207/s15516709cog1402_1) without its output layer, as
    Keras' SimpleRNN has it. It is differentiable in x, h0, kernel,
    recurrent_kernel and bias, to any order. The masks get no gradient.

    Args:
      x: [B, T, I]; float32, float64, float16 or bfloat16. The other arguments
        have its dtype.
      h0: [B, H], the first state, or None for zeros.
      kernel: [I, H].
      recurrent_kernel: [H, H].
      bias: [H]; or None.
      recurrent_dropout_mask: [1, B, H], factors of the state on its way into
        the product, the same at every step; or None.
      training: whether to keep what the gradient needs, which is the outputs;
        otherwise as in ``gru``.
      mask, go_backwards, time_major, zero_output_for_mask, activation,
        return_sequences, recompute, name: as in ``gru``.

    Returns:
      SimpleRNNOutput(outputs, state). outputs is [B, T, H] ([T, B, H] with
      time_major), or [B, H] without return_sequences; state is [B, H]. In a
      row whose steps are all masked, outputs are zeros and state is h0.

    Raises:
      TypeError: a dtype that is not supported, or differs from x's.
      ValueError: an activation that is not known; a shape that contradicts the
        others while a graph is built (in ``tf.function`` too).
      tf.errors.InvalidArgumentError: the same shape in eager execution.

    Example:

    >>> import tensorflow as tf, fused_rnn
    >>> x, kernel, recurrent_kernel = (
    ...     tf.ones([2, 7, 3]), tf.ones([3, 4]), tf.ones([4, 4]))
    >>> outputs, state = fused_rnn.simple_rnn(x, None, kernel, recurrent_kernel)
    >>> outputs.shape, state.shape
    (TensorShape([2, 7, 4]), TensorShape([2, 4]))
    """
    return SimpleRNNOutput(*_run(
        _ops.fused_rnn_simple_rnn,
        dict(x=x, h0=h0, kernel=kernel, recurrent_kernel=recurrent_kernel,
             bias=bias, recurrent_dropout_mask=recurrent_dropout_mask),
        dict(activation=activation), mask=mask,
        return_sequences=return_sequences, training=training,
        recompute=recompute, go_backwards=go_backwards, time_major=time_major,
        zero_output_for_mask=zero_output_for_mask, name=name,
    ))


def _run(
    op, arguments, activations, *, mask, return_sequences, training, recompute,
    **options,
):
    """Checks the arguments of a sequence and runs its op on them.

    Returns what the op does, but with the last output alone in place of the
    outputs where that is wanted.
    """
    for name, value in activations.items():
        if value not in ACTIVATIONS:
            raise ValueError(
                f"{name} must be one of {', '.join(ACTIVATIONS)}, got {value!r}"
            )
    tensors = dict(zip(arguments, tensors_of(**arguments)))
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
    if training is None:
        training = _gradients.watched(
            [
                tensor for name, tensor in tensors.items()
                if tensor is not None and name != "recurrent_dropout_mask"
            ]
        )
    keep = training and not recompute
    if op is _ops.fused_rnn_simple_rnn:  # Its outputs are all that is kept.
        options["return_sequences"] = return_sequences or keep
    else:
        options.update(return_sequences=return_sequences, keep_reserve=keep)
    for name in ("h0", "c0", "bias", "recurrent_dropout_mask"):
        if name in tensors:
            tensors[name] = present(tensors[name])
    outputs, state, *others = op(
        **tensors, mask=present(mask), **activations, **options
    )
    if not return_sequences:
        outputs = _last_output(
            state, mask, options["go_backwards"],
            options["zero_output_for_mask"],
        )
    return outputs, state, *others


def _last_output(state, mask, go_backwards, zero_output_for_mask):
    """The state, but zero where the last output is."""
    if mask is None:
        return state
    if zero_output_for_mask:
        # A slice: there may be no step.
        mask = mask[:, :1] if go_backwards else mask[:, -1:]
    valid = tf.reduce_any(mask, axis=1, keepdims=True)
    return tf.where(valid, state, tf.zeros_like(state))
