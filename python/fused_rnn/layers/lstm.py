"""LSTM and LSTMCell."""

import keras

from fused_rnn.layers._base import FusedCell, FusedLayer


@keras.saving.register_keras_serializable(package="fused_rnn")
class LSTMCell(FusedCell, keras.layers.LSTMCell):
    """``keras.layers.LSTMCell`` whose step is one op.

    For loops of one's own, decoders, ``keras.layers.StackedRNNCells`` and
    ``keras.layers.RNN``; a whole sequence is faster in ``fused_rnn.LSTM``.

    Arguments, weights and configuration are those of
    ``keras.layers.LSTMCell``; which dtypes and activations are fused, and what
    becomes of others, is as in ``fused_rnn.GRUCell``.

    Call arguments:
      inputs: [B, I].
      states: a list of h [B, units] and c [B, units].
      training: whether dropout applies.

    Returns:
      The new h [B, units], and a list of the new h and c.

    Raises:
      ValueError: units is not positive.
      RuntimeError: Keras does not run on TensorFlow.

    Example:
      cell = fused_rnn.LSTMCell(64)
      states = cell.get_initial_state(8)
      for x in steps:                    # each [8, I]
          h, states = cell(x, states)
    """

    _keras_class = keras.layers.LSTMCell


@keras.saving.register_keras_serializable(package="fused_rnn")
class LSTM(FusedLayer, keras.layers.LSTM):
    """``keras.layers.LSTM`` whose whole sequence is one op.

    Arguments, weights, configuration, states, masks and dropout are those of
    ``keras.layers.LSTM``, and weights move between the two as they are. What
    ``fused_rnn.GRU`` says of masks, dtypes, activations, sequences of no steps
    and XLA holds here too. Where the op cannot serve, the layer computes what
    Keras computes, says so once through ``warnings``, and names the reason in
    ``fallback_reason``.

    Call arguments:
      sequences: [B, T, I].
      initial_state: a list of h [B, units] and c [B, units].
      mask: [B, T], true where a step counts.
      training: whether dropout applies.

    Returns:
      The last output [B, units], or with return_sequences all [B, T, units];
      with return_state also the last h and the last c, each [B, units].

    Raises:
      ValueError: an argument that ``keras.layers.LSTM`` refuses; an input or a
        state of the wrong rank or size.
      RuntimeError: Keras does not run on TensorFlow.

    Example:
      layer = fused_rnn.LSTM(64, return_sequences=True, return_state=True)
      outputs, h, c = layer(keras.random.normal((8, 100, 32)))
      outputs.shape, h.shape, c.shape    # [8, 100, 64], [8, 64], [8, 64]
    """

    _keras_class = keras.layers.LSTM
    _cell_class = keras.layers.LSTMCell
