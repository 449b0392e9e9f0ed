"""Weights of ``reference``'s character models, the layout of textbooks.

A gate is one matrix [H+I, H] on the previous hidden state and the input side
by side, [h, x], and one bias [H]. The output layer (Wy and by, or Why and by)
is no part of the cell: it is ``keras.layers.Dense``'s as it is.

Each conversion only moves numbers and negates some, so it takes gradients as
it takes weights.
"""

import numpy as np

from fused_rnn.weights._keras import KerasWeights, checked, matrix, vector

# Gates in Keras' order. The update gate has the other polarity here: it says
# how much is new, and 1 − σ(a) = σ(−a).
_GRU_GATES = {"z": -1.0, "r": 1.0, "h": 1.0}
_LSTM_GATES = {"i": 1.0, "f": 1.0, "c": 1.0, "o": 1.0}


def _require(parameters, names):
    missing = [name for name in names if name not in parameters]
    if missing:
        raise KeyError(f"the parameters have no {' and no '.join(missing)}")
    return [parameters[name] for name in names]


def _gates_to_keras(parameters, signs):
    matrices = _require(parameters, ["W" + gate for gate in signs])
    biases = _require(parameters, ["b" + gate for gate in signs])
    rows, units = matrix("W" + next(iter(signs)), matrices[0]).shape
    if rows < units:
        raise ValueError(
            f"W{next(iter(signs))}: expected shape [H + I, H], got "
            f"{[rows, units]}"
        )
    both = np.concatenate(
        [
            sign * matrix("W" + gate, W, rows, units)
            for (gate, sign), W in zip(signs.items(), matrices)
        ],
        axis=1,
    )
    bias = np.concatenate([
        sign * vector("b" + gate, b, units)
        for (gate, sign), b in zip(signs.items(), biases)
    ])
    return KerasWeights(both[units:], both[:units], bias)


def _checked_with_bias(cell, *arrays):
    """KerasWeights of a cell; textbooks' layers always have a bias."""
    weights = checked(*arrays, reset_after=False, cell=cell)
    if weights.bias is None:
        zeros = np.zeros(weights.kernel.shape[1], weights.kernel.dtype)
        weights = weights._replace(bias=zeros)
    return weights


def _keras_to_gates(weights, signs):
    both = np.concatenate([weights.recurrent_kernel, weights.kernel])
    parameters = {}
    for (gate, sign), W, b in zip(
        signs.items(), np.split(both, len(signs), axis=1),
        np.split(weights.bias, len(signs)),
    ):
        parameters["W" + gate] = sign * W
        parameters["b" + gate] = sign * b
    return parameters


def textbook_gru_to_keras(parameters):
    """A textbook GRU, h' = (1−z)∘h + z∘h̃, to Keras' reset_after=False.

        kernel           = [−Wz[H:]  Wr[H:]  Wh[H:]]
        recurrent_kernel = [−Wz[:H]  Wr[:H]  Wh[:H]]
        bias             = [−bz      br      bh    ]

    Args:
      parameters: a dict with Wz, Wr, Wh [H+I, H], rows of h first, and bz, br,
        bh [H], such as ``reference.CharacterGru.weights``; more is ignored.

    Returns:
      KerasWeights.

    Raises:
      KeyError: one is missing.
      ValueError: a shape does not fit.
    """
    return _gates_to_keras(parameters, _GRU_GATES)


def keras_to_textbook_gru(kernel, recurrent_kernel, bias=None):
    """The inverse of ``textbook_gru_to_keras``; no bias becomes zeros.

    Returns:
      A dict Wz, Wr, Wh [H+I, H], bz, br, bh [H].

    Raises:
      ValueError: a shape does not fit; a bias [2, 3H] is of the other
        convention.
    """
    weights = _checked_with_bias("GRU", kernel, recurrent_kernel, bias)
    return _keras_to_gates(weights, _GRU_GATES)


def textbook_lstm_to_keras(parameters):
    """A textbook LSTM to Keras'.

        kernel           = [Wi[H:]  Wf[H:]  Wc[H:]  Wo[H:]]
        recurrent_kernel = [Wi[:H]  Wf[:H]  Wc[:H]  Wo[:H]]
        bias             = [bi      bf      bc      bo    ]

    Args:
      parameters: a dict with Wf, Wi, Wc, Wo [H+I, H], rows of h first, and bf,
        bi, bc, bo [H], such as ``reference.CharacterLstm.weights``; more is
        ignored.

    Returns:
      KerasWeights.

    Raises:
      KeyError: one is missing.
      ValueError: a shape does not fit.
    """
    return _gates_to_keras(parameters, _LSTM_GATES)


def keras_to_textbook_lstm(kernel, recurrent_kernel, bias=None):
    """The inverse of ``textbook_lstm_to_keras``; no bias becomes zeros.

    Returns:
      A dict Wi, Wf, Wc, Wo [H+I, H], bi, bf, bc, bo [H].

    Raises:
      ValueError: a shape does not fit.
    """
    weights = _checked_with_bias("LSTM", kernel, recurrent_kernel, bias)
    return _keras_to_gates(weights, _LSTM_GATES)


def textbook_rnn_to_keras(parameters):
    """A textbook RNN, h' = tanh(x·Wxh + h·Whh + bh), to Keras' SimpleRNN.

    Args:
      parameters: a dict with Wxh [I, H], Whh [H, H] and bh [H], such as
        ``reference.CharacterRnn.weights``; more is ignored.

    Returns:
      KerasWeights.

    Raises:
      KeyError: one is missing.
      ValueError: a shape does not fit.
    """
    W_x, W_h, b = _require(parameters, ["Wxh", "Whh", "bh"])
    units = matrix("Wxh", W_x).shape[1]
    return KerasWeights(
        np.asarray(W_x), matrix("Whh", W_h, units, units),
        vector("bh", b, units),
    )


def keras_to_textbook_rnn(kernel, recurrent_kernel, bias=None):
    """The inverse of ``textbook_rnn_to_keras``; no bias becomes zeros.

    Returns:
      A dict Wxh [I, H], Whh [H, H], bh [H].

    Raises:
      ValueError: a shape does not fit.
    """
    weights = _checked_with_bias("SimpleRNN", kernel, recurrent_kernel, bias)
    return dict(zip(("Wxh", "Whh", "bh"), weights))
