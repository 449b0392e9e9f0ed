"""PyTorch's layout, both ways."""

import numpy as np

from fused_rnn.weights._keras import (
    checked,
    inverse,
    keras_bias,
    matrix,
    pair_of_biases,
    reorder,
    vector,
)

# PyTorch's gates by their places in Keras, for each number of gates. SimpleRNN;
# GRU: r z n; LSTM: i f g o.
_GATES = {1: (0,), 3: (1, 0, 2), 4: (0, 1, 2, 3)}


def keras_to_torch(
    kernel, recurrent_kernel, bias=None, *, layer=0, reverse=False
):
    """Keras' layout to the entries of a torch.nn.GRU, LSTM or RNN.

    Transposed, and z and r of a GRU swapped: weight_ih = [K_r K_z K_c]ᵀ,
    likewise weight_hh of R, bias_ih of bias[0] and bias_hh of bias[1]. LSTM and
    RNN have the order of Keras, whose one bias becomes bias_ih, and bias_hh
    zeros.

    Args:
      kernel: [I, GH].
      recurrent_kernel: [H, GH].
      bias: [GH], of a GRU (reset_after=True) [2, 3H], or None (``bias=False``
        in torch).
      layer, reverse: which of the layers and directions they are.

    Returns:
      A dict "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0" (for
      layer 0) of arrays, to go through torch.from_numpy into
      ``load_state_dict``.

    Raises:
      ValueError: a shape does not fit.
    """
    weights = checked(kernel, recurrent_kernel, bias, reset_after=True)
    order = _GATES[weights.gates]
    suffix = f"_l{layer}" + ("_reverse" if reverse else "")
    state = {
        "weight_ih" + suffix: reorder(weights.kernel.T, order),
        "weight_hh" + suffix: reorder(weights.recurrent_kernel.T, order),
    }
    biases = pair_of_biases(weights)
    if biases is not None:
        for name, values in zip(("bias_ih", "bias_hh"), biases):
            state[name + suffix] = reorder(values, order)
    return state


def torch_to_keras(state, *, layer=0, reverse=False, prefix=""):
    """One layer and direction of a torch.nn.GRU, LSTM or RNN to Keras.

    A GRU becomes one with reset_after=True. Of the two biases of LSTM and RNN,
    which only ever appear as a sum, Keras' single bias is that sum.

    Args:
      state: a state dict; values that ``np.asarray`` takes.
      layer, reverse: which of the layers and directions to take.
      prefix: what stands before the names, such as "encoder.gru.".

    Returns:
      KerasWeights.

    Raises:
      KeyError: the state has no such layer.
      ValueError: a shape does not fit; the layer has projections
        (``proj_size``), which Keras lacks.
    """
    suffix = f"_l{layer}" + ("_reverse" if reverse else "")
    names = [prefix + kind + suffix for kind in ("weight_ih", "weight_hh")]
    missing = [name for name in names if name not in state]
    if missing:
        raise KeyError(f"the state has no {' and no '.join(missing)}")
    projection = prefix + "weight_hr" + suffix
    if projection in state:
        raise ValueError(f"{projection}: Keras' LSTM has no projection")
    kernel, recurrent_kernel = (
        matrix(name, state[name]).T for name in names
    )
    weights = checked(kernel, recurrent_kernel, None)
    order = inverse(_GATES[weights.gates])
    biases = None
    if prefix + "bias_ih" + suffix in state:
        biases = np.stack([
            reorder(
                vector(name, state[name], weights.gates * weights.units), order
            )
            for name in (
                prefix + kind + suffix for kind in ("bias_ih", "bias_hh")
            )
        ])
    return weights._replace(
        kernel=reorder(kernel, order, 1),
        recurrent_kernel=reorder(recurrent_kernel, order, 1),
        bias=keras_bias(biases, reset_after=weights.gates == 3),
    )
