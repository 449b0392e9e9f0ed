"""Random calls of the NumPy side, valid and invalid."""

import numpy as np
import pytest
from helpers import DTYPES, first_states, rnn_arguments
from helpers_numpy import by_argument, gradient, run
from helpers_rnn import CELLS, drawn_gradients, oracle
from hypothesis import given, settings
from hypothesis import strategies as st

import fused_rnn.numpy as rnn
from fused_rnn import reference

SIZES = st.tuples(
    st.integers(0, 10), st.integers(0, 5), st.integers(0, 20),
    st.integers(0, 50),
)
FLAGS = st.fixed_dictionaries({
    name: st.booleans() for name in ("go_backwards", "zero_output_for_mask")
})
MASKS = st.fixed_dictionaries({
    "mask": st.booleans(), "dropout": st.sampled_from([False, True, "shared"])
})
ACTIVATIONS = st.lists(
    st.sampled_from(list(reference.ACTIVATIONS)), min_size=2, max_size=2
)
each_cell = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)


@pytest.fixture(autouse=True, scope="module")
def threads_as_before():
    before = rnn.get_num_threads()
    yield
    rnn.set_num_threads(before)


@each_cell
@settings(max_examples=400, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), sizes=SIZES, flags=FLAGS,
       masks=MASKS, activations=ACTIVATIONS, threads=st.integers(1, 8))
def test_valid_calls(
    cell, data, seed, sizes, flags, masks, activations, threads
):
    absent = data.draw(st.sets(st.sampled_from([*first_states(cell), "bias"])))
    values = rnn_arguments(
        cell, seed, *sizes, np.dtype(np.float64), absent=absent, **masks
    )
    incoming = drawn_gradients(cell, 9, values)
    options = {**flags, **cell.activation_options(*activations)}
    rnn.set_num_threads(threads)
    results, gradients = run(cell, values, incoming, **options)
    expected, d_expected = oracle(cell, values, incoming, **options)
    # States and gates that nothing bounds reach the gradient with their size.
    largest = max(
        np.max(np.abs(value), initial=1.0) for value in expected.values()
    )
    assert ("bias" in gradients) == ("bias" not in absent)
    for actual, wanted in ((results, expected), (gradients, d_expected)):
        for name, value in actual.items():
            norm = np.max(np.abs(wanted[name]), initial=largest)
            np.testing.assert_allclose(
                value, wanted[name], rtol=0, atol=1e-12 * largest * norm,
                err_msg=name, strict=True,
            )


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


@each_cell
@settings(max_examples=400, deadline=None)
@given(
    data=st.data(), seed=st.integers(0, 2**32 - 1), sizes=SIZES, flags=FLAGS,
    masks=MASKS, dtype=st.sampled_from(list(DTYPES)),
    how=st.sampled_from(["list", "dtype", "rank", "size", "rows", "bytes"]),
    axis=st.integers(0, 2),
)
def test_invalid_calls(cell, data, seed, sizes, flags, masks, dtype, how, axis):
    """One bad argument: the error's class, and names of arguments."""
    values = rnn_arguments(cell, seed, *sizes, DTYPES[dtype], **masks)
    values.update(by_argument(cell, drawn_gradients(cell, 9, values)))
    name = data.draw(st.sampled_from(
        [name for name, value in values.items() if value is not None]
    ))
    value = values[name]
    bad = spoil(value, how, axis)
    harmless = (
        # A mask may have any strides, and one row of one element has none.
        (how == "rows" and (name == "mask" or value.shape[-1] <= 1
                            or value.size == 0))
        or (how == "bytes" and name == "mask")
        # Another batch size, number of steps or inputs may fit as well.
        or (how == "size" and name in ("x", "kernel", "recurrent_kernel"))
    )
    call = {**values, name: bad, **cell.options, **flags}
    if harmless:
        try:
            gradient(cell, **call)
        except ValueError as error:
            assert "must have" in str(error)
        return
    expected = TypeError if how in ("list", "dtype", "bytes") else ValueError
    with pytest.raises(expected) as caught:
        gradient(cell, **call)
    # A bad x may show as another argument that does not fit it.
    assert name in str(caught.value) or name == "x", str(caught.value)
