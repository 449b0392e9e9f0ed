"""Keras layers over the fused ops.

``GRU`` and ``GRUCell`` are Keras' own classes with another loop inside: every
argument, property, weight and config key is inherited.
"""

import contextvars
import warnings

import keras
import tensorflow as tf
from keras import ops

from fused_rnn import ops as fused_ops
from fused_rnn._block_cell_layer import GRUBlockCell
from fused_rnn._keras import (
    activation_name,
    cells_of,
    dropped_inputs,
    errors_name,
    input_dropout_mask,
    recurrent_dropout_mask,
    require_tensorflow_backend,
    why_not_fused,
)

__all__ = ["GRU", "GRUBlockCell", "GRUCell", "RNN"]


def _standardize_mask(mask, sequences):
    """[B, T] of bool; Keras also takes [B, T, 1], numbers, and one row.

    Raises:
      ValueError: as Keras' loop does, another number of steps.
    """
    if mask is None:
        return None
    mask = ops.cast(mask, "bool")
    if len(mask.shape) == 3 and mask.shape[2] == 1:
        mask = ops.squeeze(mask, 2)
    if len(mask.shape) == 2 and not mask.shape[1:].is_compatible_with(
        sequences.shape[1:2]
    ):
        raise ValueError(
            f"a mask of {mask.shape[1]} steps for sequences of"
            f" {sequences.shape[1]}"
        )
    return _all_rows(mask, sequences)


def _all_rows(value, sequences):
    """A matrix of one row is that of every sequence, as in Keras' sums."""
    shape = tf.TensorShape(value.shape)
    if shape.rank != 2 or shape[0] != 1 or sequences.shape[0] == 1:
        return value
    return ops.broadcast_to(
        value, (ops.shape(sequences)[0], ops.shape(value)[1])
    )


class _Fused:
    """What the layers share: the op, the reason not to use it, a warning.

    Mixed into a class derived from a Keras layer. Whatever the classes know is
    known to the class alone, or follows from what Keras keeps in the layer, so
    that a layer may change from Keras' class into the fused one and back.
    """

    _warned = False

    @property
    def supports_jit(self):
        """Whether XLA can compile it: Keras' own loop perhaps, the op never."""
        return self.fallback_reason is not None and self.__dict__[
            "supports_jit"
        ]

    def __setattr__(self, name, value):
        # Keras' own would leave out what the property answers already.
        if name == "supports_jit":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    def _run(self, cell, sequences, state, mask, training, **options):
        """outputs and state of ``fused_rnn.gru`` with a cell's weights."""
        # Keras leaves integers, say, to the product, which takes them.
        sequences = ops.cast(sequences, cell.compute_dtype)
        sequences, kernel = dropped_inputs(cell, sequences, training)
        bias = cell.bias
        with errors_name(self):
            return fused_ops.gru(
                sequences,
                state,
                kernel,
                ops.convert_to_tensor(cell.recurrent_kernel),
                None if bias is None else ops.convert_to_tensor(bias),
                reset_after=cell.reset_after,
                mask=mask,
                activation=activation_name(cell.activation),
                recurrent_activation=activation_name(
                    cell.recurrent_activation
                ),
                recurrent_dropout_mask=recurrent_dropout_mask(
                    cell, state, training
                ),
                # Otherwise the op keeps what a gradient needs if there is a
                # tape; one around a tf.function cannot be seen from inside.
                training=True if training else None,
                **options,
            )

    def _falls_back(self):
        """Whether Keras has to compute it; warns the first time."""
        reason = self.fallback_reason
        if reason is not None and not self._warned:
            self._warned = True
            warnings.warn(
                f"{type(self).__name__} layer '{self.name}' is not fused and"
                f" runs Keras' own loop: {reason}",
                stacklevel=2,
            )
        return reason is not None


