"""Keras' dropout masks, and how the ops take them."""

from keras import ops

from fused_rnn.layers._kinds import kind_of


def _drops(cell, rate, training):
    """Whether a cell drops anything."""
    return training and (
        0.0 < rate < 1.0 or rate == 1.0 and kind_of(cell).drops_all
    )


def input_dropout_mask(cell, sequences):
    """A cell's mask or masks on sequences [B, T, I]; None without dropout.

    Of a step's inputs the cell needs the shape, and there may be no step.
    """
    if not cell.dropout:
        return None
    batch, inputs = ops.shape(sequences)[0], sequences.shape[-1]
    return cell.get_dropout_mask(ops.zeros((batch, inputs), cell.compute_dtype))


def dropped_inputs(cell, sequences, training):
    """A cell's sequences [B, T, I] and kernel [I, GH] after input dropout.

    With one mask a gate (``implementation=1``, or recurrent_dropout) the
    inputs become [B, T, GI], a copy for each gate, and the kernel
    [GI, GH] has each gate's block on its diagonal.
    """
    kernel = ops.convert_to_tensor(cell.kernel)
    if not _drops(cell, cell.dropout, training):
        return sequences, kernel
    masks = input_dropout_mask(cell, sequences)
    if not isinstance(masks, list):
        return sequences * ops.expand_dims(masks, 1), kernel
    sequences = ops.concatenate(
        [sequences * ops.expand_dims(mask, 1) for mask in masks], axis=-1
    )
    blocks = ops.split(kernel, len(masks), axis=1)
    zeros = ops.zeros_like(blocks[0])
    kernel = ops.concatenate(
        [
            ops.concatenate(
                [block if i == j else zeros for j in range(len(blocks))],
                axis=1,
            )
            for i, block in enumerate(blocks)
        ],
        axis=0,
    )
    return sequences, kernel


def recurrent_dropout_mask(cell, state, training):
    """A cell's masks on the state, [G, B, H], or one for all; None: none."""
    if not _drops(cell, cell.recurrent_dropout, training):
        return None
    masks = cell.get_recurrent_dropout_mask(state)
    return ops.stack(masks if isinstance(masks, list) else [masks])
