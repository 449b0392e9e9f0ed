"""The gated recurrent unit in plain NumPy float64: what every kernel is tested
against. Written for reading, not for speed; it shares no code with csrc.

The formulas of one step, forward and backward, and their derivation are in
``_reference_cell``; this file runs them over a sequence.

    >>> from fused_rnn import reference
    >>> import numpy as np
    >>> x, h0 = np.ones((2, 5, 3)), np.zeros((2, 4))
    >>> kernel, recurrent = np.ones((3, 12)), np.ones((4, 12))
    >>> outputs, state = reference.gru(x, h0, kernel, recurrent,
    ...                                reset_after=True)
    >>> outputs.shape, state.shape
    ((2, 5, 4), (2, 4))
"""

import numpy as np

from fused_rnn._reference_cell import (
    ACTIVATIONS,
    BlockCellOutput,
    CellOutput,
    as_float64,
    gru_block_cell,
    gru_block_cell_grad,
    gru_cell,
    gru_cell_grad,
)

__all__ = [
    "ACTIVATIONS", "BlockCellOutput", "CellOutput", "gru", "gru_block_cell",
    "gru_block_cell_grad", "gru_cell", "gru_cell_grad", "gru_grad",
]


def _steps(x, mask, go_backwards):
    """Pairs (time, rows that are valid at it) in processing order."""
    batch, steps = x.shape[:2]
    if mask is None:
        mask = np.ones((batch, steps), bool)
    mask = np.asarray(mask, bool)
    order = range(steps - 1, -1, -1) if go_backwards else range(steps)
    return [(time, np.flatnonzero(mask[:, time])) for time in order]


def _rows(recurrent_dropout_mask, rows):
    if recurrent_dropout_mask is None:
        return None
    return recurrent_dropout_mask[:, rows]


def gru(
    x, h0, kernel, recurrent_kernel, bias=None, *, reset_after, mask=None,
    go_backwards=False, zero_output_for_mask=False, activation="tanh",
    recurrent_activation="sigmoid", recurrent_dropout_mask=None,
    return_cache=False,
):
    """A whole sequence, with Keras' meaning of every option.

    Masked steps: nothing is computed, the state is carried, the output repeats
    the output of the step processed before it (zeros if there is none) or is
    zero with zero_output_for_mask. Whatever lies in x there reaches nothing. A
    row that is masked everywhere has zeros as outputs and h0 as its state.

    Args:
      x: [B, T, I].
      h0: [B, H], or None for zeros.
      kernel, recurrent_kernel, bias, reset_after, activation,
        recurrent_activation, recurrent_dropout_mask: as in ``gru_cell``; the
        dropout mask is the same at every step.
      mask: [B, T], true where the step counts; or None.
      go_backwards: process the last step first. Outputs are in processing
        order: outputs[:, 0] belongs to x[:, T−1].
      zero_output_for_mask: see above.
      return_cache: also return what a backward pass would keep.

    Returns:
      (outputs [B, T, H], state [B, H]) in float64, and with return_cache a dict
      "z", "r", "c" and, with reset_after, "s", each [B, T, H] in processing
      order, zero at masked steps.
    """
    x, h0, kernel, recurrent_kernel, bias, dropout = as_float64(
        x, h0, kernel, recurrent_kernel, bias, recurrent_dropout_mask
    )
    units = recurrent_kernel.shape[0]
    shape = x.shape[:2] + (units,)
    h = np.zeros((x.shape[0], units)) if h0 is None else h0.copy()
    outputs = np.zeros(shape)
    cache = {name: np.zeros(shape) for name in ("z", "r", "c", "s")}
    if not reset_after:
        del cache["s"]

    for k, (time, rows) in enumerate(_steps(x, mask, go_backwards)):
        if k > 0 and not zero_output_for_mask:
            outputs[:, k] = outputs[:, k - 1]
        cell = gru_cell(
            x[rows, time], h[rows], kernel, recurrent_kernel, bias,
            reset_after=reset_after, activation=activation,
            recurrent_activation=recurrent_activation,
            recurrent_dropout_mask=_rows(dropout, rows),
        )
        h[rows] = cell.h
        outputs[rows, k] = cell.h
        for name, values in cache.items():
            values[rows, k] = getattr(cell, name)
    return (outputs, h, cache) if return_cache else (outputs, h)


