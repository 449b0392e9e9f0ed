"""What wrong arguments of the block cell's ops bring, eagerly and in graphs."""

import re

import numpy as np
import pytest
import tensorflow as tf
from helpers import CELL_INPUTS, cell_arguments

import fused_rnn
from fused_rnn import _library

_ops = _library.load()

BATCH, INPUTS, UNITS = 3, 4, 5

# What each argument must be, in words and in sizes.
SHAPES = {
    "x": ("[batch size, input size]", (3, 4)),
    "h_prev": ("[batch size, cell size]", (3, 5)),
    "w_ru": ("[input size + cell size, 2 * cell size]", (9, 10)),
    "w_c": ("[input size + cell size, cell size]", (9, 5)),
    "b_ru": ("[2 * cell size]", (10,)),
    "b_c": ("[cell size]", (5,)),
}
GATE = ("[batch size, cell size]", (3, 5))
GRAD_SHAPES = {
    **SHAPES,
    **dict.fromkeys(("r", "u", "c", "d_h", "d_r", "d_u", "d_c"), GATE),
}


def arguments(dtype=np.float32):
    return cell_arguments(0, BATCH, INPUTS, UNITS, dtype)


def grad_arguments():
    values = arguments()
    for name in list(GRAD_SHAPES)[6:]:
        values[name] = np.full((BATCH, UNITS), 0.5, np.float32)
    return values


def call_grad(values):
    values = list(values.values())
    return _ops.fused_rnn_gru_block_cell_grad(*values[:10], values[10:])


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


# x and h_prev state the sizes, so that a wrong one shows in the next argument
# that disagrees: rank or axis -> the argument named.
def named(name, wrong):
    if name == "x" and len(wrong) == 2:
        return "h_prev" if wrong[0] != BATCH else "w_ru"
    if name == "h_prev" and len(wrong) == 2 and wrong[1] != UNITS:
        return "w_ru"
    return name


def cases(shapes):
    return [
        pytest.param(name, wrong, id=f"{name}-{text(wrong)}")
        for name, (_, shape) in shapes.items()
        for wrong in wrong_shapes(shape)
    ]


def check_message(message, name, wrong, shapes):
    culprit = named(name, wrong)
    words, _ = shapes[culprit]
    assert f"{culprit} must have shape {words}" in message
    # What came: the wrong shape itself, of whichever argument.
    assert text(wrong) in message
    if culprit != name or name not in ("x", "h_prev"):
        expected = re.search(r"= (\[[\d,]*\]), got (\[[\d,]*\])", message)
        assert expected and expected[1] != expected[2]
        assert "(x is [" in message and "h_prev is [" in message


