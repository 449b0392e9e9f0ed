"""GRU and GRUCell."""

import keras

from fused_rnn.layers._base import FusedCell, FusedLayer


@keras.saving.register_keras_serializable(package="fused_rnn")
class GRUCell(FusedCell, keras.layers.GRUCell):
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

    _keras_class = keras.layers.GRUCell


@keras.saving.register_keras_serializable(package="fused_rnn")
class GRU(FusedLayer, keras.layers.GRU):
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

    _keras_class = keras.layers.GRU
    _cell_class = keras.layers.GRUCell

    def inner_loop(self, sequences, initial_state, mask, training=False):
        # Keras' GRU takes the first of several states.
        return super().inner_loop(
            sequences, initial_state[:1], mask, training=training
        )
