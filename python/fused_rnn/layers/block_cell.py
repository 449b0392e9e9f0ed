"""GRUBlockCell, the Keras cell over the op of the same name."""

import numbers

import keras
from keras import ops
from keras.src.layers.rnn.dropout_rnn_cell import DropoutRNNCell

from fused_rnn import ops as fused_ops
from fused_rnn.layers._keras import errors_name, require_tensorflow_backend


@keras.saving.register_keras_serializable(package="fused_rnn")
class GRUBlockCell(keras.layers.Layer, DropoutRNNCell):
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
        require_tensorflow_backend()
        if not isinstance(units, numbers.Integral) or units <= 0:
            raise ValueError(
                f"units: expected a positive integer, got {units!r}"
            )
        super().__init__(**kwargs)
        self.units = int(units)
        get = keras.initializers.get
        self.gates_kernel_initializer = get(gates_kernel_initializer)
        self.gates_bias_initializer = get(gates_bias_initializer)
        self.candidate_kernel_initializer = get(candidate_kernel_initializer)
        self.candidate_bias_initializer = get(candidate_bias_initializer)
        get = keras.regularizers.get
        self.gates_kernel_regularizer = get(gates_kernel_regularizer)
        self.gates_bias_regularizer = get(gates_bias_regularizer)
        self.candidate_kernel_regularizer = get(candidate_kernel_regularizer)
        self.candidate_bias_regularizer = get(candidate_bias_regularizer)
        get = keras.constraints.get
        self.gates_kernel_constraint = get(gates_kernel_constraint)
        self.gates_bias_constraint = get(gates_bias_constraint)
        self.candidate_kernel_constraint = get(candidate_kernel_constraint)
        self.candidate_bias_constraint = get(candidate_bias_constraint)

        self.dropout = min(1.0, max(0.0, dropout))
        self.recurrent_dropout = min(1.0, max(0.0, recurrent_dropout))
        if self.recurrent_dropout != 0.0:
            self.dropout_mask_count = 3
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed=seed)

        self.state_size = self.units
        self.output_size = self.units
        self.supports_jit = False

    def build(self, input_shape):
        super().build(input_shape)
        inputs = input_shape[-1]
        if inputs is None:
            raise ValueError(
                f"Layer '{self.name}': the last dimension of the input must be"
                f" known, got shape {tuple(input_shape)}"
            )
        self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: inputs})
        for name, shape in (
            ("gates_kernel", (inputs + self.units, 2 * self.units)),
            ("gates_bias", (2 * self.units,)),
            ("candidate_kernel", (inputs + self.units, self.units)),
            ("candidate_bias", (self.units,)),
        ):
            weight = self.add_weight(
                shape=shape,
                name=name,
                initializer=getattr(self, name + "_initializer"),
                regularizer=getattr(self, name + "_regularizer"),
                constraint=getattr(self, name + "_constraint"),
            )
            setattr(self, name, weight)

    def call(self, inputs, states, training=False):
        nested = keras.tree.is_nested(states)
        h_prev = states[0] if nested else states
        inputs = ops.cast(inputs, self.compute_dtype)
        if h_prev.shape[-1] not in (None, self.units):
            raise ValueError(
                f"Layer '{self.name}': expected a state of shape [batch,"
                f" {self.units}], got {list(h_prev.shape)}"
            )
        if training and 0.0 < self.recurrent_dropout < 1.0:
            h = self._step_with_recurrent_dropout(inputs, h_prev)
        else:
            if training and 0.0 < self.dropout < 1.0:
                inputs = inputs * self.get_dropout_mask(inputs)
            with errors_name(self):
                h = fused_ops.gru_block_cell(
                    inputs,
                    h_prev,
                    ops.convert_to_tensor(self.gates_kernel),
                    ops.convert_to_tensor(self.candidate_kernel),
                    ops.convert_to_tensor(self.gates_bias),
                    ops.convert_to_tensor(self.candidate_bias),
                ).h
        return h, [h] if nested else h

    def _step_with_recurrent_dropout(self, x, h):
        """The step with masks m on the state, and maybe n on the inputs:

            r̄ = (x∘n_r)·K_r + (h∘m_r)·R_r + b_r    (ū likewise)
            c̄ = (x∘n_c)·K_c + (r∘h∘m_c)·R_c + b_c

        Keras keeps its masks in the order update, reset, candidate.
        """
        x_u = x_r = x_c = x
        if 0.0 < self.dropout < 1.0:
            x_u, x_r, x_c = (x * mask for mask in self.get_dropout_mask(x))
        m_u, m_r, m_c = self.get_recurrent_dropout_mask(h)
        r_kernel, u_kernel = ops.split(self.gates_kernel, 2, axis=1)
        r_bias, u_bias = ops.split(self.gates_bias, 2)

        def product(x, h, kernel):
            return ops.matmul(ops.concatenate([x, h], axis=1), kernel)

        r = ops.sigmoid(product(x_r, h * m_r, r_kernel) + r_bias)
        u = ops.sigmoid(product(x_u, h * m_u, u_kernel) + u_bias)
        c = ops.tanh(
            product(x_c, r * h * m_c, self.candidate_kernel)
            + self.candidate_bias
        )
        return u * h + (1 - u) * c

    def get_initial_state(self, batch_size=None):
        """A list of one tensor of zeros, [batch_size, units]."""
        return [ops.zeros((batch_size, self.units), dtype=self.compute_dtype)]

    def get_config(self):
        config = {"units": self.units}
        for kind, module in (
            ("initializer", keras.initializers),
            ("regularizer", keras.regularizers),
            ("constraint", keras.constraints),
        ):
            for weight in (
                "gates_kernel",
                "gates_bias",
                "candidate_kernel",
                "candidate_bias",
            ):
                name = f"{weight}_{kind}"
                config[name] = module.serialize(getattr(self, name))
        config.update(
            dropout=self.dropout,
            recurrent_dropout=self.recurrent_dropout,
            seed=self.seed,
        )
        return {**super().get_config(), **config}
