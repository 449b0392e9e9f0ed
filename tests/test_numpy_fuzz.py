"""Random calls of the NumPy side, valid and invalid."""

import numpy as np
import pytest
from helpers import DTYPES, draw, gru_arguments
from hypothesis import given, settings
from hypothesis import strategies as st

import fused_rnn.numpy as rnn
from fused_rnn import reference

SIZES = st.tuples(
    st.integers(0, 10), st.integers(0, 5), st.integers(0, 20),
    st.integers(0, 50),
)
FLAGS = st.fixed_dictionaries({
    name: st.booleans()
    for name in ("reset_after", "go_backwards", "zero_output_for_mask")
})
PRESENT = st.fixed_dictionaries({
    name: st.booleans() for name in ("h0", "bias", "mask", "dropout")
})
ACTIVATIONS = st.fixed_dictionaries({
    name: st.sampled_from(list(reference.ACTIVATIONS))
    for name in ("activation", "recurrent_activation")
})


def arguments(seed, sizes, dtype, flags, present):
    values = gru_arguments(
        seed, *sizes, dtype, reset_after=flags["reset_after"], **present
    )
    rng = np.random.default_rng(seed + 1)
    batch, steps, _, units = sizes
    values["d_outputs"] = draw(rng, (batch, steps, units), dtype)
    values["d_state"] = draw(rng, (batch, units), dtype)
    return values


@pytest.fixture(autouse=True, scope="module")
def threads_as_before():
    before = rnn.get_num_threads()
    yield
    rnn.set_num_threads(before)


@settings(max_examples=1000, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, FLAGS, PRESENT, ACTIVATIONS,
       st.integers(1, 8))
def test_valid_calls(seed, sizes, flags, present, activations, threads):
    values = arguments(seed, sizes, np.dtype(np.float64), flags, present)
    d_outputs, d_state = values.pop("d_outputs"), values.pop("d_state")
    options = {**flags, **activations}
    rnn.set_num_threads(threads)
    outputs, state, reserve = rnn.gru(**values, **options, return_reserve=True)
    incoming = dict(d_outputs=d_outputs, d_state=d_state)
    d = rnn.gru_grad(**values, **options, **incoming, reserve=reserve)
    expected_outputs, expected_state = reference.gru(**values, **options)
    d_expected = reference.gru_grad(**values, **options, **incoming)
    # States and gates that nothing bounds reach the gradient with their size.
    largest = np.max(np.abs(expected_outputs), initial=1.0)
    for name, actual, expected in (
        ("outputs", outputs, expected_outputs),
        ("state", state, expected_state),
        *((name, getattr(d, name), d_expected[name]) for name in d._fields),
    ):
        if expected is None:
            assert actual is None, name
            continue
        assert actual.shape == expected.shape, name
        tolerance = 1e-12 * largest * np.max(np.abs(expected), initial=largest)
        difference = np.max(np.abs(actual - expected), initial=0.0)
        assert difference <= tolerance, name


def spoil(value, how, axis):
    """An array that cannot take value's place."""
    if how == "list":
        return value.tolist()
    if how == "dtype":
        return value.astype(np.int16)
    if how == "rank":
        return value[np.newaxis]
    if how == "size":
        axis %= value.ndim
        pad = [(0, 1 if i == axis else 0) for i in range(value.ndim)]
        return np.pad(value, pad)
    if how == "rows":
        return np.repeat(value, 2, axis=-1)[..., ::2]
    assert how == "bytes"
    return value.astype(value.dtype.newbyteorder())


@settings(max_examples=1000, deadline=None)
@given(
    st.integers(0, 2**32 - 1), SIZES, FLAGS, PRESENT,
    st.sampled_from(["float64", "float32", "float16", "bfloat16"]),
    st.sampled_from([
        "x", "h0", "kernel", "recurrent_kernel", "bias", "mask",
        "recurrent_dropout_mask", "d_outputs", "d_state",
    ]),
    st.sampled_from(["list", "dtype", "rank", "size", "rows", "bytes"]),
    st.integers(0, 2),
)
def test_invalid_calls(seed, sizes, flags, present, dtype, name, how, axis):
    """One bad argument: the error's class, and names of arguments."""
    values = arguments(seed, sizes, DTYPES[dtype], flags, present)
    value = values[name]
    if value is None:
        return
    bad = spoil(value, how, axis)
    harmless = (
        # A mask may have any strides, and one row of one element has none.
        (how == "rows" and (name == "mask" or value.shape[-1] <= 1
                            or value.size == 0))
        or (how == "bytes" and name == "mask")
        # Another batch size, number of steps or inputs may fit as well.
        or (how == "size" and name in ("x", "kernel", "recurrent_kernel"))
    )
    call = {**values, name: bad}
    if harmless:
        try:
            rnn.gru_grad(**call, **flags)
        except ValueError as error:
            assert "must have" in str(error)
        return
    expected = TypeError if how in ("list", "dtype", "bytes") else ValueError
    with pytest.raises(expected) as caught:
        rnn.gru_grad(**call, **flags)
    # A bad x may show as another argument that does not fit it.
    assert name in str(caught.value) or name == "x", str(caught.value)
