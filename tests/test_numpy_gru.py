"""Sequences on NumPy arrays: values, gradients, layouts, what is refused."""

import itertools

import numpy as np
import pytest
from bounds_rnn import BoundedRnn
from helpers import DTYPES, SEQUENCE_SHAPES, draw, gru_arguments
from helpers_reference import CASES

import fused_rnn.numpy as rnn
from fused_rnn import reference

FLAGS = ("go_backwards", "time_major", "zero_output_for_mask")


def incoming(values, seed=9):
    """Gradients of outputs and state."""
    rng = np.random.default_rng(seed)
    batch, steps, _ = values["x"].shape
    units = values["recurrent_kernel"].shape[0]
    dtype = values["x"].dtype
    return {
        "d_outputs": draw(rng, (batch, steps, units), dtype),
        "d_state": draw(rng, (batch, units), dtype),
    }


def run(values, gradients, **options):
    """outputs, state and all gradients by name."""
    outputs, state, reserve = rnn.gru(**values, return_reserve=True, **options)
    d = rnn.gru_grad(**values, **gradients, reserve=reserve, **options)
    return {
        "outputs": outputs, "state": state,
        **{f"d_{name}": value for name, value in d._asdict().items()},
    }


def check_float64(values, *, reset_after, flags=None, **options):
    """To 1e-12 of the largest value, or of 1."""
    flags = flags or dict.fromkeys(FLAGS, False)
    gradients = incoming(values)
    same = {
        name: flags[name] for name in ("go_backwards", "zero_output_for_mask")
    }
    outputs, state = reference.gru(
        **values, reset_after=reset_after, **options, **same
    )
    d = reference.gru_grad(
        **values, **gradients, reset_after=reset_after, **options, **same
    )
    swap = np.asarray
    if flags["time_major"]:
        def swap(array):
            return np.swapaxes(array, 0, 1)
    actual = run(
        {**values, "x": swap(values["x"])},
        {**gradients, "d_outputs": swap(gradients["d_outputs"])},
        reset_after=reset_after, **options, **flags,
    )
    expected = {
        "outputs": swap(outputs), "state": state,
        **{f"d_{name}": d[name] for name in
           ("h0", "kernel", "recurrent_kernel", "bias")},
        "d_x": swap(d["x"]),
    }
    for name, value in actual.items():
        if expected[name] is None:
            assert value is None
            continue
        assert value.shape == expected[name].shape, name
        largest = np.max(np.abs(expected[name]), initial=1.0)
        np.testing.assert_allclose(
            value, expected[name], rtol=0, atol=1e-12 * largest, err_msg=name
        )


def check_same_bits(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert value.tobytes() == expected[name].tobytes(), name


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_oracle_options(reset_after, mask):
    """Each combination of layouts and of arguments that may be absent."""
    for h0, bias, dropout, *flags in itertools.product([False, True], repeat=6):
        values = gru_arguments(
            0, 3, 4, 2, 5, np.float64, reset_after=reset_after, h0=h0,
            bias=bias, mask=mask, dropout=dropout,
        )
        check_float64(
            values, flags=dict(zip(FLAGS, flags)), reset_after=reset_after
        )


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("which", ["activation", "recurrent_activation"])
@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_oracle_activations(name, which, reset_after):
    values = gru_arguments(
        1, 9, 4, 3, 18, np.float64, reset_after=reset_after, mask=True
    )
    check_float64(values, reset_after=reset_after, **{which: name})


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SEQUENCE_SHAPES)
def test_oracle_shapes(shape, dtype, reset_after):
    batch, steps, inputs, units = SEQUENCE_SHAPES[shape]
    # Masks and dropout on every other shape: all paths, half the time.
    extra = list(SEQUENCE_SHAPES).index(shape) % 2 == 0
    values = gru_arguments(
        2, batch, steps, inputs, units, DTYPES[dtype], reset_after=reset_after,
        mask=extra, dropout=extra,
    )
    gradients = incoming(values)
    bounds = BoundedRnn(
        CASES["gru_after" if reset_after else "gru_before"], DTYPES[dtype],
        **values,
    )
    d_bounds = bounds.gradients(*gradients.values())
    expected, expected_state = reference.gru(**values, reset_after=reset_after)
    d_expected = reference.gru_grad(
        **values, **gradients, reset_after=reset_after
    )
    actual = run(values, gradients, reset_after=reset_after)
    for t, bound in enumerate(bounds.outputs):
        bound.check(actual["outputs"][:, t], expected[:, t], f"outputs {t}")
    bounds.states["h"].check(actual["state"], expected_state, "state")
    for name in ("x", "h0", "kernel", "recurrent_kernel", "bias"):
        value = actual[f"d_{name}"]
        if name in d_bounds:
            d_bounds[name].check(value, d_expected[name], name)
        else:  # No step, no gradient.
            assert steps == 0 and not value.any(), name
            assert value.shape == values[name].shape


