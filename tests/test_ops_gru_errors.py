"""What wrong arguments of the sequence ops bring, eagerly and in graphs."""

import re

import numpy as np
import pytest
import tensorflow as tf
from helpers import gru_arguments

import fused_rnn
from fused_rnn import _library

_ops = _library.load()

B, T, I, H = 3, 4, 2, 5

# What each argument must be, in words and in sizes.
SHAPES = {
    "x": ("[batch size, steps, input size]", (B, T, I)),
    "h0": ("[batch size, units]", (B, H)),
    "kernel": ("[input size, 3 * units]", (I, 3 * H)),
    "recurrent_kernel": ("[units, 3 * units]", (H, 3 * H)),
    "bias": ("[2, 3 * units] with reset_after", (2, 3 * H)),
    "mask": ("[batch size, steps]", (B, T)),
    "recurrent_dropout_mask": ("[3, batch size, units]", (3, B, H)),
    "outputs": ("[batch size, steps, units]", (B, T, H)),
    "reserve": ("[steps, batch size, 4 * units]", (T, B, 4 * H)),
    "d_outputs": ("[batch size, steps, units]", (B, T, H)),
    "d_state": ("[batch size, units]", (B, H)),
    "d_gates": ("[steps, batch size, 4 * units]", (T, B, 4 * H)),
}
# The ops, their inputs in order, and which of these are lists.
FORWARD = list(SHAPES)[:7]
OPS = {
    "gru": FORWARD,
    "gru_grad": list(SHAPES)[:11],
    "gru_input_grad": ["kernel", "mask", "d_gates"],
    "gru_weight_grad": [
        "x", "h0", "mask", "recurrent_dropout_mask", "outputs", "d_gates"
    ],
}
LISTS = (
    "h0", "bias", "mask", "recurrent_dropout_mask", "d_outputs", "d_state"
)


def arguments(op, **shapes):
    """Zeros for each input of an op, some of them of another shape."""
    return {
        name: np.zeros(
            shapes.get(name, SHAPES[name][1]),
            bool if name == "mask" else np.float32,
        )
        for name in OPS[op]
    }


def call(op, values, **options):
    function = getattr(_ops, f"fused_rnn_{op}")
    if op == "gru_weight_grad":
        options.setdefault("num_bias", 1)
    return function(
        **{n: [v] if n in LISTS else v for n, v in values.items()}, **options
    )


def text(shape):
    return "[" + ",".join(map(str, shape)) + "]"


def wrong_shapes(shape):
    """Every axis one longer and one shorter, and ranks too low and too high."""
    for axis in range(len(shape)):
        for change in (1, -1):
            yield shape[:axis] + (shape[axis] + change,) + shape[axis + 1 :]
    yield shape[1:]
    yield (1, *shape)


# The input size stands in no other argument.
FREE = {("gru_input_grad", "kernel", 0), ("gru_weight_grad", "x", 2)}


def contradicts(op, name, wrong):
    shape = SHAPES[name][1]
    return len(wrong) != len(shape) or not any(
        (op, name, axis) in FREE and wrong[axis] != shape[axis]
        for axis in range(len(shape))
    )


CASES = [
    pytest.param(op, name, wrong, id=f"{op}-{name}-{text(wrong)}")
    for op, names in OPS.items()
    for name in names
    for wrong in wrong_shapes(SHAPES[name][1])
    if contradicts(op, name, wrong)
]


def check(message, op, name, wrong):
    """The message names an argument, what it must be, and what came."""
    culprit = re.search(r"(\w+) must have shape (\[[^\]]*\][a-z_ ]*)", message)
    assert culprit, message
    assert culprit[2].strip() == SHAPES[culprit[1]][0], message
    # The wrong shape itself is in it, of whichever argument: x, the weights
    # and d_gates state the sizes, so that others may disagree with them.
    assert text(wrong) in message, message
    if name not in ("x", "kernel", "recurrent_kernel", "d_gates"):
        assert culprit[1] == name, message
        expected = re.search(r"= (\[[\d,?]*\]), got (\[[\d,?]*\])", message)
        assert expected and expected[1] != expected[2], message


