"""What the recurrent layers and cells share: the op, and when not to use it."""

import contextvars
import itertools
import warnings

import keras
import tensorflow as tf
from keras import ops

from fused_rnn.layers._dropout import (
    dropped_inputs,
    input_dropout_mask,
    recurrent_dropout_mask,
)
from fused_rnn.layers._keras import (
    errors_name,
    require_tensorflow_backend,
    users_stacklevel,
)
from fused_rnn.layers._kinds import (
    activation_name,
    cells_of,
    kind_of,
    why_not_fused,
)


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


def _check_features(cell, sequences):
    """Raises what Keras' product raises if the kernel has other rows."""
    given, built = sequences.shape[-1], cell.kernel.shape[0]
    if given is None or given == built:
        return
    message = f"the input has {given} features, but it was built for {built}"
    if tf.executing_eagerly():
        raise tf.errors.InvalidArgumentError(None, None, message)
    raise ValueError(message)


class Fused:
    """What layers and cells share: the op, the reason not to use it, a warning.

    Mixed into a class derived from a Keras layer, its ``_keras_class``.
    Whatever the classes know is known to the class alone, or follows from what
    Keras keeps in the layer, so that a layer may change from Keras' class into
    the fused one and back.
    """

    _warned = False

    def __init__(self, *args, **kwargs):
        require_tensorflow_backend()
        super().__init__(*args, **kwargs)

    @classmethod
    def why_not(cls, layer):
        """Why a layer or cell, perhaps still of Keras' class, is not fused."""
        raise NotImplementedError

    @property
    def fallback_reason(self):
        """Why it computes what Keras computes; None if it runs the op."""
        return self.why_not(self)

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

    def _run(self, cell, sequences, states, mask, training, **options):
        """Outputs and last states of the op for a cell, with its weights."""
        kind = kind_of(cell)
        # Keras leaves integers, say, to the product, which takes them.
        sequences = ops.cast(sequences, cell.compute_dtype)
        with errors_name(self):
            _check_features(cell, sequences)
            sequences, kernel = dropped_inputs(cell, sequences, training)
            options.update(
                (name, activation_name(getattr(cell, name)))
                for name in kind.activations
            )
            options.update((name, getattr(cell, name)) for name in kind.options)
            bias = cell.bias
            return kind.op(
                sequences,
                *states,
                kernel,
                ops.convert_to_tensor(cell.recurrent_kernel),
                None if bias is None else ops.convert_to_tensor(bias),
                mask=mask,
                recurrent_dropout_mask=recurrent_dropout_mask(
                    cell, states[0], training
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
                stacklevel=users_stacklevel(),
            )
        return reason is not None


class FusedCell(Fused):
    """A cell whose step is one op."""

    @classmethod
    def why_not(cls, layer):
        return why_not_fused(layer, (cls._keras_class,))

    def call(self, inputs, states, training=False):
        if self._falls_back():
            return super().call(inputs, states, training=training)
        count = kind_of(self).states
        nested = keras.tree.is_nested(states)
        if not nested and count > 1:
            # One tensor of all, which Keras indexes.
            states, nested = [states[i] for i in range(count)], True
        given = list(states[:count]) if nested else [states]
        if len(given) != count:
            raise ValueError(
                f"Layer '{self.name}': expected {count} states, got"
                f" {len(given)}"
            )
        _, *new = self._run(
            self,
            ops.expand_dims(inputs, 1),
            [_all_rows(state, inputs) for state in given],
            None,
            training,
            return_sequences=False,
        )
        return new[0], new if nested else new[0]


# The layer whose sequences have no steps in the call that is under way.
_without_steps = contextvars.ContextVar("fused_rnn_without_steps", default=None)


class FusedSequence(Fused):
    """A layer over a whole sequence, whatever its cells."""

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
        expected = sum(kind_of(cell).states for cell in cells)
        with errors_name(self):
            mask = _standardize_mask(mask, sequences)
            if len(given) != expected:
                raise ValueError(
                    f"expected {expected} initial state(s), as its cells have,"
                    f" got {len(given)}"
                )
        outputs, given, last = sequences, iter(given), []
        for i, cell in enumerate(cells):
            # Reversed by the first cell, the sequence stays so for the others.
            if self.go_backwards and mask is not None and i == 1:
                mask = ops.flip(mask, axis=1)
            states = [
                _all_rows(state, outputs)
                for state in itertools.islice(given, kind_of(cell).states)
            ]
            # Keras draws both whether or not it trains.
            input_dropout_mask(cell, outputs)
            cell.get_recurrent_dropout_mask(states[0])
            outputs, *states = self._run(
                cell,
                outputs,
                states,
                mask,
                training,
                go_backwards=self.go_backwards and i == 0,
                zero_output_for_mask=self.zero_output_for_mask,
                return_sequences=self.return_sequences or i < len(cells) - 1,
            )
            last.extend(states)
        # Keras takes the first if it returns the last output, else the second.
        return (
            outputs,
            outputs,
            keras.tree.pack_sequence_as(initial_state, last),
        )


class FusedLayer(FusedSequence):
    """A layer over a whole sequence with a cell of its own kind."""

    @classmethod
    def why_not(cls, layer):
        if getattr(layer, "use_cudnn", None) is True:
            return "use_cudnn=True asks for cuDNN"
        return why_not_fused(layer.cell, (cls._cell_class,))
