"""The functions of fused_rnn.numpy, of all cells alike."""

from helpers_rnn import in_order

import fused_rnn.numpy as rnn


def by_argument(cell, incoming) -> dict:
    """Gradients of outputs and states under the names of the arguments."""
    return dict(zip(("d_outputs", "d_state", "d_cell_state"), incoming))


def gradient(cell, on=rnn, **arguments) -> dict:
    """By name, those that there are. `on` has the functions."""
    d = getattr(on, f"{cell.name}_grad")(**arguments)
    return {
        name: value for name, value in d._asdict().items() if value is not None
    }


def run(cell, values, incoming, on=rnn, **options):
    """Results and gradients by name."""
    options = {**cell.options, **options}
    *results, reserve = getattr(on, cell.name)(
        **values, return_reserve=True, **options
    )
    return in_order(cell, results), gradient(
        cell, on, **values, **by_argument(cell, incoming), reserve=reserve,
        **options,
    )


def same_bits(actual, expected):
    """Of arrays by name, or of tuples of such dicts."""
    if isinstance(actual, tuple):
        for some, wanted in zip(actual, expected, strict=True):
            same_bits(some, wanted)
        return
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert value.tobytes() == expected[name].tobytes(), name
