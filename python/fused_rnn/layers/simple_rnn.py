"""SimpleRNN and SimpleRNNCell."""

import keras
from keras import ops

from fused_rnn.layers._base import FusedCell, FusedLayer
from fused_rnn.layers._dropout import input_dropout_mask


@keras.saving.register_keras_serializable(package="fused_rnn")
class SimpleRNNCell(FusedCell, keras.layers.SimpleRNNCell):
    """``keras.layers.SimpleRNNCell`` whose step is one op.

    For loops of one's own, decoders, ``keras.layers.StackedRNNCells`` and
    ``keras.layers.RNN``; a whole sequence is faster in ``fused_rnn.SimpleRNN``.

    Arguments, weights and configuration are those of
    ``keras.layers.SimpleRNNCell``; which dtypes and activations are fused, and
    what becomes of others, is as in ``fused_rnn.GRUCell``.

    Call arguments:
      sequence: [B, I], the inputs of one step.
      states: [B, units], or a list of one such tensor.
      training: whether dropout applies.

    Returns:
      The new state [B, units], and the same again in the form of ``states``.

    Raises:
      ValueError: units is not positive.
      RuntimeError: Keras does not run on TensorFlow.

    Example:
      cell = fused_rnn.SimpleRNNCell(64)
      (h,) = cell.get_initial_state(8)
      for x in steps:                    # each [8, I]
          h, _ = cell(x, h)
    """

    _keras_class = keras.layers.SimpleRNNCell

    def call(self, sequence, states, training=False):
        # Keras' cell draws both whether or not it trains.
        input_dropout_mask(self, ops.expand_dims(sequence, 1))
        self.get_recurrent_dropout_mask(keras.tree.flatten(states)[0])
        return super().call(sequence, states, training=training)


@keras.saving.register_keras_serializable(package="fused_rnn")
class SimpleRNN(FusedLayer, keras.layers.SimpleRNN):
    """``keras.layers.SimpleRNN`` whose whole sequence is one op.

    Arguments, weights, configuration, states, masks and dropout are those of
    ``keras.layers.SimpleRNN``, and weights move between the two as they are.
    What ``fused_rnn.GRU`` says of masks, dtypes, activations, sequences of no
    steps and XLA holds here too. Where the op cannot serve, the layer computes
    what Keras computes, says so once through ``warnings``, and names the
    reason in ``fallback_reason``.

    Call arguments:
      sequences: [B, T, I].
      initial_state: [B, units], or a list of one such tensor.
      mask: [B, T], true where a step counts.
      training: whether dropout applies.

    Returns:
      The last output [B, units], or with return_sequences all [B, T, units];
      with return_state also the last state [B, units].

    Raises:
      ValueError: an argument that ``keras.layers.SimpleRNN`` refuses; an input
        or a state of the wrong rank or size.
      RuntimeError: Keras does not run on TensorFlow.

    Example:
      layer = fused_rnn.SimpleRNN(64, activation="relu")
      layer(keras.random.normal((8, 100, 32)))  # [8, 64]
    """

    _keras_class = keras.layers.SimpleRNN
    _cell_class = keras.layers.SimpleRNNCell