def gru_grad(
    x, h0, kernel, recurrent_kernel, bias=None, *, d_outputs=None,
    d_state=None, d_cache=None, reset_after, mask=None, go_backwards=False,
    zero_output_for_mask=False, activation="tanh",
    recurrent_activation="sigmoid", recurrent_dropout_mask=None,
):
    """Gradient of ``gru``.

    The gradient of an output that repeats an earlier one belongs to that
    earlier one; of a zero output, to nobody.

    Args:
      d_outputs: [B, T, H] in processing order, or None for zeros.
      d_state: [B, H], or None for zeros.
      d_cache: gradients that arrive at the gates, a dict with any of "z", "r",
        "c", each [B, T, H] in processing order; or None.
      the others: as in ``gru``.

    Returns:
      A dict of float64 arrays: "x", "h0" (also when h0 is None), "kernel",
      "recurrent_kernel", "bias" (None when there is none), and the gradients
      before the activations, "z_bar", "r_bar", "c_bar" and, with reset_after,
      "s", each [B, T, H] in processing order, zero at masked steps.
    """
    x, h0, kernel, recurrent_kernel, bias, dropout, d_outputs, d_state = (
        as_float64(x, h0, kernel, recurrent_kernel, bias,
                   recurrent_dropout_mask, d_outputs, d_state)
    )
    units = recurrent_kernel.shape[0]
    shape = x.shape[:2] + (units,)
    h = np.zeros((x.shape[0], units)) if h0 is None else h0.copy()
    options = dict(
        reset_after=reset_after, activation=activation,
        recurrent_activation=recurrent_activation,
    )
    steps = _steps(x, mask, go_backwards)
    before = np.zeros((len(steps),) + h.shape)  # the state each step reads
    for k, (time, rows) in enumerate(steps):
        before[k] = h
        h[rows] = gru_cell(
            x[rows, time], h[rows], kernel, recurrent_kernel, bias, **options,
            recurrent_dropout_mask=_rows(dropout, rows),
        ).h

    names = ("z_bar", "r_bar", "c_bar") + (("s",) if reset_after else ())
    gates = {name: np.zeros(shape) for name in names}
    weights = {
        "kernel": np.zeros_like(kernel),
        "recurrent_kernel": np.zeros_like(recurrent_kernel),
        "bias": None if bias is None else np.zeros_like(bias),
    }
    d_x = np.zeros_like(x)
    d_h = np.zeros_like(h) if d_state is None else d_state.copy()
    d_output = np.zeros_like(h)  # waits for the step that made the output
    for k in reversed(range(len(steps))):
        time, rows = steps[k]
        if zero_output_for_mask:
            d_output[:] = 0.0
        if d_outputs is not None:
            d_output += d_outputs[:, k]
        arriving = {
            "d_" + name: np.asarray(values, np.float64)[rows, k]
            for name, values in (d_cache or {}).items()
        }
        step = gru_cell_grad(
            x[rows, time], before[k][rows], kernel, recurrent_kernel, bias,
            d_h=d_h[rows] + d_output[rows], **arriving, **options,
            recurrent_dropout_mask=_rows(dropout, rows),
        )
        d_h[rows] = step["h_prev"]
        d_output[rows] = 0.0
        d_x[rows, time] = step["x"]
        for name, values in gates.items():
            values[rows, k] = step[name]
        for name, total in weights.items():
            if total is not None:
                total += step[name]
    return {"x": d_x, "h0": d_h, **weights, **gates}
