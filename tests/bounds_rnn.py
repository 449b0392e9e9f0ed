"""Error bounds of a whole sequence's values and gradients."""

import numpy as np
from bounds import Bounded, concatenate, stack


def _where(rows, new, old):
    """Rows of new where rows says so, else of old."""
    return Bounded(
        np.where(rows, new.value, old.value), new.dtype,
        np.where(rows, new.spread, old.spread),
    )


def _slope(y):
    """The derivative of sigmoid by its value."""
    return y * (1.0 - y)


class _Weights:
    """A cell's weights and recurrent dropout, gate by gate."""

    def __init__(self, cell, dtype, kernel, recurrent_kernel, bias, dropout):
        def bounded(array):
            return None if array is None else Bounded(array, dtype)

        units = len(recurrent_kernel)
        self.gates = cell.gates
        self.columns = [
            slice(g * units, (g + 1) * units) for g in range(cell.gates)
        ]
        self.kernel = bounded(kernel)
        recurrent = bounded(recurrent_kernel)
        self.recurrent = [recurrent[:, columns] for columns in self.columns]
        self.bias = bounded(bias)
        self.two_biases = bool(cell.options.get("reset_after"))
        self.drop = [1.0] * cell.gates
        if dropout is not None:
            masks = np.repeat(dropout, cell.gates // len(dropout), 0)
            self.drop = [bounded(mask) for mask in masks]

    def inputs(self, x):
        """x K + b of each gate."""
        x_bar = x @ self.kernel
        if self.bias is not None:
            x_bar = x_bar + (self.bias[0] if self.two_biases else self.bias)
        return [x_bar[:, columns] for columns in self.columns]

    def product(self, h, gate):
        result = (h * self.drop[gate]) @ self.recurrent[gate]
        if self.bias is None or not self.two_biases:
            return result
        return result + self.bias[1][self.columns[gate]]

    def sums(self, x, h):
        return [
            x_bar + self.product(h, gate)
            for gate, x_bar in enumerate(self.inputs(x))
        ]

    def back(self, d, gate):
        return (d @ self.recurrent[gate].T) * self.drop[gate]

    def operands(self, h):
        return [h * drop for drop in self.drop]


# A cell is two functions. Forward, from x and the states before: what is kept
# for the gradient, and the new states. Backward, from the states before and
# after and what was kept, all as they were stored, and what arrives at the
# states: gradients before the activations, what entered the recurrent products
# and what arrives at these, and what the states before get.


def _gru(weights, x, states):
    h = states["h"]
    x_z, x_r, x_c = weights.inputs(x)
    z = (x_z + weights.product(h, 0)).sigmoid()
    r = (x_r + weights.product(h, 1)).sigmoid()
    if weights.two_biases:
        s = weights.product(h, 2)
        c = (x_c + r * s).tanh()
    else:
        s = r  # Nothing reads it.
        c = (x_c + weights.product(r * h, 2)).tanh()
    return [z, r, c, s], {"h": z * h + (1.0 - z) * c}


def _gru_back(weights, before, after, kept, d):
    h, (z, r, c, s), d_h = before["h"], kept, d["h"]
    d_c = (d_h * (1.0 - z)) * (1.0 - c * c)
    d_z = (d_h * (h - c)) * _slope(z)
    left = weights.operands(h)
    if weights.two_biases:
        d_s = d_c * r
        d_r = (d_c * s) * _slope(r)
        through = weights.back(d_s, 2)
    else:
        d_s = d_c
        d_p = weights.back(d_c, 2)
        d_r = (d_p * h) * _slope(r)
        through = d_p * r
        left[2] = (r * h) * weights.drop[2]
    d_before = (
        d_h * z + through + weights.back(d_z, 0) + weights.back(d_r, 1)
    )
    return [d_z, d_r, d_c], left, [d_z, d_r, d_s], {"h": d_before}


def _lstm(weights, x, states):
    i, f, j, o = weights.sums(x, states["h"])
    i, f, j, o = i.sigmoid(), f.sigmoid(), j.tanh(), o.sigmoid()
    c = f * states["c"] + i * j
    return [i, f, j, o], {"h": o * c.tanh(), "c": c}


def _lstm_back(weights, before, after, kept, d):
    i, f, j, o = kept
    y = after["c"].tanh()
    d_c = d["c"] + (d["h"] * o) * (1.0 - y * y)
    d_gates = [
        (d_c * j) * _slope(i), (d_c * before["c"]) * _slope(f),
        (d_c * i) * (1.0 - j * j), (d["h"] * y) * _slope(o),
    ]
    first, *others = (weights.back(g, k) for k, g in enumerate(d_gates))
    d_before = {"h": sum(others, first), "c": d_c * f}
    return d_gates, weights.operands(before["h"]), d_gates, d_before


def _simple_rnn(weights, x, states):
    (h,) = weights.sums(x, states["h"])
    return [], {"h": h.tanh()}


def _simple_rnn_back(weights, before, after, kept, d):
    h = after["h"]
    d_gate = d["h"] * (1.0 - h * h)
    d_before = {"h": weights.back(d_gate, 0)}
    return [d_gate], weights.operands(before["h"]), [d_gate], d_before


_FUNCTIONS = {
    "gru": (_gru, _gru_back),
    "lstm": (_lstm, _lstm_back),
    "simple_rnn": (_simple_rnn, _simple_rnn_back),
}


class BoundedRnn:
    """A sequence and its gradient with tanh and sigmoid, bounded.

    The carried states and their gradients are computed without rounding to the
    stored type; what the gradient reads again was stored.
    """

    def __init__(
        self, cell, dtype, x, h0, kernel, recurrent_kernel, bias, mask=None,
        recurrent_dropout_mask=None, *, c0=None,
    ):
        batch, steps, _ = x.shape
        units = len(recurrent_kernel)
        self._cell, self._dtype = cell, dtype
        forward, self._backward = _FUNCTIONS[cell.name]
        self._x = Bounded(np.nan_to_num(x.astype(np.float64)), dtype)
        self._weights = _Weights(
            cell, dtype, kernel, recurrent_kernel, bias, recurrent_dropout_mask
        )
        self._mask = np.ones((batch, steps), bool) if mask is None else mask
        zeros = Bounded(np.zeros((batch, units)), dtype)
        firsts = {"h": h0, "c": c0}
        states = {
            name: zeros if firsts[name] is None
            else Bounded(firsts[name], dtype)
            for name in cell.states
        }
        self._before, self._kept, self._after, self.outputs = [], [], [], []
        stored, output = dict(states), zeros
        for t in range(steps):
            kept, new = forward(self._weights, self._x[:, t], states)
            rows = self._mask[:, t, np.newaxis]
            after = {name: value.stored() for name, value in new.items()}
            self._before.append(dict(stored))
            self._kept.append([value.stored() for value in kept])
            self._after.append(after)
            for name in cell.states:
                states[name] = _where(rows, new[name], states[name])
                stored[name] = _where(rows, after[name], stored[name])
            output = _where(rows, after["h"], output)
            self.outputs.append(output)
        self.states = {name: value.stored() for name, value in states.items()}

    def gradients(self, d_outputs, *d_states) -> dict:
        """By the names of the arguments; without steps, the states' alone."""
        weights = self._weights
        gates = range(weights.gates)
        zeros = Bounded(np.zeros_like(d_states[0], np.float64), self._dtype)
        repeated = zeros
        d = {
            name: Bounded(value, self._dtype)
            for name, value in zip(self._cell.states, d_states)
        }
        d_x, d_bars = [], []
        lefts, rights = [[] for _ in gates], [[] for _ in gates]
        for t in reversed(range(len(self.outputs))):
            rows = self._mask[:, t, np.newaxis]
            arrived = Bounded(d_outputs[:, t], self._dtype)
            bars, left, right, before = self._backward(
                weights, self._before[t], self._after[t], self._kept[t],
                {**d, "h": d["h"] + repeated + arrived},
            )
            d = {name: _where(rows, before[name], d[name]) for name in d}
            repeated = _where(rows, zeros, repeated + arrived)
            bars, right = (
                [_where(rows, value.stored(), zeros) for value in values]
                for values in (bars, right)
            )
            d_bars.append(concatenate(bars))
            d_x.insert(0, (d_bars[-1] @ weights.kernel.T).stored())
            for g in gates:
                lefts[g].append(left[g])
                rights[g].append(right[g])
        result = {name + "0": value.stored() for name, value in d.items()}
        if not self.outputs:
            return result
        times = list(reversed(range(len(self.outputs))))
        x = concatenate([self._x[:, t] for t in times], 0)
        bars = concatenate(d_bars, 0)
        rights = [concatenate(right, 0) for right in rights]
        result["x"] = stack(d_x, 1)
        result["kernel"] = (x.T @ bars).stored()
        result["recurrent_kernel"] = concatenate([
            (concatenate(left, 0).T @ right).stored()
            for left, right in zip(lefts, rights)
        ])
        d_bias = bars.sum()
        if weights.two_biases:
            d_recurrent = concatenate([right.sum() for right in rights])
            d_bias = stack([d_bias, d_recurrent])
        result["bias"] = d_bias.stored()
        return result
