"""What the Keras layers share: whether, and with what, the ops serve them."""

import contextlib

import keras
import tensorflow as tf
from keras import ops

DTYPES = ("float32", "float64", "float16", "bfloat16")

# Functions that a user may pass for an activation, and the op's name of it.
_ACTIVATIONS = {
    keras.activations.tanh: "tanh",
    keras.activations.sigmoid: "sigmoid",
    keras.activations.relu: "relu",
    keras.activations.linear: "linear",
    keras.activations.hard_sigmoid: "hard_sigmoid",
    keras.activations.softsign: "softsign",
    keras.activations.elu: "elu",
    ops.tanh: "tanh",
    ops.sigmoid: "sigmoid",
    ops.relu: "relu",
    ops.hard_sigmoid: "hard_sigmoid",
    ops.softsign: "softsign",
    ops.elu: "elu",
    tf.tanh: "tanh",
    tf.sigmoid: "sigmoid",
    tf.nn.relu: "relu",
    tf.identity: "linear",
    tf.nn.softsign: "softsign",
    tf.nn.elu: "elu",
}


def require_tensorflow_backend():
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "The layers of fused_rnn need Keras on TensorFlow, but Keras runs"
            f" on {keras.backend.backend()}. Set KERAS_BACKEND=tensorflow"
            " before keras is imported."
        )


@contextlib.contextmanager
def errors_name(layer):
    """Puts the layer's name before the message of an error of the op."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"Layer '{layer.name}': {error}") from error
    except tf.errors.InvalidArgumentError as error:
        raise tf.errors.InvalidArgumentError(
            error.node_def, error.op, f"Layer '{layer.name}': {error.message}"
        ) from error


def activation_name(function):
    """The op's name of an activation function, or None."""
    try:
        return _ACTIVATIONS.get(function)
    except TypeError:  # not hashable
        return None


def cells_of(cell):
    """The cells that an RNN layer runs one after the other, as a list."""
    if type(cell) is keras.layers.StackedRNNCells:
        cell = cell.cells
    return list(cell) if isinstance(cell, (list, tuple)) else [cell]


def why_not_fused(cell, cell_classes):
    """Why the op cannot compute what this GRUCell does, or None if it can."""
    if type(cell) not in cell_classes:
        return f"the cell is a {type(cell).__name__}, not a GRUCell"
    for kind in ("activation", "recurrent_activation"):
        function = getattr(cell, kind)
        if activation_name(function) is None:
            name = getattr(function, "__name__", None) or repr(function)
            known = sorted(set(_ACTIVATIONS.values()))
            return f"{kind} {name} is not one of {', '.join(known)}"
    if cell.compute_dtype not in DTYPES:
        return (
            f"the compute dtype {cell.compute_dtype} is not one of"
            f" {', '.join(DTYPES)}"
        )
    if cell.recurrent_dropout or (cell.dropout and cell.implementation == 1):
        # Before 3.8 one mask served all gates, and dropped the state itself.
        if getattr(cell, "dropout_mask_count", None) != 3:
            return (
                f"with these dropouts the cell of Keras {keras.__version__}"
                " computes another function than that of 3.8 and newer"
            )
    return None


def input_dropout_mask(cell, sequences):
    """A GRUCell's mask or masks on sequences [B, T, I]; None without dropout.

    Of a step's inputs the cell needs the shape, and there may be no step.
    """
    if not cell.dropout:
        return None
    batch, inputs = ops.shape(sequences)[0], sequences.shape[-1]
    return cell.get_dropout_mask(ops.zeros((batch, inputs), cell.compute_dtype))


def dropped_inputs(cell, sequences, training):
    """A GRUCell's sequences [B, T, I] and kernel after input dropout.

    With one mask a gate (``implementation=1``, or recurrent_dropout) the
    inputs become [B, T, 3I], a copy for each gate, and the kernel
    [3I, 3H] has each gate's block on its diagonal.
    """
    kernel = ops.convert_to_tensor(cell.kernel)
    if not training or not 0.0 < cell.dropout < 1.0:
        return sequences, kernel
    mask = input_dropout_mask(cell, sequences)
    if cell.implementation != 1:
        return sequences * ops.expand_dims(mask, 1), kernel
    sequences = ops.concatenate(
        [sequences * ops.expand_dims(m, 1) for m in mask], axis=-1
    )
    blocks = ops.split(kernel, 3, axis=1)
    zeros = ops.zeros_like(blocks[0])
    kernel = ops.concatenate(
        [
            ops.concatenate(
                [block if i == j else zeros for j in range(3)], axis=1
            )
            for i, block in enumerate(blocks)
        ],
        axis=0,
    )
    return sequences, kernel


def recurrent_dropout_mask(cell, state, training):
    """A GRUCell's masks on the state [3, B, H], or None."""
    if not training or not 0.0 < cell.recurrent_dropout < 1.0:
        return None
    return ops.stack(cell.get_recurrent_dropout_mask(state))
