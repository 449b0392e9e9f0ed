"""RNN, which runs any of the cells, or several."""

import keras

from fused_rnn.layers._base import FusedSequence
from fused_rnn.layers._kinds import cells_of, why_not_fused


@keras.saving.register_keras_serializable(package="fused_rnn")
class RNN(FusedSequence, keras.layers.RNN):
    """``keras.layers.RNN`` that runs a cell over the sequence in one op.

    With a list of cells, or ``keras.layers.StackedRNNCells``, one op a cell.
    The cells are Keras' or this package's GRUCell, LSTMCell and SimpleRNNCell,
    in any mixture. Arguments, weights, configuration, states, masks and
    dropout are those of ``keras.layers.RNN``; what ``fused_rnn.GRU`` says of
    masks, dtypes, activations and XLA holds here too. With any other cell the
    layer computes what Keras computes, says so once through ``warnings``, and
    names the reason in ``fallback_reason``.

    Call arguments:
      sequences: [B, T, I].
      initial_state: for each cell [B, units], in a list; for an LSTMCell h and
        c.
      mask: [B, T], true where a step counts.
      training: whether dropout applies.

    Returns:
      The last output [B, units of the last cell], or with return_sequences
      all [B, T, units]; with return_state also each cell's last states.

    Raises:
      ValueError: an argument that ``keras.layers.RNN`` refuses; an input or a
        state of the wrong rank or size.
      RuntimeError: Keras does not run on TensorFlow.

    Example:
      layer = fused_rnn.RNN([keras.layers.GRUCell(n) for n in (128, 64)])
      layer(keras.random.normal((8, 100, 32)))  # [8, 64]
    """

    _keras_class = keras.layers.RNN

    @classmethod
    def why_not(cls, layer):
        for cell in cells_of(layer.cell):
            reason = why_not_fused(cell)
            if reason is not None:
                return reason
            if cell.compute_dtype != layer.compute_dtype:
                return (
                    f"the cell computes in {cell.compute_dtype}, the layer in"
                    f" {layer.compute_dtype}"
                )
        return None
