"""Error bounds of a whole sequence's values and gradients."""

import numpy as np
from bounds import Bounded, concatenate, stack


def _cell_of_sequence(x, h, weights, dropout, reset_after):
    """z, r, c, s and the new state of some rows of one step."""
    kernel, recurrent, bias = weights
    units = h.value.shape[1]
    gates = [slice(g * units, (g + 1) * units) for g in range(3)]
    drop = dropout if dropout is not None else (1.0, 1.0, 1.0)
    x_bar = x @ kernel
    q = None
    if bias is not None:
        x_bar = x_bar + (bias[0] if reset_after else bias)
        q = bias[1] if reset_after else None

    def product(h, g):
        result = (h * drop[g]) @ recurrent[:, gates[g]]
        return result if q is None else result + q[gates[g]]

    z = (x_bar[:, gates[0]] + product(h, 0)).sigmoid()
    r = (x_bar[:, gates[1]] + product(h, 1)).sigmoid()
    if reset_after:
        s = product(h, 2)
        c = (x_bar[:, gates[2]] + r * s).tanh()
    else:
        s = None
        c = (x_bar[:, gates[2]] + product(r * h, 2)).tanh()
    return z, r, c, s, z * h + (1.0 - z) * c


def _where(rows, new, old):
    """Rows of new where rows says so, else of old."""
    return Bounded(
        np.where(rows, new.value, old.value), new.dtype,
        np.where(rows, new.spread, old.spread),
    )


class BoundedGru:
    """A sequence and its gradient with tanh and sigmoid, bounded.

    The carried state and its gradient are computed without rounding to the
    stored type; what the gradient reads again was stored.
    """

    def __init__(
        self, dtype, x, h0, kernel, recurrent_kernel, bias, mask=None,
        recurrent_dropout_mask=None, *, reset_after,
    ):
        def bounded(array):
            return None if array is None else Bounded(array, dtype)

        batch, steps, _ = x.shape
        units = recurrent_kernel.shape[0]
        self.dtype = dtype
        self.reset_after = reset_after
        self.x = bounded(np.nan_to_num(x.astype(np.float64)))
        self.weights = tuple(map(bounded, (kernel, recurrent_kernel, bias)))
        self.dropout = bounded(recurrent_dropout_mask)
        self.mask = np.ones((batch, steps), bool) if mask is None else mask
        zeros = Bounded(np.zeros((batch, units)), dtype)
        h = zeros if h0 is None else bounded(h0)
        self.h_prev, self.gates, self.outputs = [], [], []
        stored, output = h, zeros
        for t in range(steps):
            *gates, new = _cell_of_sequence(
                self.x[:, t], h, self.weights, self.dropout, reset_after
            )
            rows = self.mask[:, t, np.newaxis]
            self.h_prev.append(stored)
            self.gates.append([g if g is None else g.stored() for g in gates])
            h = _where(rows, new, h)
            stored = _where(rows, new.stored(), stored)
            output = _where(rows, new.stored(), output)
            self.outputs.append(output)
        self.state = h.stored()

    def gradients(self, d_outputs, d_state) -> dict:
        kernel, recurrent, bias = self.weights
        units = recurrent.value.shape[0]
        gate = [slice(g * units, (g + 1) * units) for g in range(3)]
        drop = self.dropout if self.dropout is not None else (1.0, 1.0, 1.0)
        zeros = Bounded(np.zeros_like(d_state, np.float64), self.dtype)
        d_h, repeated = Bounded(d_state, self.dtype), zeros
        d_x, lefts, rights = [], [[], [], [], []], [[], [], [], []]

        def back(d, g):
            return (d @ recurrent[:, gate[g]].T) * drop[g]

        for t in reversed(range(len(self.outputs))):
            rows = self.mask[:, t, np.newaxis]
            h = self.h_prev[t]
            z, r, c, s = self.gates[t]
            arrived = Bounded(d_outputs[:, t], self.dtype)
            total = d_h + repeated + arrived
            d_c = (total * (1.0 - z)) * (1.0 - c * c)
            d_z = (total * (h - c)) * (z * (1.0 - z))
            if self.reset_after:
                d_s = d_c * r
                d_r = (d_c * s) * (r * (1.0 - r))
                through, left = back(d_s, 2), h * drop[2]
            else:
                d_s = d_c
                d_p = back(d_c, 2)
                d_r = (d_p * h) * (r * (1.0 - r))
                through, left = d_p * r, (r * h) * drop[2]
            before = total * z + through + back(d_z, 0) + back(d_r, 1)
            d_h = _where(rows, before, d_h)
            repeated = _where(rows, zeros, repeated + arrived)
            d_z, d_r, d_c, d_s = (
                _where(rows, d.stored(), zeros) for d in (d_z, d_r, d_c, d_s)
            )
            d_gates = concatenate([d_z, d_r, d_c])
            d_x.insert(0, (d_gates @ kernel.T).stored())
            for lists, values in (
                (lefts, (self.x[:, t], h * drop[0], h * drop[1], left)),
                (rights, (d_gates, d_z, d_r, d_s)),
            ):
                for values_of, value in zip(lists, values):
                    values_of.append(value)

        def product(g):
            return (
                concatenate(lefts[g], 0).T @ concatenate(rights[g], 0)
            ).stored()

        result = {"h0": d_h.stored()}
        if not self.outputs:
            return result
        result["x"] = stack(d_x, 1)
        result["kernel"] = product(0)
        result["recurrent_kernel"] = concatenate(
            [product(g) for g in (1, 2, 3)]
        )
        if bias is not None:
            d_bias = concatenate(rights[0], 0).sum()
            if self.reset_after:
                d_recurrent = concatenate(
                    [concatenate(rights[g], 0).sum() for g in (1, 2, 3)]
                )
                d_bias = stack([d_bias, d_recurrent])
            result["bias"] = d_bias.stored()
        return result
