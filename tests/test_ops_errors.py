"""What wrong arguments of the block cells' ops bring, eagerly and in graphs."""

import re

import numpy as np
import pytest
import tensorflow as tf
from helpers_block import BLOCK_CELLS, each_block_cell

BATCH, INPUTS, UNITS = 3, 4, 5

# What each argument must be, in words and in sizes.
GATE = ("[batch size, cell size]", (3, 5))
SHAPES = {
    "x": ("[batch size, input size]", (3, 4)),
    "w_ru": ("[input size + cell size, 2 * cell size]", (9, 10)),
    "w_c": ("[input size + cell size, cell size]", (9, 5)),
    "b_ru": ("[2 * cell size]", (10,)),
    "b_c": ("[cell size]", (5,)),
    "w": ("[input size + cell size, 4 * cell size]", (9, 20)),
    "b": ("[4 * cell size]", (20,)),
    **dict.fromkeys(("wci", "wcf", "wco"), ("[cell size]", (5,))),
    "d_r_bar_u_bar": ("[batch size, 2 * cell size]", (3, 10)),
    "d_gates_bar": ("[batch size, 4 * cell size]", (3, 20)),
}
# As many sizes of each cell as there can be wrong.
CELLS = {name: BLOCK_CELLS[name] for name in ("gru", "lstm_peephole")}
each_cell = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)


def shape_of(name):
    return SHAPES.get(name, GATE)


def arguments(cell, dtype=np.float32):
    return cell.arguments(0, BATCH, INPUTS, UNITS, dtype)


def zeros(names):
    return {name: np.zeros(shape_of(name)[1], np.float32) for name in names}


def call_grad(cell, values):
    return cell.grad(*values.values())


def call_cell(cell, values):
    return cell.fused(*values.values())


def wrong_shapes(shape):
    """Every axis one longer and one shorter, and ranks too low and too high."""
    for axis in range(len(shape)):
        for change in (1, -1):
            yield (
                shape[:axis] + (shape[axis] + change,) + shape[axis + 1 :]
            )
    yield shape[1:]
    yield (1, *shape)


def text(shape):
    return "[" + ",".join(map(str, shape)) + "]"


def next_that_disagrees(cell, name, wrong, names):
    """x and the first state say the sizes, so that a wrong one of theirs shows
    in the next argument that disagrees, which is the one named."""
    first_state = names[1]
    if len(wrong) != 2:
        return name
    if name == "x":
        if wrong[0] != BATCH:
            return first_state
        return next(n for n in names[2:] if shape_of(n) != GATE)
    if name == first_state and wrong[1] != UNITS:
        return names[2]
    return name


def cases(names_of):
    return [
        pytest.param(cell, name, wrong, id=f"{cell}-{name}-{text(wrong)}")
        for cell in CELLS.values() for name in names_of(cell)
        for wrong in wrong_shapes(shape_of(name)[1])
    ]


def check_message(message, cell, name, wrong, names):
    culprit = next_that_disagrees(cell, name, wrong, names)
    assert f"{culprit} must have shape {shape_of(culprit)[0]}" in message
    # What came: the wrong shape itself, of whichever argument.
    assert text(wrong) in message
    if culprit != name or name not in names[:2]:
        expected = re.search(r"= (\[[\d,]*\]), got (\[[\d,]*\])", message)
        assert expected and expected[1] != expected[2]
        assert "(x is [" in message and f"{names[1]} is [" in message


@pytest.mark.parametrize("cell, name, wrong", cases(lambda cell: cell.inputs))
def test_wrong_shape(cell, name, wrong):
    values = arguments(cell)
    values[name] = np.zeros(wrong, np.float32)
    for call in (cell.fused, cell.raw):
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            call(*values.values())
        check_message(str(error.value), cell, name, wrong, cell.inputs)


