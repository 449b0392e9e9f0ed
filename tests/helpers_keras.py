"""What the tests of the Keras layers share."""

import keras
import numpy as np

# Of Keras and of ours; a cell's name ends in Cell.
LAYERS = ("GRU", "LSTM", "SimpleRNN")
BATCH, STEPS, INPUTS, UNITS = 4, 5, 3, 6
# Whole, with holes, padded on the left, and masked everywhere.
HOLES = np.array(
    [[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 0, 1, 0, 1], [0, 0, 0, 0, 0]],
    bool,
)

EPS = {
    "float64": np.finfo(np.float64).eps,
    "float32": np.finfo(np.float32).eps,
    "mixed_float16": np.finfo(np.float16).eps,
    "float16": np.finfo(np.float16).eps,
    "mixed_bfloat16": 2.0**-7,
    "bfloat16": 2.0**-7,
}


def tolerance(policy, terms, steps, values=1.0):
    """What two computations of the same numbers may differ by.

    A sum of n terms errs by at most n·eps of the terms' norm, which the
    bounded inputs keep at a few; each of the steps adds as much once more, and
    each of the two computations has its own.
    """
    scale = max(1.0, float(np.max(np.abs(values), initial=0.0)))
    return 2 * steps * terms * EPS[policy] * scale


def as_float64(value):
    return np.asarray(keras.ops.cast(value, "float64"))


def assert_close(actual, expected, policy, terms, steps, name=""):
    """Equal shapes and dtypes, and values within the tolerance."""
    assert tuple(actual.shape) == tuple(expected.shape), name
    actual, expected = as_float64(actual), as_float64(expected)
    np.testing.assert_allclose(
        actual, expected, rtol=0, err_msg=name,
        atol=tolerance(policy, terms, steps, expected),
    )


def data(seed=0, shape=(BATCH, STEPS, INPUTS)):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")


def assert_same(actual, expected, policy="float32"):
    """Of one pass over data(): each tensor of the structure is close."""
    for a, e in zip(
        keras.tree.flatten(actual), keras.tree.flatten(expected), strict=True
    ):
        assert_close(a, e, policy, INPUTS + UNITS, STEPS)


def states_of(layer, units=UNITS):
    """Initial states of a layer by its name, h and perhaps c, [B, units]."""
    return [
        data(1 + i, (BATCH, units)) for i in range(2 if layer == "LSTM" else 1)
    ]
