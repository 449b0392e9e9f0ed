"""Whole sequences of the oracle's cells: the time loop is in ``time_loop``.

A sequence takes the arguments of its cell, with x [B, T, I] and the states at
the start, and these options, which mean what they mean to Keras:

    mask: [B, T], true where the step counts; or None. At a masked step nothing
      is computed: the states are carried, the output repeats the output of the
      step processed before it (zeros if there is none) or is zero with
      zero_output_for_mask. Whatever lies in x there reaches nothing. A row
      that is masked everywhere has zeros as outputs and keeps its states.
    go_backwards: process the last step first. Outputs are in processing order:
      outputs[:, 0] belongs to x[:, T−1].
    zero_output_for_mask: see mask.
    recurrent_dropout_mask: as in the cell; the same at every step.
    the other options of the cell, such as activation.
"""

import numpy as np

from fused_rnn.reference.cell_gru import gru_cell, gru_cell_grad
from fused_rnn.reference.cell_lstm import lstm_cell, lstm_cell_grad
from fused_rnn.reference.cell_lstm_block import (
    LstmBlockCellOutput, lstm_block_cell, lstm_block_cell_grad,
)
from fused_rnn.reference.cell_simple_rnn import (
    simple_rnn_cell, simple_rnn_cell_grad,
)
from fused_rnn.reference.time_loop import Cell, run, run_grad

SIMPLE_RNN = Cell(
    simple_rnn_cell, simple_rnn_cell_grad, ("h",), (), ("h_bar",)
)
# By reset_after.
GRU = {
    False: Cell(
        gru_cell, gru_cell_grad, ("h",), ("z", "r", "c"),
        ("z_bar", "r_bar", "c_bar"),
    ),
    True: Cell(
        gru_cell, gru_cell_grad, ("h",), ("z", "r", "c", "s"),
        ("z_bar", "r_bar", "c_bar", "s"),
    ),
}
LSTM = Cell(
    lstm_cell, lstm_cell_grad, ("h", "c"), ("i", "f", "g", "o", "c"),
    ("i_bar", "f_bar", "g_bar", "o_bar"),
)
LSTM_BLOCK = Cell(
    lstm_block_cell, lstm_block_cell_grad, ("cs", "h"),
    ("i", "cs", "f", "o", "ci", "co"), (),
    ("w", "wci", "wcf", "wco", "b"),
)


def _first_states(x, states, recurrent_kernel):
    """Zeros for the states that are None."""
    shape = (np.shape(x)[0], np.shape(recurrent_kernel)[0])
    return [np.zeros(shape) if state is None else state for state in states]


def _keras(cell, x, states, weights, **options):
    """Outputs, last states and cache in the layout of Keras' layers."""
    states = _first_states(x, states, weights[1])
    outputs, last, cache, _ = run(cell, x, states, weights, **options)
    return outputs, *last.values(), cache


def _keras_grad(cell, x, states, weights, **options):
    """Their gradient; that of the first state h is called "h0"."""
    states = _first_states(x, states, weights[1])
    gradients = run_grad(cell, x, states, weights, **options)
    return {
        name.replace("_prev", "0"): values for name, values in gradients.items()
    }


def gru(
    x, h0, kernel, recurrent_kernel, bias=None, *, reset_after,
    return_cache=False, **options,
):
    """A whole sequence of ``gru_cell``.

    Args:
      x: [B, T, I].
      h0: [B, H], or None for zeros.
      kernel, recurrent_kernel, bias, reset_after: as in ``gru_cell``.
      return_cache: also return what a backward pass would keep.
      options: mask, go_backwards, zero_output_for_mask, activation,
        recurrent_activation and recurrent_dropout_mask; see ``sequences``.

    Returns:
      (outputs [B, T, H], state [B, H]) in float64, and with return_cache a dict
      "z", "r", "c" and, with reset_after, "s", each [B, T, H] in processing
      order, zero at masked steps.
    """
    *results, cache = _keras(
        GRU[bool(reset_after)], x, [h0], (kernel, recurrent_kernel, bias),
        reset_after=reset_after, **options,
    )
    return (*results, cache) if return_cache else tuple(results)