@pytest.mark.parametrize("op, name, wrong", CASES)
def test_wrong_shape(op, name, wrong):
    values = arguments(op, **{name: wrong})
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        call(op, values)
    check(str(error.value), op, name, wrong)


@pytest.mark.parametrize("op, name, wrong", CASES)
def test_contradiction_is_found_while_the_graph_is_built(op, name, wrong):
    values = arguments(op, **{name: wrong})
    with tf.Graph().as_default():
        with pytest.raises(ValueError) as error:
            call(op, values)
    check(str(error.value), op, name, wrong)


def test_bias_of_the_other_convention():
    for reset_after, wrong, words in (
        (True, (3 * H,), "[2, 3 * units] with reset_after"),
        (False, (2, 3 * H), "[3 * units] without reset_after"),
    ):
        values = arguments("gru", bias=wrong)
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            call("gru", values, reset_after=reset_after)
        assert f"bias must have shape {words}" in str(error.value)


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("source", FORWARD)
def test_sizes_are_inferred_from_any_input(source, time_major):
    """All shapes unknown but one, and what it alone determines."""
    knows = {
        "x": "BTI", "h0": "BH", "kernel": "IH", "recurrent_kernel": "H",
        "bias": "H", "mask": "BT", "recurrent_dropout_mask": "BH",
    }[source]
    batch, steps, inputs, units = (
        size if name in knows else None
        for name, size in zip("BTIH", (B, T, I, H))
    )
    values = arguments("gru_grad")
    if time_major:
        for name in ("x", "outputs", "d_outputs"):
            values[name] = np.swapaxes(values[name], 0, 1)
    with tf.Graph().as_default():
        tensors = {
            name: tf.compat.v1.placeholder(
                value.dtype, value.shape if name == source
                else [None] * value.ndim,
            )
            for name, value in values.items()
        }
        forward = {name: tensors[name] for name in FORWARD}
        outputs, state, reserve = call("gru", forward, time_major=time_major)
        d_h0, d_gates = call("gru_grad", tensors, time_major=time_major)
        sequence = [steps, batch] if time_major else [batch, steps]
        four = units and 4 * units
        assert outputs.shape.as_list() == [*sequence, units]
        assert state.shape.as_list() == d_h0.shape.as_list() == [batch, units]
        assert reserve.shape.as_list() == [steps, batch, four]
        assert d_gates.shape.as_list() == [steps, batch, four]
        # What follows from these and one more input.
        d_x = call(
            "gru_input_grad",
            dict(kernel=tensors["kernel"], mask=tensors["mask"],
                 d_gates=d_gates),
            time_major=time_major,
        )
        expected = [*sequence, inputs if source == "kernel" else None]
        if source not in ("x", "bias", "h0", "recurrent_dropout_mask"):
            assert d_x.shape.as_list() == expected


def test_sizes_are_inferred_for_weights():
    with tf.Graph().as_default():
        unknown = [None] * 3
        d_kernel, d_recurrent, (d_bias,) = _ops.fused_rnn_gru_weight_grad(
            x=tf.compat.v1.placeholder(tf.float32, [None, None, I]),
            h0=[], mask=[], recurrent_dropout_mask=[],
            outputs=tf.compat.v1.placeholder(tf.float32, unknown),
            d_gates=tf.compat.v1.placeholder(
                tf.float32, [None, None, 4 * H]
            ),
            num_bias=1, reset_after=False,
        )
        assert d_kernel.shape == [I, 3 * H]
        assert d_recurrent.shape == [H, 3 * H]
        assert d_bias.shape == [3 * H]


def api_arguments():
    return gru_arguments(
        0, B, T, I, H, np.float32, reset_after=True, mask=True, dropout=True
    )


@pytest.mark.parametrize(
    "name",
    ["h0", "kernel", "recurrent_kernel", "bias", "recurrent_dropout_mask"],
)
def test_wrong_dtype(name):
    values = api_arguments()
    values[name] = values[name].astype(np.float64)
    with pytest.raises(TypeError) as error:
        fused_rnn.gru(**values)
    assert f"{name} must have the dtype of x, float32" in str(error.value)
    assert "float64" in str(error.value)