@pytest.mark.parametrize(
    "cell, name, wrong", cases(lambda cell: cell.grad_names())
)
def test_wrong_shape_of_gradient(cell, name, wrong):
    values = zeros(cell.grad_names())
    values[name] = np.zeros(wrong, np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        call_grad(cell, values)
    check_message(str(error.value), cell, name, wrong, cell.grad_names())


@pytest.mark.parametrize("cell, name, wrong", [
    # x alone has the input size, and any will do.
    case for case in cases(lambda cell: cell.weight_grad_inputs)
    if case.values[1:] not in [("x", (3, 5)), ("x", (3, 3))]
])
def test_wrong_shape_of_weight_gradient(cell, name, wrong):
    names = cell.weight_grad_inputs
    values = zeros(names)
    cell.weight_grad(*values.values())
    values[name] = np.zeros(wrong, np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        cell.weight_grad(*values.values())
    culprit = next_that_disagrees(cell, name, wrong, names)
    assert f"{culprit} must have shape" in str(error.value)
    assert text(wrong) in str(error.value)
    with pytest.raises(ValueError, match="must have shape") as error:
        in_graph(lambda values: cell.weight_grad(*values.values()), values)
    assert text(wrong) in str(error.value)


def in_graph(call, values, specs=None):
    """Builds a graph of the call; specs replaces shapes that it may know."""
    with tf.Graph().as_default():
        return call({
            name: tf.compat.v1.placeholder(
                tf.float32, (specs or {}).get(name, value.shape)
            )
            for name, value in values.items()
        })


@pytest.mark.parametrize(
    "cell, name, wrong", cases(lambda cell: cell.grad_names())
)
def test_contradiction_is_found_while_the_graph_is_built(cell, name, wrong):
    values = zeros(cell.grad_names())
    values[name] = np.zeros(wrong, np.float32)
    with pytest.raises(ValueError, match="must have shape") as error:
        in_graph(lambda values: call_grad(cell, values), values)
    assert text(wrong) in str(error.value)
    if name in cell.inputs:
        values = {name: values[name] for name in cell.inputs}
        with pytest.raises(ValueError, match="must have shape") as error:
            in_graph(lambda values: call_cell(cell, values), values)
        assert text(wrong) in str(error.value)


@pytest.mark.parametrize("cell, source", [
    pytest.param(cell, source, id=f"{cell}-{source}")
    for cell in CELLS.values() for source in cell.grad_names()
])
def test_sizes_are_inferred_from_any_input(cell, source):
    """All shapes unknown but one, and what it alone determines."""
    values = zeros(cell.grad_names())
    unknown = {
        name: [None] * value.ndim
        for name, value in values.items() if name != source
    }
    outputs = in_graph(lambda values: call_grad(cell, values), values, unknown)
    words = shape_of(source)[0]
    batch = BATCH if "batch size" in words else None
    # Rows of both alone say neither.
    units = UNITS if re.search("cell size]", words) else None
    inputs = INPUTS if source == "x" or "input size +" in words else None
    for name, output in zip(cell.grad_outputs, outputs):
        columns = inputs
        if name != "x":
            times = {"r_bar_u_bar": 2, "gates_bar": 4}.get(name, 1)
            columns = units and times * units
        assert output.shape.as_list() == [batch, columns]


@each_cell
def test_cell_size_follows_from_rows_and_input_size(cell):
    values = arguments(cell)
    unknown = {
        name: [None] * value.ndim for name, value in values.items()
    }
    rows = cell.weights[0]
    specs = {**unknown, "x": [None, INPUTS], rows: [INPUTS + UNITS, None]}

    def call(values):
        return call_cell(cell, values)

    for output in in_graph(call, values, specs):
        assert output.shape.as_list() == [None, UNITS]
    # Unknown ranks are no contradiction, and outputs still are matrices.
    for output in in_graph(call, values, dict.fromkeys(values, None)):
        assert output.shape.rank == 2


@pytest.mark.parametrize("cell, name", [
    pytest.param(cell, name, id=f"{cell}-{name}")
    for cell in CELLS.values() for name in cell.inputs
])
def test_wrong_dtype(cell, name):
    values = arguments(cell)
    values[name] = values[name].astype(np.float64)
    with pytest.raises(TypeError) as error:
        call_cell(cell, values)
    # x sets the dtype, so that the next argument disagrees with it.
    culprit = cell.inputs[1] if name == "x" else name
    assert f"{culprit} must have the dtype of x" in str(error.value)
    assert {"float32", "float64"} <= set(re.findall(r"\w+", str(error.value)))


@each_cell
@pytest.mark.parametrize("dtype", [np.int32, np.complex64, np.bool_])
def test_unsupported_dtype(cell, dtype):
    values = {
        name: value.astype(dtype) for name, value in arguments(cell).items()
    }
    with pytest.raises(TypeError, match="x must have dtype float32") as error:
        call_cell(cell, values)
    assert np.dtype(dtype).name in str(error.value)


@each_cell
def test_not_a_tensor(cell):
    values = arguments(cell)
    name = cell.weights[0]
    values[name] = object()
    with pytest.raises(
        (TypeError, ValueError), match=f"{name} must be a tensor"
    ):
        call_cell(cell, values)


@each_cell
@pytest.mark.parametrize("change", [1, -1])
def test_wrong_number_of_gate_gradients(cell, change):
    values = list(zeros(cell.grad_names()).values())
    values = values + values[-1:] if change > 0 else values[:-1]
    message = f"{', '.join(cell.gates[:-1])} and {cell.gates[-1]}; got"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        cell.grad(*values)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match=message):
            cell.grad(*values)


@each_cell
@pytest.mark.parametrize("inputs, units", [
    (2**62, 2**62),  # input size + cell size overflows
    (0, 2**62),  # a multiple of the cell size does
    (2**40, 2**40),  # the elements of the weights do
])
def test_sizes_that_overflow(cell, inputs, units):
    """Empty tensors may claim any size."""
    @tf.function(input_signature=[
        tf.TensorSpec([None] * len(shape_of(name)[1])) for name in cell.inputs
    ])
    def call(*values):
        return cell.fused(*values)

    empty = {
        name: tf.zeros([0] * len(shape_of(name)[1])) for name in cell.inputs
    }
    empty["x"] = tf.zeros([0, inputs])
    empty.update({name: tf.zeros([0, units]) for name in cell.states})
    with pytest.raises(tf.errors.InvalidArgumentError, match="below 2\\^63"):
        call(*empty.values())


@each_block_cell
def test_enormous_empty_batch(cell):
    """No loop runs over rows that hold nothing."""
    batch = 2**40
    values = cell.arguments(0, 0, 0, 0, np.float32)
    for name in ("x", *cell.states):
        values[name] = tf.zeros([batch, 0])
    assert cell.fused(*values.values()).h.shape == [batch, 0]