def gru_grad(
    x, h0, kernel, recurrent_kernel, bias=None, *, d_outputs=None,
    d_state=None, d_cache=None, reset_after, **options,
):
    """Gradient of ``gru``.

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
    return _keras_grad(
        GRU[bool(reset_after)], x, [h0], (kernel, recurrent_kernel, bias),
        d_outputs=d_outputs, d_states=[d_state], d_cache=d_cache,
        reset_after=reset_after, **options,
    )


def lstm(
    x, h0, c0, kernel, recurrent_kernel, bias=None, *, return_cache=False,
    **options,
):
    """A whole sequence of ``lstm_cell``.

    Args:
      x: [B, T, I].
      h0, c0: [B, H], or None for zeros.
      kernel, recurrent_kernel, bias: as in ``lstm_cell``.
      return_cache: also return what a backward pass would keep.
      options: mask, go_backwards, zero_output_for_mask, activation,
        recurrent_activation and recurrent_dropout_mask; see ``sequences``.

    Returns:
      (outputs [B, T, H], h [B, H], c [B, H]) in float64, and with return_cache
      a dict "i", "f", "g", "o", "c" (the cell states), each [B, T, H] in
      processing order, zero at masked steps.
    """
    *results, cache = _keras(
        LSTM, x, [h0, c0], (kernel, recurrent_kernel, bias), **options
    )
    return (*results, cache) if return_cache else tuple(results)


def lstm_grad(
    x, h0, c0, kernel, recurrent_kernel, bias=None, *, d_outputs=None,
    d_h=None, d_c=None, d_cache=None, **options,
):
    """Gradient of ``lstm``.

    Args:
      d_outputs: [B, T, H] in processing order, or None for zeros.
      d_h, d_c: what arrives at the last states, [B, H], or None for zeros.
      d_cache: gradients that arrive at each step's values, a dict with any of
        "i", "f", "g", "o", "c", each [B, T, H] in processing order; or None.
      the others: as in ``lstm``.

    Returns:
      A dict of float64 arrays: "x", "h0", "c0" (also when they are None),
      "kernel", "recurrent_kernel", "bias" (None when there is none), and the
      gradients before the activations, "i_bar", "f_bar", "g_bar", "o_bar",
      each [B, T, H] in processing order, zero at masked steps.
    """
    return _keras_grad(
        LSTM, x, [h0, c0], (kernel, recurrent_kernel, bias),
        d_outputs=d_outputs, d_states=[d_h, d_c], d_cache=d_cache, **options,
    )


def simple_rnn(
    x, h0, kernel, recurrent_kernel, bias=None, *, return_cache=False,
    **options,
):
    """A whole sequence of ``simple_rnn_cell``.

    Args:
      x: [B, T, I].
      h0: [B, H], or None for zeros.
      kernel, recurrent_kernel, bias: as in ``simple_rnn_cell``.
      return_cache: also return what a backward pass would keep beside the
        outputs: nothing, an empty dict.
      options: mask, go_backwards, zero_output_for_mask, activation and
        recurrent_dropout_mask; see ``sequences``.

    Returns:
      (outputs [B, T, H], state [B, H]) in float64.
    """
    *results, cache = _keras(
        SIMPLE_RNN, x, [h0], (kernel, recurrent_kernel, bias), **options
    )
    return (*results, cache) if return_cache else tuple(results)


def simple_rnn_grad(
    x, h0, kernel, recurrent_kernel, bias=None, *, d_outputs=None,
    d_state=None, **options,
):
    """Gradient of ``simple_rnn``.

    Args:
      d_outputs: [B, T, H] in processing order, or None for zeros.
      d_state: [B, H], or None for zeros.
      the others: as in ``simple_rnn``.

    Returns:
      A dict of float64 arrays: "x", "h0" (also when h0 is None), "kernel",
      "recurrent_kernel", "bias" (None when there is none), and "h_bar"
      [B, T, H] in processing order, zero at masked steps.
    """
    return _keras_grad(
        SIMPLE_RNN, x, [h0], (kernel, recurrent_kernel, bias),
        d_outputs=d_outputs, d_states=[d_state], **options,
    )


# What BlockLSTMV2 fixes, and the default of its cell_clip.
_BLOCK_LSTM = dict(layout="BlockLSTMV2", forget_bias=0.0, cell_clip=0.0)


def block_lstm(
    seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, **options
):
    """TensorFlow's BlockLSTMV2: time-major steps of ``lstm_block_cell``.

    The columns of w are i|f|ci|o and there is no forget_bias, unlike in
    LSTMBlockCell.

    Args:
      seq_len_max: steps to compute, at most T.
      x: [T, B, I].
      cs_prev, h_prev: [B, H].
      w, wci, wcf, wco, b: as in ``lstm_block_cell``.
      options: cell_clip (0, which is none) and use_peephole.

    Returns:
      LstmBlockCellOutput(i, cs, f, o, ci, co, h), each [T, B, H] and zero from
      step seq_len_max on. (TensorFlow's kernel leaves all but cs and h
      uninitialised there.)
    """
    x = np.asarray(x, np.float64)
    outputs, _, cache, _ = run(
        LSTM_BLOCK, np.swapaxes(x[:seq_len_max], 0, 1), (cs_prev, h_prev),
        (w, wci, wcf, wco, b), **{**_BLOCK_LSTM, **options},
    )
    rest = [(0, len(x) - seq_len_max), (0, 0), (0, 0)]
    return LstmBlockCellOutput(**{
        name: np.pad(np.swapaxes(values, 0, 1), rest)
        for name, values in {**cache, "h": outputs}.items()
    })


def block_lstm_grad(
    seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, *, d_outputs,
    **options,
):
    """Gradient of ``block_lstm`` for gradients of all seven outputs.

    Args:
      d_outputs: a dict with any of "i", "cs", "f", "o", "ci", "co", "h", each
        [T, B, H]. From step seq_len_max on they reach nothing.
      the others: as in ``block_lstm``.

    Returns:
      A dict of float64 arrays: the gradient of each input under its name.
    """
    x = np.asarray(x, np.float64)
    d_cache = {
        name: np.swapaxes(np.asarray(d, np.float64)[:seq_len_max], 0, 1)
        for name, d in d_outputs.items()
    }
    gradients = run_grad(
        LSTM_BLOCK, np.swapaxes(x[:seq_len_max], 0, 1), (cs_prev, h_prev),
        (w, wci, wcf, wco, b), d_outputs=d_cache.pop("h", None),
        d_states=[None, None], d_cache=d_cache, **{**_BLOCK_LSTM, **options},
    )
    rest = [(0, len(x) - seq_len_max), (0, 0), (0, 0)]
    gradients["x"] = np.pad(np.swapaxes(gradients["x"], 0, 1), rest)
    return gradients