@pytest.mark.parametrize("reset_after", [True, False])
def test_reserve(reset_after):
    """Kept, computed anew or used up: the same gradient."""
    values = gru_arguments(
        3, 9, 5, 7, 19, np.float32, reset_after=reset_after, mask=True,
        dropout=True,
    )
    gradients = incoming(values)
    expected = run(values, gradients, reset_after=reset_after)
    _, _, reserve = rnn.gru(
        **values, reset_after=reset_after, return_reserve=True,
        return_sequences=False,
    )
    before = reserve.gates.tobytes()

    def gradient(**options):
        d = rnn.gru_grad(
            **values, **gradients, reset_after=reset_after, **options
        )
        return {f"d_{name}": value for name, value in d._asdict().items()}

    expected = {
        name: value for name, value in expected.items() if name[:2] == "d_"
    }
    check_same_bits(gradient(), expected)
    check_same_bits(gradient(reserve=reserve), expected)
    assert reserve.gates.tobytes() == before
    check_same_bits(gradient(reserve=reserve, overwrite_reserve=True), expected)
    reserve.gates.flags.writeable = False
    with pytest.raises(ValueError, match="reserve must be writeable"):
        gradient(reserve=reserve, overwrite_reserve=True)


@pytest.mark.parametrize("zero_output_for_mask", [True, False])
@pytest.mark.parametrize("go_backwards", [True, False])
def test_last_output(go_backwards, zero_output_for_mask):
    values = gru_arguments(
        4, 6, 5, 3, 4, np.float64, reset_after=True, mask=True
    )
    values["mask"][:2] = [[True], [False]]
    options = dict(
        go_backwards=go_backwards, zero_output_for_mask=zero_output_for_mask
    )
    outputs, state, reserve = rnn.gru(**values, **options)
    last = rnn.gru(**values, **options, return_sequences=False)
    assert reserve is None and last.reserve is None
    np.testing.assert_array_equal(last.outputs, outputs[:, -1])
    np.testing.assert_array_equal(last.state, state)


@pytest.mark.parametrize("reset_after", [True, False])
def test_thread_counts_and_cut_batches_give_the_same_bits(reset_after):
    values = gru_arguments(
        5, 33, 20, 40, 64, np.float32, reset_after=reset_after, mask=True
    )
    gradients = incoming(values)
    threads = rnn.get_num_threads()
    try:
        rnn.set_num_threads(1)
        expected = run(values, gradients, reset_after=reset_after)
        for count in (2, 4, 8):
            rnn.set_num_threads(count)
            check_same_bits(
                run(values, gradients, reset_after=reset_after), expected
            )
    finally:
        rnn.set_num_threads(threads)
    by_row = ("x", "h0", "mask")
    for rows in (slice(0, 10), slice(10, 33)):
        part = run(
            {
                name: value[rows] if name in by_row else value
                for name, value in values.items()
            },
            {name: value[rows] for name, value in gradients.items()},
            reset_after=reset_after,
        )
        for name in ("outputs", "state", "d_h0"):
            assert part[name].tobytes() == expected[name][rows].tobytes(), name


