"""Error bounds of the block cells' values and gradients."""

import numpy as np
from bounds import Bounded, bounded_cell, bounded_cell_grad, concatenate


def bounds_of(cell, dtype, values):
    """A bound for each output of the cell, in order."""
    if cell.cell == "gru":
        return bounded_cell(dtype, **values)
    return _Lstm(dtype, **values, **cell.options).outputs


def grad_bounds_of(cell, dtype, values, incoming):
    """Bounds for what ``reference`` names."""
    if cell.cell == "gru":
        return bounded_cell_grad(dtype, **values, **incoming)
    return _Lstm(dtype, **values, **cell.options).gradients(**incoming)


def block_lstm_bounds(dtype, steps, x, cs_prev, h_prev, order, **arguments):
    """Bounds of BlockLSTM's outputs by step; each a list in order."""
    c, h = Bounded(cs_prev, dtype), Bounded(h_prev, dtype)
    results = []
    for t in range(steps):
        step = _Lstm(dtype, x[t], c, h, order=order, **arguments)
        # The states are carried as they are computed.
        c, h = step.c, step.h
        results.append(step.outputs)
    return results


class _Lstm:
    """One step; `order` names the columns of w."""

    def __init__(
        self, dtype, x, cs_prev, h_prev, w, b, wci=None, wcf=None, wco=None, *,
        order=("i", "ci", "f", "o"), forget_bias=1.0, cell_clip,
        use_peephole=False,
    ):
        self.dtype, self.clip = dtype, cell_clip
        self.x, self.c_prev, self.h_prev, self.w, b = (
            self.bounded(a) for a in (x, cs_prev, h_prev, w, b)
        )
        self.peepholes = None
        bars = concatenate([self.x, self.h_prev]) @ self.w + b
        columns = np.split(np.arange(bars.value.shape[1]), 4)
        i, ci, f, o = (
            bars[:, columns[order.index(name)]]
            for name in ("i", "ci", "f", "o")
        )
        f = f + forget_bias
        if use_peephole:
            self.peepholes = [self.bounded(p) for p in (wci, wcf, wco)]
            i = i + self.c_prev * self.peepholes[0]
            f = f + self.c_prev * self.peepholes[1]
        i, f, ci = i.sigmoid(), f.sigmoid(), ci.tanh()
        c = i * ci + f * self.c_prev
        self.sum = c.stored()
        if self.clip > 0:
            # Cutting off makes no error larger.
            value = np.clip(c.value, -self.clip, self.clip)
            c = Bounded(value, dtype, c.spread)
        if use_peephole:
            o = o + c * self.peepholes[2]
        o, co = o.sigmoid(), c.tanh()
        self.c, self.h = c, o * co
        values = (i, c, f, o, ci, co, self.h)
        self.outputs = [value.stored() for value in values]

    def bounded(self, value):
        if isinstance(value, Bounded):
            return value
        return Bounded(value, self.dtype)

    def pass_on(self, d_c):
        """What gets through where the cell state was cut off."""
        if not self.clip > 0:
            return d_c
        distance = np.abs(self.sum.value) - self.clip
        value = np.where(distance >= 0, 0.0, d_c.value)
        spread = np.where(distance >= 0, 0.0, d_c.spread)
        # So near to the bound the kernel may see it on the other side.
        unclear = np.abs(distance) <= self.sum.tolerance
        spread = np.where(
            unclear, np.hypot(d_c.spread, d_c.value), spread
        )
        return Bounded(value, self.dtype, spread)

    def gradients(self, d_i, d_cs, d_f, d_o, d_ci, d_co, d_h):
        i, c, f, o, ci, *_ = self.outputs
        d_i, d_cs, d_f, d_o, d_ci, d_co, d_h = (
            self.bounded(d) for d in (d_i, d_cs, d_f, d_o, d_ci, d_co, d_h)
        )
        co = c.tanh()
        o_bar = (d_o + d_h * co) * (o * (1.0 - o))
        d_s = (d_co + d_h * o) * (1.0 - co * co) + d_cs
        if self.peepholes:
            d_s = d_s + o_bar * self.peepholes[2]
        d_s = self.pass_on(d_s)
        i_bar = (d_i + d_s * ci) * (i * (1.0 - i))
        f_bar = (d_f + d_s * self.c_prev) * (f * (1.0 - f))
        ci_bar = (d_ci + d_s * i) * (1.0 - ci * ci)
        before = d_s * f
        if self.peepholes:
            before = (
                before + i_bar * self.peepholes[0] + f_bar * self.peepholes[1]
            )
        bars = [bar.stored() for bar in (i_bar, ci_bar, f_bar, o_bar)]
        gates_bar = concatenate(bars)
        d_x_h = gates_bar @ self.w.T
        inputs = self.x.value.shape[1]
        result = {
            "x": d_x_h[:, :inputs], "cs_prev": before,
            "h_prev": d_x_h[:, inputs:],
            "w": concatenate([self.x, self.h_prev]).T @ gates_bar,
            "b": gates_bar.sum(), "gates_bar": gates_bar,
        }
        if self.peepholes:
            result["wci"] = (bars[0] * self.c_prev).sum()
            result["wcf"] = (bars[2] * self.c_prev).sum()
            result["wco"] = (bars[3] * c).sum()
        return {name: value.stored() for name, value in result.items()}