@keras.saving.register_keras_serializable(package="fused_rnn")
class GRUCell(_Fused, keras.layers.GRUCell):
    """``keras.layers.GRUCell`` whose step is one op.

    For loops of one's own, decoders, ``keras.layers.StackedRNNCells`` and
    ``keras.layers.RNN``; a whole sequence is faster in ``fused_rnn.GRU``.

    Arguments, weights and configuration are those of
    ``keras.layers.GRUCell``. float32, float64, float16 and bfloat16 compute
    dtypes; activations tanh, sigmoid, relu, linear, hard_sigmoid, softsign and
    elu in either place. With anything else the cell computes what Keras
    computes, says so once through ``warnings``, and names the reason in
    ``fallback_reason``.

    Call arguments:
      inputs: [B, I].
      states: [B, units], or a list of one such tensor.
      training: whether dropout applies.

    Returns:
      The new state [B, units], and the same again in the form of ``states``.

    Raises:
      ValueError: units is not positive.
      RuntimeError: Keras does not run on TensorFlow.

    Example:
      cell = fused_rnn.GRUCell(64)
      (h,) = cell.get_initial_state(8)
      for x in steps:                    # each [8, I]
          h, _ = cell(x, h)
    """

    def __init__(self, units, *args, **kwargs):
        require_tensorflow_backend()
        super().__init__(units, *args, **kwargs)

    @property
    def fallback_reason(self):
        """Why the step is not one op; None if it is."""
        return why_not_fused(self, (keras.layers.GRUCell, GRUCell))

    def call(self, inputs, states, training=False):
        if self._falls_back():
            return super().call(inputs, states, training=training)
        nested = keras.tree.is_nested(states)
        state = states[0] if nested else states
        _, h = self._run(
            self, ops.expand_dims(inputs, 1), _all_rows(state, inputs), None,
            training, return_sequences=False,
        )
        return h, [h] if nested else h


# The layer whose sequences have no steps in the call that is under way.
_without_steps = contextvars.ContextVar("fused_rnn_without_steps", default=None)


class _FusedSequence(_Fused):
    """What the layers over a whole sequence share, whatever their cells."""

    def call(self, sequences, initial_state=None, mask=None, training=False):
        steps = sequences.shape[1] if self.fallback_reason is None else 1
        # Keras looks at step 0, and does not unroll over an unknown number of
        # steps. The op needs neither: hide both from Keras.
        hide_unroll = self.unroll and steps is None
        if steps == 0:
            sequences = ops.pad(sequences, [[0, 0], [0, 1], [0, 0]])
        token = _without_steps.set(self if steps == 0 else None)
        if hide_unroll:
            self.unroll = False
        try:
            return super().call(
                sequences, initial_state, mask=mask, training=training
            )
        finally:
            if hide_unroll:
                self.unroll = True
            _without_steps.reset(token)
            # After an error too, or the next call would take this one's.
            self._maybe_reset_dropout_masks(self.cell)

    def _maybe_config_dropout_masks(self, cell, input_sequence, input_state):
        """Left to ``inner_loop``: at run time there may be no step 0."""
        if self.fallback_reason is not None:
            super()._maybe_config_dropout_masks(
                cell, input_sequence, input_state
            )

    def inner_loop(self, sequences, initial_state, mask, training=False):
        if self._falls_back():
            return super().inner_loop(
                sequences, initial_state, mask, training=training
            )
        if keras.tree.is_nested(mask):
            mask = mask[0]
        if _without_steps.get() is self:
            sequences = sequences[:, :0]
        cells = cells_of(self.cell)
        given = keras.tree.flatten(initial_state)
        with errors_name(self):
            mask = _standardize_mask(mask, sequences)
            if len(given) != len(cells):
                raise ValueError(
                    f"expected {len(cells)} initial state(s), one a cell, got"
                    f" {len(given)}"
                )
        outputs, states = sequences, []
        for i, (cell, state) in enumerate(zip(cells, given)):
            # Reversed by the first cell, the sequence stays so for the others.
            if self.go_backwards and mask is not None and i == 1:
                mask = ops.flip(mask, axis=1)
            state = _all_rows(state, outputs)
            # Keras draws both whether or not it trains.
            input_dropout_mask(cell, outputs)
            cell.get_recurrent_dropout_mask(state)
            outputs, state = self._run(
                cell,
                outputs,
                state,
                mask,
                training,
                go_backwards=self.go_backwards and i == 0,
                zero_output_for_mask=self.zero_output_for_mask,
                return_sequences=self.return_sequences or i < len(cells) - 1,
            )
            states.append(state)
        # Keras takes the first if it returns the last output, else the second.
        return (
            outputs,
            outputs,
            keras.tree.pack_sequence_as(initial_state, states),
        )


