"""The time loop of the oracle's sequences, forward and backward, once for all
cells. What its options mean is in ``sequences``.

Gradients. Step t reads the states that step t−1 wrote, so what arrives at a
state is the sum of what the caller sends and of what step t+1 sends back; the
gradients of the weights are sums over the steps. The gradient of an output
that repeats an earlier one belongs to that earlier one; of a zero output, to
nobody.
"""

from typing import Callable, NamedTuple

import numpy as np

from fused_rnn.reference.common import as_float64


class Cell(NamedTuple):
    """What the time loop knows of a cell.

    forward(x, *states, *weights, **options) gives a named tuple with the new
    states and all of kept; backward(the same, d_h=..., ...) a dict with "x",
    each state's name and "_prev", weights and bars. The state h is the output.
    """

    forward: Callable
    backward: Callable
    states: tuple  # names, in the order of the arguments
    kept: tuple  # what a kernel's backward pass reads again
    bars: tuple  # gradients before the activations
    weights: tuple = ("kernel", "recurrent_kernel", "bias")


def _steps(x, mask, go_backwards):
    """Pairs (time, rows that are valid at it) in processing order."""
    batch, steps = x.shape[:2]
    if mask is None:
        mask = np.ones((batch, steps), bool)
    mask = np.asarray(mask, bool)
    if mask.shape != (batch, steps):
        raise ValueError(
            f"mask: expected shape {(batch, steps)}, got {mask.shape}"
        )
    order = range(steps - 1, -1, -1) if go_backwards else range(steps)
    return [(time, np.flatnonzero(mask[:, time])) for time in order]


def _of_rows(options, recurrent_dropout_mask, rows):
    """A cell's options for some rows of the batch."""
    if recurrent_dropout_mask is None:
        return options
    dropout = np.asarray(recurrent_dropout_mask)[:, rows]
    return {**options, "recurrent_dropout_mask": dropout}


def run(
    cell, x, states, weights, *, mask=None, go_backwards=False,
    zero_output_for_mask=False, recurrent_dropout_mask=None, **options,
):
    """The steps of a sequence in order.

    Args:
      cell: a Cell.
      x: [B, T, I].
      states: the arrays of cell.states, each [B, H].
      weights: those of cell.weights.
      the others: options; see ``sequences``.

    Returns:
      outputs [B, T, H]; the last states, a dict of [B, H]; the values that
      cell.kept names, a dict of [B, T, H], zero at masked steps; and the
      states that each step reads, a list of dicts.
    """
    x, *arrays = as_float64(x, *states)
    states = {name: a.copy() for name, a in zip(cell.states, arrays)}
    shape = x.shape[:2] + states["h"].shape[1:]
    outputs = np.zeros(shape)
    cache = {name: np.zeros(shape) for name in cell.kept}
    before = []
    for k, (time, rows) in enumerate(_steps(x, mask, go_backwards)):
        before.append({name: a.copy() for name, a in states.items()})
        if k > 0 and not zero_output_for_mask:
            outputs[:, k] = outputs[:, k - 1]
        new = cell.forward(
            x[rows, time], *[a[rows] for a in states.values()], *weights,
            **_of_rows(options, recurrent_dropout_mask, rows),
        )
        for name, a in states.items():
            a[rows] = getattr(new, name)
        outputs[rows, k] = new.h
        for name, values in cache.items():
            values[rows, k] = getattr(new, name)
    return outputs, states, cache, before


def run_grad(
    cell, x, states, weights, *, d_outputs, d_states, d_cache=None, mask=None,
    go_backwards=False, zero_output_for_mask=False,
    recurrent_dropout_mask=None, **options,
):
    """Gradient of ``run``: its steps in reverse order.

    Args:
      d_outputs: [B, T, H] in processing order, or None for zeros.
      d_states: what arrives at the last states, a [B, H] or None for each.
      d_cache: what arrives at each step's values, a dict from names in
        cell.kept (for a GRU not "s") to [B, T, H] in processing order; or
        None.
      the others: as in ``run``.

    Returns:
      A dict of float64 arrays: "x", each state's name and "_prev" (the
      gradient of the first state), cell.weights (None where the weight is) and
      cell.bars, each [B, T, H] in processing order, zero at masked steps.
    """
    x, d_outputs, *arrays = as_float64(x, d_outputs, *states)
    d_cache = {
        name: np.asarray(values, np.float64)
        for name, values in (d_cache or {}).items()
    }
    steps = _steps(x, mask, go_backwards)
    before = run(
        cell, x, states, weights, mask=mask, go_backwards=go_backwards,
        zero_output_for_mask=zero_output_for_mask,
        recurrent_dropout_mask=recurrent_dropout_mask, **options,
    )[3]
    d_states = {
        name: np.zeros_like(a) if d is None else np.array(d, np.float64)
        for name, a, d in zip(cell.states, arrays, d_states)
    }
    totals = {
        name: None if weight is None else np.zeros(np.shape(weight))
        for name, weight in zip(cell.weights, weights)
    }
    bars = {
        name: np.zeros(x.shape[:2] + arrays[0].shape[1:]) for name in cell.bars
    }
    d_x = np.zeros_like(x)
    d_output = np.zeros_like(arrays[0])  # waits for the step that made it
    for k in reversed(range(len(steps))):
        time, rows = steps[k]
        if zero_output_for_mask:
            d_output[:] = 0.0
        if d_outputs is not None:
            d_output += d_outputs[:, k]
        arriving = {"d_" + name: d[rows, k] for name, d in d_cache.items()}
        for name, d in d_states.items():
            arriving["d_" + name] = arriving.get("d_" + name, 0.0) + d[rows]
        arriving["d_h"] = arriving["d_h"] + d_output[rows]
        step = cell.backward(
            x[rows, time], *[a[rows] for a in before[k].values()], *weights,
            **arriving, **_of_rows(options, recurrent_dropout_mask, rows),
        )
        d_output[rows] = 0.0
        d_x[rows, time] = step["x"]
        for name, d in d_states.items():
            d[rows] = step[name + "_prev"]
        for name, values in bars.items():
            values[rows, k] = step[name]
        for name, total in totals.items():
            if total is not None:
                total += step[name]
    firsts = {name + "_prev": d for name, d in d_states.items()}
    return {"x": d_x, **firsts, **totals, **bars}
