"""TensorFlow's block LSTM (LSTMBlockCell, BlockLSTMV2) and its gradient.

Notation and rules are those of ``common``. Outputs have TensorFlow's names:
i, f, o are gates, ci the candidate, cs the cell state, co = tanh(cs).

    [ī c̄ī f̄ ō] = [x h_prev]·w + b       LSTMBlockCell;  BlockLSTMV2: ī f̄ c̄ī ō
    i  = σ(ī + wci∘cs_prev)
    f  = σ(f̄ + forget_bias + wcf∘cs_prev)
    ci = tanh(c̄ī)
    s  = ci∘i + cs_prev∘f
    cs = s clipped to [−cell_clip, cell_clip], as it is if cell_clip ≤ 0
    o  = σ(ō + wco∘cs)
    co = tanh(cs)        h = co∘o

The terms with wci, wcf and wco are the peepholes, left out without
use_peephole; the output gate looks at the new state after clipping.

Derivation of the gradient, for gradients that arrive at all seven outputs.
Backwards through the list: h = co∘o gives

    d_o* = d_o + d_h∘co          d_co* = d_co + d_h∘o
    d_ō  = d_o*∘o∘(1−o)

cs is read by co, by the output gate's peephole, and outside:

    d_cs* = d_cs + d_co*∘(1−co²) + d_ō∘wco

Clipping passes on nothing where it acts: d_s = 0 where |cs| ≥ cell_clip, else
d_cs*; so at the bound itself the slope is 0, as that of hard_sigmoid is.
TensorFlow's own LSTMBlockCellGrad and BlockLSTMGrad ignore the clipping
(d_s = d_cs* everywhere), which differences of the forward pass contradict.
s = ci∘i + cs_prev∘f gives

    d_ī = (d_i + d_s∘ci) ∘ i∘(1−i)     d_f̄ = (d_f + d_s∘cs_prev) ∘ f∘(1−f)
    d_c̄ī = (d_ci + d_s∘i) ∘ (1−ci²)
    d_cs_prev = d_s∘f + d_ī∘wci + d_f̄∘wcf

and with D = [d_ī d_c̄ī d_f̄ d_ō] in the order of w

    [d_x d_h_prev] = D·wᵀ     d_w = [x h_prev]ᵀ·D     d_b = Σ_batch D
    d_wci = Σ_batch d_ī∘cs_prev   d_wcf = Σ_batch d_f̄∘cs_prev
    d_wco = Σ_batch d_ō∘cs
"""

from typing import NamedTuple

import numpy as np

from fused_rnn.reference.common import as_float64, sigmoid

# Which columns of w each op gives to which gate.
_ORDERS = {
    "LSTMBlockCell": ("i", "ci", "f", "o"),
    "BlockLSTMV2": ("i", "f", "ci", "o"),
}


class LstmBlockCellOutput(NamedTuple):
    """The seven outputs of LSTMBlockCell in its order, each [B, H]."""

    i: np.ndarray
    cs: np.ndarray
    f: np.ndarray
    o: np.ndarray
    ci: np.ndarray
    co: np.ndarray
    h: np.ndarray


def _peepholes(wci, wcf, wco, use_peephole):
    return (wci, wcf, wco) if use_peephole else (0.0, 0.0, 0.0)