@keras.saving.register_keras_serializable(package="fused_rnn")
class GRU(_FusedSequence, keras.layers.GRU):
    """``keras.layers.GRU`` whose whole sequence is one op.

    Arguments, weights, configuration, states, masks and dropout are those of
    ``keras.layers.GRU``, and weights move between the two as they are. Masks
    may have any shape, with holes, padding on either side and empty rows; a
    masked step is never computed, so that what lies there (a NaN, say) reaches
    no output and no gradient. ``unroll`` and ``implementation`` change
    nothing but, as in Keras, which dropout masks are drawn.

    float32, float64, float16 and bfloat16 compute dtypes; activations tanh,
    sigmoid, relu, linear, hard_sigmoid, softsign and elu in either place. With
    anything else, a cell put in its place, or ``use_cudnn=True`` the layer
    computes what Keras computes, says so once through ``warnings``, and names
    the reason in ``fallback_reason``. A sequence of no steps returns the
    initial state.

    XLA cannot compile the op, so ``compile(jit_compile="auto")`` leaves a
    model that contains the layer without XLA.

    Call arguments:
      sequences: [B, T, I].
      initial_state: [B, units], or a list of one such tensor.
      mask: [B, T], true where a step counts.
      training: whether dropout applies.

    Returns:
      The last output [B, units], or with return_sequences all [B, T, units];
      with return_state also the last state [B, units].

    Raises:
      ValueError: an argument that ``keras.layers.GRU`` refuses; an input or a
        state of the wrong rank or size.
      RuntimeError: Keras does not run on TensorFlow.

    Example:
      model = keras.Sequential([
          keras.layers.Embedding(1000, 64, mask_zero=True),
          keras.layers.Bidirectional(fused_rnn.GRU(128)),
          keras.layers.Dense(1),
      ])
    """

    def __init__(self, units, *args, **kwargs):
        require_tensorflow_backend()
        super().__init__(units, *args, **kwargs)

    def inner_loop(self, sequences, initial_state, mask, training=False):
        # Keras' GRU takes the first of several states.
        return super().inner_loop(
            sequences, initial_state[:1], mask, training=training
        )

    @property
    def fallback_reason(self):
        """Why the layer runs Keras' own loop; None if it runs the op."""
        if self.use_cudnn is True:
            return "use_cudnn=True asks for cuDNN"
        return why_not_fused(self.cell, (keras.layers.GRUCell, GRUCell))


@keras.saving.register_keras_serializable(package="fused_rnn")
class RNN(_FusedSequence, keras.layers.RNN):
    """``keras.layers.RNN`` that runs a GRUCell over the sequence in one op.

    With a list of cells, or ``keras.layers.StackedRNNCells``, one op a cell.
    The cells are ``keras.layers.GRUCell`` or ``fused_rnn.GRUCell``. Arguments,
    weights, configuration, states, masks and dropout are those of
    ``keras.layers.RNN``; what ``fused_rnn.GRU`` says of masks, dtypes,
    activations and XLA holds here too. With any other cell the layer computes
    what Keras computes, says so once through ``warnings``, and names the
    reason in ``fallback_reason``.

    Call arguments:
      sequences: [B, T, I].
      initial_state: for each cell [B, units], in a list.
      mask: [B, T], true where a step counts.
      training: whether dropout applies.

    Returns:
      The last output [B, units of the last cell], or with return_sequences
      all [B, T, units]; with return_state also each cell's last state.

    Raises:
      ValueError: an argument that ``keras.layers.RNN`` refuses; an input or a
        state of the wrong rank or size.
      RuntimeError: Keras does not run on TensorFlow.

    Example:
      layer = fused_rnn.RNN([keras.layers.GRUCell(n) for n in (128, 64)])
      layer(keras.random.normal((8, 100, 32)))  # [8, 64]
    """

    def __init__(self, cell, *args, **kwargs):
        require_tensorflow_backend()
        super().__init__(cell, *args, **kwargs)

    @property
    def fallback_reason(self):
        """Why the layer runs Keras' own loop; None if it runs the op."""
        for cell in cells_of(self.cell):
            reason = why_not_fused(cell, (keras.layers.GRUCell, GRUCell))
            if reason is not None:
                return reason
            if cell.compute_dtype != self.compute_dtype:
                return (
                    f"the cell computes in {cell.compute_dtype}, the layer in"
                    f" {self.compute_dtype}"
                )
        return None
