"""GRUBlockCell and LSTMBlockCell, Keras cells over the ops of those names."""

import keras
from keras import ops

from fused_rnn import ops as fused_ops
from fused_rnn.layers._block_cell import BlockCell, product


@keras.saving.register_keras_serializable(package="fused_rnn")
class GRUBlockCell(BlockCell):
    """TensorFlow 1's GRUBlockCell as a Keras cell: one op a step.

        [r̄ ū] = [x h]·gates_kernel + gates_bias            r = σ(r̄)  u = σ(ū)
        c = tanh([x r∘h]·candidate_kernel + candidate_bias)
        h' = u∘h + (1−u)∘c

    The function of ``keras.layers.GRU(units, reset_after=False)``, with the
    weights stored as TensorFlow 1 stored them; ``fused_rnn.weights`` converts
    both ways. A cell for ``keras.layers.RNN``, ``keras.layers.Bidirectional``
    around it, ``keras.layers.StackedRNNCells`` and loops of one's own.

    Weights, in this order:
      gates_kernel: [I + units, 2 units], columns of the reset gate r, then of
        the update gate u.
      gates_bias: [2 units]; starts at 1, so that a new cell remembers.
      candidate_kernel: [I + units, units].
      candidate_bias: [units].

    They are what the op takes as w_ru, b_ru, w_c and b_c.

    Dropout is that of the other Keras cells: ``dropout`` on the inputs, one
    mask for all gates; a positive ``recurrent_dropout`` means three masks on
    the inputs and three on the state, one a gate. Masks stay the same over the
    steps of a sequence. The fused op has no input for masks of the state: in
    training with recurrent_dropout the step is composed of TensorFlow's own
    ops, in inference it is the fused op.

    float32, float64, float16 and bfloat16 compute dtypes, mixed policies
    included. XLA cannot compile the op, so ``compile(jit_compile="auto")``
    leaves a model that contains the cell without XLA.

    Args:
      units: a positive integer, the size of the state.
      gates_kernel_initializer, candidate_kernel_initializer: "glorot_uniform"
        unless given.
      gates_bias_initializer: "ones" unless given.
      candidate_bias_initializer: "zeros" unless given.
      gates_kernel_regularizer, gates_bias_regularizer,
        candidate_kernel_regularizer, candidate_bias_regularizer: as in other
        layers; none unless given.
      gates_kernel_constraint, gates_bias_constraint,
        candidate_kernel_constraint, candidate_bias_constraint: likewise.
      dropout, recurrent_dropout: fractions in [0, 1].
      seed: of the dropout masks.
      **kwargs: of ``keras.layers.Layer``: name, dtype, trainable.

    Call arguments:
      inputs: [B, I].
      states: [B, units], or a list of one such tensor.
      training: whether dropout applies.

    Returns:
      The new state [B, units], and the same again in the form of ``states``.

    Raises:
      ValueError: units is not a positive integer, or an input or a state has
        another rank or size than the cell was built for.

    Example:
      layer = keras.layers.RNN(fused_rnn.GRUBlockCell(64))
      outputs = layer(np.ones((8, 20, 16), "float32"))   # [8, 64]
    """

    def __init__(
        self,
        units,
        gates_kernel_initializer="glorot_uniform",
        gates_bias_initializer="ones",
        candidate_kernel_initializer="glorot_uniform",
        candidate_bias_initializer="zeros",
        gates_kernel_regularizer=None,
        gates_bias_regularizer=None,
        candidate_kernel_regularizer=None,
        candidate_bias_regularizer=None,
        gates_kernel_constraint=None,
        gates_bias_constraint=None,
        candidate_kernel_constraint=None,
        candidate_bias_constraint=None,
        dropout=0.0,
        recurrent_dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(
            units,
            {
                "gates_kernel_initializer": gates_kernel_initializer,
                "gates_bias_initializer": gates_bias_initializer,
                "candidate_kernel_initializer": candidate_kernel_initializer,
                "candidate_bias_initializer": candidate_bias_initializer,
                "gates_kernel_regularizer": gates_kernel_regularizer,
                "gates_bias_regularizer": gates_bias_regularizer,
                "candidate_kernel_regularizer": candidate_kernel_regularizer,
                "candidate_bias_regularizer": candidate_bias_regularizer,
                "gates_kernel_constraint": gates_kernel_constraint,
                "gates_bias_constraint": gates_bias_constraint,
                "candidate_kernel_constraint": candidate_kernel_constraint,
                "candidate_bias_constraint": candidate_bias_constraint,
            },
            states=1,
            gates=3,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            **kwargs,
        )

    def _weights_of(self, inputs):
        rows = inputs + self.units
        return [
            (name, name, shape)
            for name, shape in (
                ("gates_kernel", (rows, 2 * self.units)),
                ("gates_bias", (2 * self.units,)),
                ("candidate_kernel", (rows, self.units)),
                ("candidate_bias", (self.units,)),
            )
        ]

    def _step(self, x, h):
        cell = fused_ops.gru_block_cell(
            x,
            h,
            ops.convert_to_tensor(self.gates_kernel),
            ops.convert_to_tensor(self.candidate_kernel),
            ops.convert_to_tensor(self.gates_bias),
            ops.convert_to_tensor(self.candidate_bias),
        )
        return [cell.h]

    def _step_with_recurrent_dropout(self, x, h):
        """The step with masks m on the state, and maybe n on the inputs:

            r̄ = (x∘n_r)·K_r + (h∘m_r)·R_r + b_r    (ū likewise)
            c̄ = (x∘n_c)·K_c + (r∘h∘m_c)·R_c + b_c

        Keras keeps its masks in the order update, reset, candidate.
        """
        (x_u, h_u), (x_r, h_r), (x_c, h_c) = self._dropped(x, h)
        r_kernel, u_kernel = ops.split(self.gates_kernel, 2, axis=1)
        r_bias, u_bias = ops.split(self.gates_bias, 2)
        r = ops.sigmoid(product(x_r, h_r, r_kernel) + r_bias)
        u = ops.sigmoid(product(x_u, h_u, u_kernel) + u_bias)
        c = ops.tanh(
            product(x_c, r * h_c, self.candidate_kernel) + self.candidate_bias
        )
        return [u * h + (1 - u) * c]


@keras.saving.register_keras_serializable(package="fused_rnn")
class LSTMBlockCell(BlockCell):
    """TensorFlow 1's LSTMBlockCell as a Keras cell: one op a step.

        [ī c̄ f̄ ō] = [x h]·kernel + bias
        i = σ(ī + w_i_diag∘c)    f = σ(f̄ + forget_bias + w_f_diag∘c)
        c' = clip(f∘c + i∘tanh(c̄))
        o = σ(ō + w_o_diag∘c')   h' = o∘tanh(c')

    The function of ``keras.layers.LSTM(units)`` where there are no peepholes
    (the terms with w_i_diag, w_f_diag and w_o_diag) and no clipping, with the
    weights stored as TensorFlow 1 stored them; ``fused_rnn.weights`` converts
    both ways. A cell for ``keras.layers.RNN``, ``keras.layers.Bidirectional``
    around it, ``keras.layers.StackedRNNCells`` and loops of one's own.

    Weights, in this order:
      kernel: [I + units, 4 units], columns in the order i, c, f, o.
      bias: [4 units], likewise.
      w_i_diag, w_f_diag, w_o_diag: [units]; with use_peephole only.

    They are what the op takes as w, b, wci, wcf and wco.

    What ``fused_rnn.GRUBlockCell`` says of dropout, dtypes and XLA holds here
    too; with a positive ``recurrent_dropout`` there are four masks.

    Args:
      units: a positive integer, the size of both states.
      forget_bias: added to the forget gate's bias.
      cell_clip: the cell state is cut off at plus and minus this; None: not at
        all. No gradient passes where it is.
      use_peephole: whether the gates see the cell state.
      kernel_initializer, peephole_initializer: "glorot_uniform" unless given.
      bias_initializer: "zeros" unless given.
      kernel_regularizer, bias_regularizer, peephole_regularizer: as in other
        layers; none unless given.
      kernel_constraint, bias_constraint, peephole_constraint: likewise.
      dropout, recurrent_dropout: fractions in [0, 1].
      seed: of the dropout masks.
      **kwargs: of ``keras.layers.Layer``: name, dtype, trainable.

    Call arguments:
      inputs: [B, I].
      states: h and c, each [B, units], in the order of ``keras.layers.LSTM``.
        (TensorFlow 1 had c first.)
      training: whether dropout applies.

    Returns:
      The new h [B, units], and a list of the new h and c.

    Raises:
      ValueError: units is not a positive integer, cell_clip is not positive,
        or an input or a state has another rank or size than the cell was
        built for.

    Example:
      layer = keras.layers.RNN(fused_rnn.LSTMBlockCell(64, use_peephole=True))
      outputs = layer(np.ones((8, 20, 16), "float32"))   # [8, 64]
    """

    def __init__(
        self,
        units,
        forget_bias=1.0,
        cell_clip=None,
        use_peephole=False,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        peephole_initializer="glorot_uniform",
        kernel_regularizer=None,
        bias_regularizer=None,
        peephole_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        peephole_constraint=None,
        dropout=0.0,
        recurrent_dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(
            units,
            {
                "kernel_initializer": kernel_initializer,
                "bias_initializer": bias_initializer,
                "peephole_initializer": peephole_initializer,
                "kernel_regularizer": kernel_regularizer,
                "bias_regularizer": bias_regularizer,
                "peephole_regularizer": peephole_regularizer,
                "kernel_constraint": kernel_constraint,
                "bias_constraint": bias_constraint,
                "peephole_constraint": peephole_constraint,
            },
            states=2,
            gates=4,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            **kwargs,
        )
        if cell_clip is not None and not cell_clip > 0:
            raise ValueError(
                f"cell_clip: expected a positive number or None, got"
                f" {cell_clip!r}"
            )
        self.forget_bias = float(forget_bias)
        self.cell_clip = None if cell_clip is None else float(cell_clip)
        self.use_peephole = bool(use_peephole)

    def _weights_of(self, inputs):
        weights = [
            ("kernel", "kernel", (inputs + self.units, 4 * self.units)),
            ("bias", "bias", (4 * self.units,)),
        ]
        if self.use_peephole:
            weights += [
                (name, "peephole", (self.units,))
                for name in ("w_i_diag", "w_f_diag", "w_o_diag")
            ]
        return weights

    def _peepholes(self):
        if not self.use_peephole:
            return [None] * 3
        return [
            ops.convert_to_tensor(weight)
            for weight in (self.w_i_diag, self.w_f_diag, self.w_o_diag)
        ]

    def _step(self, x, h, c):
        wci, wcf, wco = self._peepholes()
        cell = fused_ops.lstm_block_cell(
            x,
            c,
            h,
            ops.convert_to_tensor(self.kernel),
            ops.convert_to_tensor(self.bias),
            wci=wci,
            wcf=wcf,
            wco=wco,
            forget_bias=self.forget_bias,
            cell_clip=self.cell_clip or 0.0,
            use_peephole=self.use_peephole,
        )
        return [cell.h, cell.cs]

    def _step_with_recurrent_dropout(self, x, h, c):
        """The step with masks m on the state, and maybe n on the inputs:

            ī = (x∘n_i)·K_i + (h∘m_i)·R_i + b_i, and so on

        Keras keeps its masks in the order i, f, c, o.
        """
        k_i, k_c, k_f, k_o = ops.split(self.kernel, 4, axis=1)
        b_i, b_c, b_f, b_o = ops.split(self.bias, 4)
        i, f, j, o = (
            product(*dropped, kernel) + bias
            for dropped, kernel, bias in zip(
                self._dropped(x, h), (k_i, k_f, k_c, k_o), (b_i, b_f, b_c, b_o)
            )
        )
        wci, wcf, wco = (0.0 if w is None else w for w in self._peepholes())
        i = ops.sigmoid(i + wci * c)
        f = ops.sigmoid(f + self.forget_bias + wcf * c)
        c = f * c + i * ops.tanh(j)
        if self.cell_clip is not None:
            c = ops.clip(c, -self.cell_clip, self.cell_clip)
        return [ops.sigmoid(o + wco * c) * ops.tanh(c), c]

    def get_config(self):
        return {
            **super().get_config(),
            "forget_bias": self.forget_bias,
            "cell_clip": self.cell_clip,
            "use_peephole": self.use_peephole,
        }