def test_masked_steps_reach_nothing():
    values = gru_arguments(
        4, 6, 5, 7, 19, np.float32, reset_after=True, mask=True
    )
    gradients = incoming(values)
    expected = run(values, gradients, reset_after=True)
    values["x"][~values["mask"]] = np.nan
    check_same_bits(run(values, gradients, reset_after=True), expected)


def test_any_strides_of_a_mask_and_of_steps():
    values = gru_arguments(
        6, 5, 8, 3, 7, np.float32, reset_after=True, mask=True
    )
    gradients = incoming(values)
    every_other = {
        **values, "x": values["x"][:, ::-2], "mask": values["mask"][:, ::-2]
    }
    d = {**gradients, "d_outputs": gradients["d_outputs"][:, ::-2]}
    copied = {
        **values,
        "x": every_other["x"].copy(),
        "mask": np.asfortranarray(every_other["mask"]),
    }
    check_same_bits(
        run(every_other, d, reset_after=True),
        run(copied, {**d, "d_outputs": d["d_outputs"].copy()},
            reset_after=True),
    )


REFUSED = {
    "x": ((3, 4, 3), "[3, 4, 2]"),
    "h0": ((3, 6), "[3, 5]"),
    "kernel": ((2, 14), "[2, 15]"),
    "recurrent_kernel": ((5, 14), "[5, 15]"),
    "bias": ((15,), "[2, 15]"),
    "recurrent_dropout_mask": ((3, 3, 6), "[3, 3, 5]"),
    "d_outputs": ((4, 3, 5), "[3, 4, 5]"),
    "d_state": ((3, 4), "[3, 5]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_arguments(name):
    values = gru_arguments(
        0, 3, 4, 2, 5, np.float32, reset_after=True, mask=True, dropout=True
    )
    values.update(incoming(values))
    shape, expected = REFUSED[name]

    def refused(bad, error, *words):
        with pytest.raises(error) as caught:
            rnn.gru_grad(**{**values, name: bad})
        for word in (name, *words):
            assert word in str(caught.value), str(caught.value)

    refused(np.ones(shape, np.float32), ValueError, expected, str(list(shape)))
    refused(np.float32(1), TypeError, "numpy.ndarray", "float32")
    refused(np.ones((2, 3, 4, 5), np.float32), ValueError, "[2, 3, 4, 5]")
    refused(
        np.asfortranarray(values[name]), ValueError, "contiguous rows",
    )
    if name != "x":
        refused(values[name].astype(np.float64), TypeError, "float64")


def test_refused_masks_reserves_and_activations():
    values = gru_arguments(0, 3, 4, 2, 5, np.float32, reset_after=True)
    with pytest.raises(TypeError, match="mask must have dtype bool, got int64"):
        rnn.gru(**{**values, "mask": np.ones((3, 4), np.int64)})
    with pytest.raises(ValueError, match=r"mask .*\[3, 4\], got \[4, 3\]"):
        rnn.gru(**{**values, "mask": np.ones((4, 3), bool)})
    with pytest.raises(ValueError, match="bias .*without reset_after"):
        rnn.gru(**values, reset_after=False)
    with pytest.raises(ValueError, match="activation must be one of .*gelu"):
        rnn.gru(**values, activation="gelu")
    with pytest.raises(ValueError, match="recurrent_activation must .* None"):
        rnn.gru(**values, recurrent_activation=None)
    _, _, reserve = rnn.gru(**values, return_reserve=True)
    wrong = reserve._replace(gates=np.swapaxes(reserve.gates, 0, 1))
    with pytest.raises(ValueError, match=r"reserve .*\[4, 3, 20\]"):
        rnn.gru_grad(**values, reserve=wrong)
    wrong = reserve._replace(outputs=reserve.outputs[:, :3])
    with pytest.raises(ValueError, match=r"outputs .*\[3, 4, 5\].*\[3, 3, 5\]"):
        rnn.gru_grad(**values, reserve=wrong)
