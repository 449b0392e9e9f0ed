"""What TensorFlow 1's block cells share as Keras cells."""

import numbers

import keras
from keras import ops
from keras.src.layers.rnn.dropout_rnn_cell import DropoutRNNCell

from fused_rnn.layers._keras import errors_name, require_tensorflow_backend

# What each kind of weight has, and Keras' module for it.
_OPTIONS = {
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}


class BlockCell(keras.layers.Layer, DropoutRNNCell):
    """A cell of one op, whose weights multiply input and state at once.

    A subclass says what its weights are, what a step is, and what of it
    remains with masks on the state.

    Args:
      units: the size of each state.
      options: initializer, regularizer and constraint of each kind of weight,
        such as "bias_initializer"; all of them are attributes and in the
        configuration.
      states: how many there are.
      gates: so many masks are drawn with recurrent dropout.
      dropout, recurrent_dropout, seed: as other cells have them.
      **kwargs: of ``keras.layers.Layer``.
    """

    def __init__(
        self, units, options, *, states, gates, dropout, recurrent_dropout,
        seed, **kwargs,
    ):
        require_tensorflow_backend()
        if not isinstance(units, numbers.Integral) or units <= 0:
            raise ValueError(
                f"units: expected a positive integer, got {units!r}"
            )
        super().__init__(**kwargs)
        self.units = int(units)
        self._options = tuple(options)
        for name, value in options.items():
            module = _OPTIONS[name.rsplit("_", 1)[1]]
            setattr(self, name, module.get(value))
        self.dropout = min(1.0, max(0.0, dropout))
        self.recurrent_dropout = min(1.0, max(0.0, recurrent_dropout))
        if self.recurrent_dropout != 0.0:
            self.dropout_mask_count = gates
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed=seed)

        self.state_size = self.units if states == 1 else [self.units] * states
        self.output_size = self.units
        self.supports_jit = False

    def _weights_of(self, inputs):
        """(name, kind, shape) of each weight, for so many inputs."""
        raise NotImplementedError

    def _step(self, x, *states):
        """The new states, by the op."""
        raise NotImplementedError

    def _step_with_recurrent_dropout(self, x, *states):
        """The new states, by TensorFlow's ops."""
        raise NotImplementedError

    def build(self, input_shape):
        super().build(input_shape)
        inputs = input_shape[-1]
        if inputs is None:
            raise ValueError(
                f"Layer '{self.name}': the last dimension of the input must be"
                f" known, got shape {tuple(input_shape)}"
            )
        self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: inputs})
        for name, kind, shape in self._weights_of(inputs):
            weight = self.add_weight(
                shape=shape,
                name=name,
                **{
                    option: getattr(self, f"{kind}_{option}")
                    for option in _OPTIONS
                },
            )
            setattr(self, name, weight)

    def call(self, inputs, states, training=False):
        nested = keras.tree.is_nested(states)
        states = list(states) if nested else [states]
        inputs = ops.cast(inputs, self.compute_dtype)
        count = len(keras.tree.flatten(self.state_size))
        if len(states) != count:
            raise ValueError(
                f"Layer '{self.name}': expected {count} state(s), got"
                f" {len(states)}"
            )
        for state in states:
            if state.shape[-1] not in (None, self.units):
                raise ValueError(
                    f"Layer '{self.name}': expected a state of shape [batch,"
                    f" {self.units}], got {list(state.shape)}"
                )
        if training and 0.0 < self.recurrent_dropout < 1.0:
            new = self._step_with_recurrent_dropout(inputs, *states)
        else:
            if training and 0.0 < self.dropout < 1.0:
                inputs = inputs * self.get_dropout_mask(inputs)
            with errors_name(self):
                new = self._step(inputs, *states)
        return new[0], list(new) if nested else new[0]

    def _dropped(self, x, h):
        """Input and state side by side for each gate, with the gate's masks.

        x∘n and h∘m with masks n and m of each gate, in Keras' order of gates;
        a pair for each, since a state may still be multiplied.
        """
        masks = self.get_recurrent_dropout_mask(h)
        xs = [x] * len(masks)
        if 0.0 < self.dropout < 1.0:
            xs = [x * mask for mask in self.get_dropout_mask(x)]
        return [(dropped, h * mask) for dropped, mask in zip(xs, masks)]

    def get_initial_state(self, batch_size=None):
        """A list of zeros, [batch_size, units] for each state."""
        return [
            ops.zeros((batch_size, size), dtype=self.compute_dtype)
            for size in keras.tree.flatten(self.state_size)
        ]

    def get_config(self):
        config = {"units": self.units}
        for name in self._options:
            module = _OPTIONS[name.rsplit("_", 1)[1]]
            config[name] = module.serialize(getattr(self, name))
        config.update(
            dropout=self.dropout,
            recurrent_dropout=self.recurrent_dropout,
            seed=self.seed,
        )
        return {**super().get_config(), **config}


def product(x, h, kernel):
    """[x h]·kernel"""
    return ops.matmul(ops.concatenate([x, h], axis=1), kernel)
