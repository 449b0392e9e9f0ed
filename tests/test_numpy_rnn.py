"""Sequences on NumPy arrays: values, gradients, layouts, what is refused."""

import numpy as np
import pytest
from checks_rnn import check_activation, check_options, check_shape
from helpers import DTYPES, SEQUENCE_SHAPES, first_states, rnn_arguments
from helpers_numpy import by_argument, gradient, run, same_bits
from helpers_reference import check_gradients
from helpers_rnn import CELLS, differentiable, drawn_gradients

import fused_rnn.numpy as rnn
from fused_rnn import reference

each_cell = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)


@each_cell
@pytest.mark.parametrize("mask", [True, False])
def test_oracle_options(mask, cell):
    check_options(run, cell, mask)


@each_cell
@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_oracle_activations(name, cell):
    check_activation(run, cell, name)


@each_cell
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SEQUENCE_SHAPES)
def test_oracle_shapes(shape, dtype, cell, isas):
    def run_on(isa):
        def run_there(*arguments):
            rnn.select_isa(isa)
            return run(*arguments)
        return run_there

    # Masks and dropout on every other shape: all paths, half the time.
    extra = list(SEQUENCE_SHAPES).index(shape) % 2 == 0
    check_shape(map(run_on, isas), cell, shape, DTYPES[dtype], extra)


@each_cell
def test_finite_differences(cell):
    values = rnn_arguments(
        cell, 7, 3, 4, 2, 5, np.float64, mask=True, dropout=True
    )
    incoming = drawn_gradients(cell, 9, values)

    def loss():
        results, _ = run(cell, values, incoming)
        return sum(
            np.sum(d * value)
            for d, value in zip(incoming, results.values(), strict=True)
        )

    _, gradients = run(cell, values, incoming)
    names = differentiable(cell)
    check_gradients(loss, {name: values[name] for name in names}, gradients)


@each_cell
def test_reserve(cell):
    """Kept, computed anew or used up: the same gradient."""
    values = rnn_arguments(
        cell, 3, 9, 5, 7, 19, np.float32, mask=True, dropout=True
    )
    incoming = drawn_gradients(cell, 9, values)
    _, expected = run(cell, values, incoming)
    *_, reserve = getattr(rnn, cell.name)(
        **values, **cell.options, return_reserve=True, return_sequences=False
    )
    before = [part.tobytes() for part in reserve]

    def again(**options):
        return gradient(
            cell, **values, **by_argument(cell, incoming), **cell.options,
            **options,
        )

    same_bits(again(), expected)
    same_bits(again(reserve=reserve), expected)
    assert before == [part.tobytes() for part in reserve]
    if len(reserve) == 1:  # Outputs alone, which nothing may overwrite.
        return
    same_bits(again(reserve=reserve, overwrite_reserve=True), expected)
    reserve.gates.flags.writeable = False
    with pytest.raises(ValueError, match="reserve must be writeable"):
        again(reserve=reserve, overwrite_reserve=True)


@each_cell
@pytest.mark.parametrize("zero_output_for_mask", [True, False])
@pytest.mark.parametrize("go_backwards", [True, False])
def test_last_output(go_backwards, zero_output_for_mask, cell):
    values = rnn_arguments(cell, 4, 6, 5, 3, 4, np.float64, mask=True)
    values["mask"][:2] = [[True], [False]]
    options = dict(
        go_backwards=go_backwards, zero_output_for_mask=zero_output_for_mask,
        **cell.options,
    )
    function = getattr(rnn, cell.name)
    outputs, *states, reserve = function(**values, **options)
    last = function(**values, **options, return_sequences=False)
    assert reserve is None and last.reserve is None
    np.testing.assert_array_equal(last.outputs, outputs[:, -1])
    for actual, expected in zip(last[1:-1], states, strict=True):
        np.testing.assert_array_equal(actual, expected)


@each_cell
def test_thread_counts_and_cut_batches_give_the_same_bits(cell, threads):
    values = rnn_arguments(cell, 5, 33, 20, 40, 64, np.float32, mask=True)
    incoming = drawn_gradients(cell, 9, values)
    threads(1)
    expected = results, gradients = run(cell, values, incoming)
    for count in (2, 4, 8):
        threads(count)
        same_bits(run(cell, values, incoming), expected)
    by_row = ("x", "mask", *first_states(cell))
    for rows in (slice(0, 10), slice(10, 33)):
        part, d_part = run(
            cell,
            {
                name: value[rows] if name in by_row else value
                for name, value in values.items()
            },
            [value[rows] for value in incoming],
        )
        same_bits(part, {name: value[rows] for name, value in results.items()})
        for name in ("x", *first_states(cell)):
            same_bits(
                {name: d_part[name]}, {name: gradients[name][rows]}
            )


@each_cell
def test_masked_steps_reach_nothing(cell):
    values = rnn_arguments(cell, 4, 6, 5, 7, 19, np.float32, mask=True)
    incoming = drawn_gradients(cell, 9, values)
    expected = run(cell, values, incoming)
    values["x"][~values["mask"]] = np.nan
    same_bits(run(cell, values, incoming), expected)


@each_cell
def test_one_dropout_mask_is_that_mask_for_each_gate(cell):
    values = rnn_arguments(cell, 4, 6, 5, 7, 19, np.float32, dropout="shared")
    incoming = drawn_gradients(cell, 9, values)
    mask = values["recurrent_dropout_mask"]
    each = np.repeat(mask, cell.gates, axis=0)
    same_bits(
        run(cell, values, incoming),
        run(cell, {**values, "recurrent_dropout_mask": each}, incoming),
    )