@pytest.mark.parametrize("dtype", [np.int32, np.complex64, np.bool_])
def test_unsupported_dtype(dtype):
    values = api_arguments()
    values["x"] = values["x"].astype(dtype)
    with pytest.raises(TypeError, match="x must have dtype float32"):
        fused_rnn.gru(**values)


@pytest.mark.parametrize("name", ["activation", "recurrent_activation"])
def test_unknown_activation(name):
    message = f"^{name} must be one of tanh, .*gelu"
    with pytest.raises(ValueError, match=message):
        fused_rnn.gru(**api_arguments(), **{name: "gelu"})
    values = arguments("gru")
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        call("gru", values, **{name: "gelu"})


def test_masks_of_other_dtypes():
    """Whatever converts to a truth value is a mask."""
    values = api_arguments()
    expected = fused_rnn.gru(**values)
    for dtype in (np.float32, np.int64):
        values["mask"] = values["mask"].astype(dtype)
        np.testing.assert_array_equal(
            fused_rnn.gru(**values).outputs, expected.outputs
        )


@pytest.mark.parametrize("name", LISTS[:4])
def test_two_tensors_where_one_may_be(name):
    values = arguments("gru")
    lists = {n: [v] if n in LISTS else v for n, v in values.items()}
    lists[name] = lists[name] * 2
    message = f"{name} must hold at most one tensor, got 2"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        _ops.fused_rnn_gru(**lists)
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        _ops.fused_rnn_gru(**lists)


def run_unchecked(op, values, **options):
    """Runs an op on shapes that its graph does not know."""
    names = list(values)
    tensors = list(values.values())

    @tf.function(
        input_signature=[tf.TensorSpec(None, v.dtype) for v in tensors]
    )
    def function(*arguments):
        return call(op, dict(zip(names, arguments)), **options)

    return function(*tensors)


HUGE = 2**40


@pytest.mark.parametrize("shape, units", [
    ((HUGE, HUGE, 0), 1),  # x has more rows than numbers can count
    ((HUGE, 0, HUGE), 1),  # steps * batch size * input size
    ((HUGE, HUGE, 0), 0),
])
def test_sizes_that_overflow(shape, units):
    """Empty tensors may claim any size."""
    batch, steps, inputs = shape
    with pytest.raises(
        (tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError)
    ):
        run_unchecked(
            "gru",
            dict(
                x=tf.zeros(shape), kernel=tf.zeros([0, 3 * units]),
                recurrent_kernel=tf.zeros([units, 3 * units]),
                h0=tf.zeros([0, 0]), bias=tf.zeros([2, 3 * units]),
                mask=tf.zeros([0, 0], tf.bool),
                recurrent_dropout_mask=tf.zeros([3, 0, 0]),
            ),
        )


def test_enormous_units_of_nothing():
    """A product of sizes that no tensor holds, but results would have."""
    units = 2**61
    with pytest.raises(tf.errors.InvalidArgumentError, match="below 2\\^63"):
        call(
            "gru_weight_grad",
            dict(
                x=tf.zeros([0, 0, 1]), h0=tf.zeros([0, 0]),
                mask=tf.zeros([0, 0], tf.bool),
                recurrent_dropout_mask=tf.zeros([3, 0, 0]),
                outputs=tf.zeros([0, 0, 0]), d_gates=tf.zeros([0, 0, units]),
            ),
        )


def test_enormous_empty_batch():
    """No loop runs over rows or steps that hold nothing."""
    for shape in ((HUGE, 3, 0), (3, HUGE, 0), (0, HUGE, 2)):
        outputs, state = fused_rnn.gru(
            tf.zeros(shape), None, tf.zeros([shape[2], 0]), tf.zeros([0, 0])
        )
        assert outputs.shape == [*shape[:2], 0]
        assert state.shape == [shape[0], 0]