@pytest.mark.parametrize("name, wrong", cases(SHAPES))
def test_wrong_shape(name, wrong):
    values = arguments()
    values[name] = np.zeros(wrong, np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        fused_rnn.gru_block_cell(**values)
    check_message(str(error.value), name, wrong, SHAPES)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        tf.raw_ops.GRUBlockCell(**values)
    check_message(str(error.value), name, wrong, SHAPES)


@pytest.mark.parametrize("name, wrong", cases(GRAD_SHAPES))
def test_wrong_shape_of_gradient(name, wrong):
    values = grad_arguments()
    values[name] = np.zeros(wrong, np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        call_grad(values)
    check_message(str(error.value), name, wrong, GRAD_SHAPES)


WEIGHT_GRAD_SHAPES = {
    "x": SHAPES["x"], "h_prev": SHAPES["h_prev"], "r": GATE, "d_c_bar": GATE,
    "d_r_bar_u_bar": ("[batch size, 2 * cell size]", (3, 10)),
}


@pytest.mark.parametrize("name, wrong", [
    # x alone has the input size, and any will do.
    case for case in cases(WEIGHT_GRAD_SHAPES)
    if case.values not in [("x", (3, 5)), ("x", (3, 3))]
])
def test_wrong_shape_of_weight_gradient(name, wrong):
    values = {
        name: np.zeros(shape, np.float32)
        for name, (_, shape) in WEIGHT_GRAD_SHAPES.items()
    }
    call = _ops.fused_rnn_gru_block_cell_weight_grad
    call(*values.values())
    values[name] = np.zeros(wrong, np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        call(*values.values())
    culprit = name
    if len(wrong) == 2 and name == "x":
        culprit = "h_prev"
    elif len(wrong) == 2 and name == "h_prev" and wrong[1] != UNITS:
        culprit = "r"
    assert f"{culprit} must have shape" in str(error.value)
    assert text(wrong) in str(error.value)
    with pytest.raises(ValueError, match="must have shape") as error:
        in_graph(lambda values: call(*values.values()), values)
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


def call_cell(values):
    return fused_rnn.gru_block_cell(**values)


@pytest.mark.parametrize("name, wrong", cases(GRAD_SHAPES))
def test_contradiction_is_found_while_the_graph_is_built(name, wrong):
    values = grad_arguments()
    values[name] = np.zeros(wrong, np.float32)
    with pytest.raises(ValueError, match="must have shape") as error:
        in_graph(call_grad, values)
    assert text(wrong) in str(error.value)
    if name in SHAPES:
        del values["d_r"], values["d_u"], values["d_c"], values["d_h"]
        del values["r"], values["u"], values["c"]
        with pytest.raises(ValueError, match="must have shape") as error:
            in_graph(call_cell, values)
        assert text(wrong) in str(error.value)


@pytest.mark.parametrize("source", ["x", *list(GRAD_SHAPES)[2:]])
def test_sizes_are_inferred_from_any_input(source):
    """All shapes unknown but one, and what it alone determines."""
    values = grad_arguments()
    unknown = {
        name: [None] * value.ndim
        for name, value in values.items() if name != source
    }
    d_x, d_h_prev, d_c_bar, d_gates = in_graph(call_grad, values, unknown)
    batch, inputs, units = d_x.shape[0], d_x.shape[1], d_h_prev.shape[1]
    knows_units = source not in ("x",)
    assert units == (UNITS if knows_units else None)
    assert d_gates.shape[1] == (2 * UNITS if knows_units else None)
    assert inputs == (INPUTS if source in ("x", "w_ru", "w_c") else None)
    knows_batch = source not in ("w_ru", "w_c", "b_ru", "b_c")
    for tensor in (d_x, d_h_prev, d_c_bar, d_gates):
        assert tensor.shape[0] == (BATCH if knows_batch else None)
    assert d_c_bar.shape.as_list() == d_h_prev.shape.as_list()
    assert batch == d_h_prev.shape[0]


def test_cell_size_follows_from_rows_and_input_size():
    values = arguments()
    unknown = {
        name: [None] * value.ndim for name, value in values.items()
    }
    specs = {**unknown, "x": [None, INPUTS], "w_c": [INPUTS + UNITS, None]}
    outputs = in_graph(call_cell, values, specs)
    for output in outputs:
        assert output.shape.as_list() == [None, UNITS]
    # Unknown ranks are no contradiction, and outputs still are matrices.
    ranks = in_graph(call_cell, values, dict.fromkeys(values, None))
    assert [output.shape.rank for output in ranks] == [2] * 4


@pytest.mark.parametrize("name", CELL_INPUTS)
def test_wrong_dtype(name):
    values = arguments()
    values[name] = values[name].astype(np.float64)
    with pytest.raises(TypeError) as error:
        fused_rnn.gru_block_cell(**values)
    # x sets the dtype, so that the next argument disagrees with it.
    culprit = "h_prev" if name == "x" else name
    assert f"{culprit} must have the dtype of x" in str(error.value)
    assert {"float32", "float64"} <= set(re.findall(r"\w+", str(error.value)))


@pytest.mark.parametrize("dtype", [np.int32, np.complex64, np.bool_])
def test_unsupported_dtype(dtype):
    values = {
        name: value.astype(dtype) for name, value in arguments().items()
    }
    with pytest.raises(TypeError, match="x must have dtype float32") as error:
        fused_rnn.gru_block_cell(**values)
    assert np.dtype(dtype).name in str(error.value)


def test_not_a_tensor():
    values = arguments()
    values["w_c"] = object()
    with pytest.raises((TypeError, ValueError), match="w_c must be a tensor"):
        fused_rnn.gru_block_cell(**values)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_wrong_number_of_gate_gradients(count):
    values = list(grad_arguments().values())
    gates = values[10:11] * count
    message = "d_r, d_u and d_c"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        _ops.fused_rnn_gru_block_cell_grad(*values[:10], gates)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match=message):
            _ops.fused_rnn_gru_block_cell_grad(*values[:10], gates)


@pytest.mark.parametrize("inputs, units", [
    (2**62, 2**62),  # input size + cell size overflows
    (0, 2**62),  # 2 * cell size overflows
])
def test_sizes_that_overflow(inputs, units):
    """Empty tensors may claim any size."""
    @tf.function(
        input_signature=[tf.TensorSpec([None, None])] * 4
        + [tf.TensorSpec([None])] * 2
    )
    def call(*values):
        return fused_rnn.gru_block_cell(*values)

    def empty(*shape):
        return tf.zeros(shape)

    with pytest.raises(tf.errors.InvalidArgumentError, match="below 2\\^63"):
        call(
            empty(0, inputs), empty(0, units), empty(0, 0), empty(0, 0),
            empty(0), empty(0),
        )


def test_enormous_empty_batch():
    """No loop runs over rows that hold nothing."""
    batch = 2**40
    h = fused_rnn.gru_block_cell(
        tf.zeros([batch, 0]), tf.zeros([batch, 0]), tf.zeros([0, 0]),
        tf.zeros([0, 0]), tf.zeros([0]), tf.zeros([0]),
    ).h
    assert h.shape == [batch, 0]