@each_cell
def test_any_strides_of_a_mask_and_of_steps(cell):
    values = rnn_arguments(cell, 6, 5, 8, 3, 7, np.float32, mask=True)
    incoming = drawn_gradients(cell, 9, values)
    every_other = {
        **values, "x": values["x"][:, ::-2], "mask": values["mask"][:, ::-2]
    }
    d_outputs, *d_states = incoming
    d_outputs = d_outputs[:, ::-2]
    copied = {
        **values,
        "x": every_other["x"].copy(),
        "mask": np.asfortranarray(every_other["mask"]),
    }
    same_bits(
        run(cell, every_other, [d_outputs, *d_states]),
        run(cell, copied, [d_outputs.copy(), *d_states]),
    )


def refused_sizes(cell):
    """By argument a shape that does not fit, and the one that does, of 3 rows,
    4 steps, 2 inputs and 5 units."""
    columns, bias = 5 * cell.gates, list(cell.bias_shape(5))
    _, *d_states = by_argument(cell, [None] * (1 + len(cell.states)))
    return {
        "x": ([3, 4, 3], [3, 4, 2]),
        **{
            name: ([3, 6], [3, 5])
            for name in (*first_states(cell), *d_states)
        },
        "kernel": ([2, columns - 1], [2, columns]),
        "recurrent_kernel": ([5, columns - 1], [5, columns]),
        "bias": ([*bias[:-1], columns + 1], bias),
        "recurrent_dropout_mask": ([cell.gates, 3, 6], [cell.gates, 3, 5]),
        "d_outputs": ([4, 3, 5], [3, 4, 5]),
    }


@each_cell
def test_refused_arguments(cell):
    values = rnn_arguments(
        cell, 0, 3, 4, 2, 5, np.float32, mask=True, dropout=True
    )
    values.update(by_argument(cell, drawn_gradients(cell, 9, values)))

    def refused(name, bad, error, *words):
        with pytest.raises(error) as caught:
            gradient(cell, **{**values, name: bad}, **cell.options)
        for word in (name, *words):
            assert word in str(caught.value), str(caught.value)

    for name, (shape, expected) in refused_sizes(cell).items():
        value = values[name]
        refused(
            name, np.ones(shape, np.float32), ValueError, str(expected),
            str(shape),
        )
        refused(name, np.float32(1), TypeError, "numpy.ndarray", "float32")
        refused(
            name, np.ones((2, 3, 4, 5), np.float32), ValueError, "[2, 3, 4, 5]"
        )
        if value.ndim > 1:
            refused(
                name, np.asfortranarray(value), ValueError, "contiguous rows"
            )
        if name != "x":
            refused(name, value.astype(np.float64), TypeError, "float64")
    two = np.ones((2, 3, 5), np.float32)
    refused("recurrent_dropout_mask", two, ValueError, "1, batch size", "[2, 3")


@each_cell
def test_refused_masks_reserves_and_activations(cell):
    values = rnn_arguments(cell, 0, 3, 4, 2, 5, np.float32)
    values.update(cell.options)
    function = getattr(rnn, cell.name)
    with pytest.raises(TypeError, match="mask must have dtype bool, got int64"):
        function(**{**values, "mask": np.ones((3, 4), np.int64)})
    with pytest.raises(ValueError, match=r"mask .*\[3, 4\], got \[4, 3\]"):
        function(**{**values, "mask": np.ones((4, 3), bool)})
    for which in cell.activations:
        with pytest.raises(ValueError, match=f"^{which} must be .*tanh.*gelu"):
            function(**values, **{which: "gelu"})
        with pytest.raises(ValueError, match=f"^{which} must be one .* None"):
            function(**values, **{which: None})
    *_, reserve = function(**values, return_reserve=True)
    for name, error_name in (("gates", "reserve"), ("cell_states",) * 2):
        if name not in reserve._fields:
            continue
        part = getattr(reserve, name)
        words = rf"{error_name} .*\[4, 3, {part.shape[-1]}\]"
        wrong = reserve._replace(**{name: np.swapaxes(part, 0, 1)})
        with pytest.raises(ValueError, match=words):
            gradient(cell, **values, reserve=wrong)
        gaps = np.concatenate([part, part], axis=1)[:, :3]
        with pytest.raises(ValueError, match=f"{error_name} .*C-contiguous"):
            gradient(cell, **values, reserve=reserve._replace(**{name: gaps}))
        with pytest.raises(TypeError, match=f"{error_name} must .* NoneType"):
            gradient(cell, **values, reserve=reserve._replace(**{name: None}))
    wrong = reserve._replace(outputs=reserve.outputs[:, :3])
    with pytest.raises(ValueError, match=r"outputs .*\[3, 4, 5\].*\[3, 3, 5\]"):
        gradient(cell, **values, reserve=wrong)


def test_bias_of_the_other_gru():
    for before, words in ((True, "without"), (False, "with")):
        cell = CELLS["gru_after" if before else "gru_before"]
        values = rnn_arguments(cell, 0, 3, 4, 2, 5, np.float32)
        with pytest.raises(ValueError, match=f"bias .*] {words} reset_after"):
            rnn.gru(**values, reset_after=not before)
