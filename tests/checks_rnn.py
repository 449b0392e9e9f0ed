"""What holds for the cells' functions over sequences, in TensorFlow and on
NumPy arrays alike. ``run(cell, values, incoming, **options)`` gives results and
gradients by name.
"""

import itertools

import numpy as np
from bounds_rnn import BoundedRnn
from helpers import SEQUENCE_SHAPES, first_states, rnn_arguments
from helpers_rnn import drawn_gradients, oracle

FLAGS = ("go_backwards", "time_major", "zero_output_for_mask")


def check_float64(run, cell, values, *, flags=None, **options):
    """Values and all gradients to 1e-12 of the largest value, or of 1."""
    flags = {**dict.fromkeys(FLAGS, False), **(flags or {})}
    incoming = drawn_gradients(cell, 9, values)
    expected, d_expected = oracle(
        cell, values, incoming, **options, go_backwards=flags["go_backwards"],
        zero_output_for_mask=flags["zero_output_for_mask"],
    )
    turned = dict(values)

    def swap(array):
        return np.swapaxes(array, 0, 1) if flags["time_major"] else array

    turned["x"] = swap(values["x"])
    incoming[0] = swap(incoming[0])
    results, gradients = run(cell, turned, incoming, **options, **flags)
    gradients["x"] = swap(gradients["x"])
    results["outputs"] = swap(results["outputs"])
    # A state and its gradient may have one name.
    for actual, wanted in ((results, expected), (gradients, d_expected)):
        for name, value in actual.items():
            assert value.shape == wanted[name].shape, name
            largest = np.max(np.abs(wanted[name]), initial=1.0)
            np.testing.assert_allclose(
                value, wanted[name], rtol=0, atol=1e-12 * largest, err_msg=name
            )


def check_options(run, cell, mask):
    """Each combination of layouts and of arguments that may be absent."""
    optional = (*first_states(cell), "bias")
    choices = [[False, True]] * (len(optional) + len(FLAGS))
    for dropout, *on in itertools.product([False, True, "shared"], *choices):
        values = rnn_arguments(
            cell, 0, 3, 4, 2, 5, np.float64, mask=mask, dropout=dropout,
            absent=[name for name, off in zip(optional, on) if off],
        )
        flags = dict(zip(FLAGS, on[len(optional):]))
        check_float64(run, cell, values, flags=flags)


def check_activation(run, cell, name):
    """As each of the cell's."""
    values = rnn_arguments(cell, 1, 9, 4, 3, 18, np.float64, mask=True)
    for which in cell.activations:
        check_float64(run, cell, values, **{which: name})


def check_shape(runs, cell, shape, dtype, extra):
    """Values and gradients of each of `runs` within their bounds; with masks
    and dropout if `extra`."""
    values = rnn_arguments(
        cell, 2, *SEQUENCE_SHAPES[shape], dtype, mask=extra, dropout=extra
    )
    incoming = drawn_gradients(cell, 3, values)
    bounds = BoundedRnn(cell, dtype, **values)
    d_bounds = bounds.gradients(*incoming)
    expected, d_expected = oracle(cell, values, incoming)
    for run in runs:
        results, gradients = run(cell, values, incoming)
        outputs = results.pop("outputs")
        assert outputs.shape == expected["outputs"].shape
        assert outputs.dtype == dtype
        for t, bound in enumerate(bounds.outputs):
            bound.check(
                outputs[:, t], expected["outputs"][:, t], f"outputs {t}"
            )
        for name, state in results.items():
            bounds.states[name].check(state, expected[name], name)
        for name, gradient in gradients.items():
            if name in d_bounds:
                d_bounds[name].check(gradient, d_expected[name], name)
                continue
            # No step, no gradient.
            assert values["x"].shape[1] == 0
            np.testing.assert_array_equal(
                gradient, np.zeros_like(values[name])
            )
