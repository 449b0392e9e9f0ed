"""Results of the compiled functions as Python gives them."""

import numpy as np

# Makes a named tuple of a tuple: a third of the cost of calling its class, which
# would be a third of a small step.
named = tuple.__new__


def last_output(state, mask, go_backwards, zero_output_for_mask):
    """The state, but zero where the last output is."""
    if mask is None:
        return state
    if zero_output_for_mask:
        # A slice: there may be no step.
        mask = mask[:, :1] if go_backwards else mask[:, -1:]
    valid = mask.any(axis=1, keepdims=True)
    return np.where(valid, state, np.zeros_like(state))