def lstm_block_cell(
    x, cs_prev, h_prev, w, wci, wcf, wco, b, *, forget_bias=1.0, cell_clip=3.0,
    use_peephole=False, layout="LSTMBlockCell",
):
    """One step of TensorFlow's LSTMBlockCell, with its defaults.

    Args:
      x: [B, I].
      cs_prev, h_prev: [B, H].
      w: [I + H, 4H], columns in the order of the layout.
      wci, wcf, wco: [H]; not read without use_peephole.
      b: [4H].
      forget_bias: added to the forget gate before its activation.
      cell_clip: bound of |cs|; none if it is not positive.
      use_peephole: whether the gates see the cell state.
      layout: "LSTMBlockCell" (i|ci|f|o) or "BlockLSTMV2" (i|f|ci|o).

    Returns:
      LstmBlockCellOutput(i, cs, f, o, ci, co, h) in float64.
    """
    x, cs_prev, h_prev, w, wci, wcf, wco, b = as_float64(
        x, cs_prev, h_prev, w, wci, wcf, wco, b
    )
    wci, wcf, wco = _peepholes(wci, wcf, wco, use_peephole)
    sums = np.concatenate([x, h_prev], axis=1) @ w + b
    bars = dict(zip(_ORDERS[layout], np.split(sums, 4, axis=1)))
    i = sigmoid(bars["i"] + wci * cs_prev)
    f = sigmoid(bars["f"] + forget_bias + wcf * cs_prev)
    ci = np.tanh(bars["ci"])
    cs = ci * i + cs_prev * f
    if cell_clip > 0:
        cs = np.clip(cs, -cell_clip, cell_clip)
    o = sigmoid(bars["o"] + wco * cs)
    co = np.tanh(cs)
    return LstmBlockCellOutput(i, cs, f, o, ci, co, co * o)


def lstm_block_cell_grad(
    x, cs_prev, h_prev, w, wci, wcf, wco, b, *, d_i=0.0, d_cs=0.0, d_f=0.0,
    d_o=0.0, d_ci=0.0, d_co=0.0, d_h=0.0, forget_bias=1.0, cell_clip=3.0,
    use_peephole=False, layout="LSTMBlockCell",
):
    """Gradient of ``lstm_block_cell`` for gradients of all seven outputs.

    Args:
      d_i, d_cs, d_f, d_o, d_ci, d_co, d_h: [B, H], or 0 where nothing arrives.
      the others: as in ``lstm_block_cell``.

    Returns:
      A dict of float64 arrays: the gradient of each input under its name (of
      wci, wcf and wco zeros without use_peephole), and "gates_bar" [B, 4H],
      the gradients before the activations in the order of w.
    """
    x, cs_prev, h_prev, w, wci, wcf, wco, b = as_float64(
        x, cs_prev, h_prev, w, wci, wcf, wco, b
    )
    d_i, d_cs, d_f, d_o, d_ci, d_co, d_h = as_float64(
        d_i, d_cs, d_f, d_o, d_ci, d_co, d_h
    )
    i, cs, f, o, ci, co, _ = lstm_block_cell(
        x, cs_prev, h_prev, w, wci, wcf, wco, b, forget_bias=forget_bias,
        cell_clip=cell_clip, use_peephole=use_peephole, layout=layout,
    )
    wci, wcf, wco = _peepholes(wci, wcf, wco, use_peephole)

    o_bar = (d_o + d_h * co) * o * (1.0 - o)
    d_s = d_cs + (d_co + d_h * o) * (1.0 - co * co) + o_bar * wco
    if cell_clip > 0:
        d_s = np.where(np.abs(cs) >= cell_clip, 0.0, d_s)
    bars = {
        "i": (d_i + d_s * ci) * i * (1.0 - i),
        "ci": (d_ci + d_s * i) * (1.0 - ci * ci),
        "f": (d_f + d_s * cs_prev) * f * (1.0 - f),
        "o": o_bar,
    }
    gates_bar = np.concatenate([bars[n] for n in _ORDERS[layout]], axis=1)
    inputs, seen = x.shape[1], 1.0 if use_peephole else 0.0
    d_x_h = gates_bar @ w.T
    return {
        "x": d_x_h[:, :inputs],
        "cs_prev": d_s * f + bars["i"] * wci + bars["f"] * wcf,
        "h_prev": d_x_h[:, inputs:],
        "w": np.concatenate([x, h_prev], axis=1).T @ gates_bar,
        "wci": seen * (bars["i"] * cs_prev).sum(axis=0),
        "wcf": seen * (bars["f"] * cs_prev).sum(axis=0),
        "wco": seen * (bars["o"] * cs).sum(axis=0),
        "b": gates_bar.sum(axis=0),
        "gates_bar": gates_bar,
    }
