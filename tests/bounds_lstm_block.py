"""Error bounds of the LSTM block cell's values and gradients."""

import numpy as np
from bounds import Bounded, concatenate


def _bounded(dtype, *arrays):
    return [None if a is None else Bounded(a, dtype) for a in arrays]


def _peep(p, cs, value):
    return value if p is None else value + p * cs


def _peepholes(inputs, use_peephole):
    names = ("wci", "wcf", "wco")
    return [inputs[name] if use_peephole else None for name in names]


def bounded_lstm_cell(
    dtype, x, cs_prev, h_prev, w, b, *, forget_bias, cell_clip, use_peephole,
    **peepholes,
):
    """Its seven outputs by name, each with its bound."""
    units = h_prev.shape[1]
    wci, wcf, wco = _bounded(dtype, *_peepholes(peepholes, use_peephole))
    x, cs_prev, h_prev, w, b = _bounded(dtype, x, cs_prev, h_prev, w, b)
    sums = concatenate([x, h_prev]) @ w + b
    i, ci, f, o = (sums[:, n * units:(n + 1) * units] for n in range(4))
    i = _peep(wci, cs_prev, i).sigmoid()
    f = _peep(wcf, cs_prev, f + forget_bias).sigmoid()
    ci = ci.tanh()
    cs = ci * i + cs_prev * f
    if cell_clip > 0:
        clipped = np.clip(cs.value, -cell_clip, cell_clip)
        cs = Bounded(clipped, dtype, cs.spread)
    o = _peep(wco, cs, o).sigmoid()
    co = cs.tanh()
    values = dict(i=i, cs=cs, f=f, o=o, ci=ci, co=co, h=co * o)
    return {name: value.stored() for name, value in values.items()}


def bounded_lstm_cell_grad(
    dtype, x, cs_prev, h_prev, w, b, *, d_i, d_cs, d_f, d_o, d_ci, d_co, d_h,
    forget_bias, cell_clip, use_peephole, **peepholes,
):
    """The gradients that ``reference.lstm_block_cell_grad`` names, bounded."""
    cell = bounded_lstm_cell(
        dtype, x, cs_prev, h_prev, w, b, **peepholes, forget_bias=forget_bias,
        cell_clip=cell_clip, use_peephole=use_peephole,
    )
    i, cs, f, o, ci = (cell[name] for name in ("i", "cs", "f", "o", "ci"))
    wci, wcf, wco = _bounded(dtype, *_peepholes(peepholes, use_peephole))
    x, cs_prev, h_prev, w = _bounded(dtype, x, cs_prev, h_prev, w)
    d_i, d_cs, d_f, d_o, d_ci, d_co, d_h = _bounded(
        dtype, d_i, d_cs, d_f, d_o, d_ci, d_co, d_h
    )
    inputs = x.value.shape[1]
    co = cs.tanh()
    o_bar = (d_o + d_h * co) * o * (1.0 - o)
    d_s = _peep(wco, o_bar, d_cs + (d_co + d_h * o) * (1.0 - co * co))
    if cell_clip > 0:
        d_s = d_s * (np.abs(cs.value) < cell_clip).astype(np.float64)
    i_bar = (d_i + d_s * ci) * i * (1.0 - i)
    f_bar = (d_f + d_s * cs_prev) * f * (1.0 - f)
    ci_bar = (d_ci + d_s * i) * (1.0 - ci * ci)
    gates = concatenate([i_bar, ci_bar, f_bar, o_bar]).stored()
    d_x_h = gates @ w.T
    result = {
        "x": d_x_h[:, :inputs],
        "cs_prev": _peep(wcf, f_bar, _peep(wci, i_bar, d_s * f)),
        "h_prev": d_x_h[:, inputs:],
        "w": concatenate([x, h_prev]).T @ gates,
        "b": gates.sum(),
        "gates_bar": gates,
    }
    if use_peephole:
        result["wci"] = (i_bar.stored() * cs_prev).sum()
        result["wcf"] = (f_bar.stored() * cs_prev).sum()
        result["wco"] = (o_bar.stored() * cs).sum()
    return {name: value.stored() for name, value in result.items()}
