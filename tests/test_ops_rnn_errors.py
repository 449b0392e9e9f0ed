"""What wrong arguments of the sequence ops bring, eagerly and in graphs."""

import re

import numpy as np
import pytest
import tensorflow as tf
from helpers import first_states, rnn_arguments
from helpers_rnn import CELLS, differentiable, each_function, fused

from fused_rnn import _library

_ops = _library.load()

B, T, I, H = 3, 4, 2, 5
LISTS = (
    "h0", "c0", "bias", "mask", "recurrent_dropout_mask", "d_outputs",
    "d_state", "d_cell_state",
)


class Cell:
    """A cell's ops: their inputs in order, and what each of these must be."""

    def __init__(self, name):
        case = CELLS[name]
        gates = case.gates
        slots = 1 if gates == 1 else 4
        self.name = case.name
        self.options = case.options

        def multiple(count):
            return "units" if count == 1 else f"{count} * units"

        columns, slot_columns = multiple(gates), multiple(slots)
        sequence = ("[batch size, steps, units]", (B, T, H))
        state = ("[batch size, units]", (B, H))
        reserve = (f"[steps, batch size, {slot_columns}]", (T, B, slots * H))
        masks = "1" if gates == 1 else f"{gates} or 1"
        bias = {
            "gru_after": ("[2, 3 * units] with reset_after", (2, 3 * H)),
            "gru_before": ("[3 * units] without reset_after", (3 * H,)),
        }.get(name, (f"[{columns}]", (gates * H,)))
        # In the order of the inputs of forward and gradient op.
        shapes = {
            "x": ("[batch size, steps, input size]", (B, T, I)),
            **dict.fromkeys(first_states(case), state),
            "kernel": (f"[input size, {columns}]", (I, gates * H)),
            "recurrent_kernel": (f"[units, {columns}]", (H, gates * H)),
            "bias": bias,
            "mask": ("[batch size, steps]", (B, T)),
            "recurrent_dropout_mask": (
                f"[{masks}, batch size, units]", (gates, B, H)
            ),
        }
        forward = list(shapes)
        shapes["outputs"] = sequence
        if self.name == "lstm":
            shapes["cell_states"] = ("[steps, batch size, units]", (T, B, H))
        if self.name != "simple_rnn":
            shapes["reserve"] = reserve
        shapes["d_outputs"] = sequence
        shapes["d_state"] = state
        if self.name == "lstm":
            shapes["d_cell_state"] = state
        self.ops = {
            "": forward,
            "_grad": list(shapes),
            "_input_grad": ["kernel", "mask", "d_gates"],
            "_weight_grad": [
                "x", "h0", "mask", "recurrent_dropout_mask", "outputs",
                "d_gates",
            ],
        }
        shapes["d_gates"] = reserve
        self.words = {name: words for name, (words, _) in shapes.items()}
        self.shapes = {name: shape for name, (_, shape) in shapes.items()}
        self.gates, self.slots = gates, slots

    def arguments(self, op, **shapes):
        """Zeros for each input of an op, some of them of another shape."""
        return {
            name: np.zeros(
                shapes.get(name, self.shapes[name]),
                bool if name == "mask" else np.float32,
            )
            for name in self.ops[op]
        }

    def op(self, suffix):
        return getattr(_ops, f"fused_rnn_{self.name}{suffix}")

    def call(self, op, values, **options):
        if op == "_weight_grad":
            options.setdefault("num_bias", 1)
        if op != "_input_grad":
            options = {**self.options, **options}
        return self.op(op)(
            **{n: [v] if n in LISTS else v for n, v in values.items()},
            **options,
        )

    def contradicts(self, op, name, wrong):
        shape = self.shapes[name]
        if len(wrong) != len(shape):
            return True
        # The input size stands in no other argument.
        free = {("_input_grad", "kernel"): 0, ("_weight_grad", "x"): 2}
        axis = free.get((op, name))
        return axis is None or wrong[axis] == shape[axis]


OF = {name: Cell(name) for name in CELLS}
each_cell = pytest.mark.parametrize("cell", OF.values(), ids=OF)


def text(shape):
    return "[" + ",".join(map(str, shape)) + "]"


def wrong_shapes(shape):
    """Every axis one longer and one shorter, and ranks too low and too high."""
    for axis in range(len(shape)):
        for change in (1, -1):
            yield shape[:axis] + (shape[axis] + change,) + shape[axis + 1 :]
    yield shape[1:]
    yield (1, *shape)


CASES = [
    pytest.param(cell, op, name, wrong, id=f"{key}{op}-{name}-{text(wrong)}")
    for key, cell in OF.items()
    for op, names in cell.ops.items()
    for name in names
    for wrong in wrong_shapes(cell.shapes[name])
    if cell.contradicts(op, name, wrong)
]


def check(message, cell, name, wrong):
    """The message names an argument, what it must be, and what came."""
    culprit = re.search(r"(\w+) must have shape (\[[^\]]*\][a-z_ ]*)", message)
    assert culprit, message
    assert culprit[2].strip() == cell.words[culprit[1]], message
    # The wrong shape itself is in it, of whichever argument: x, the weights
    # and d_gates state the sizes, so that others may disagree with them.
    assert text(wrong) in message, message
    if name not in ("x", "kernel", "recurrent_kernel", "d_gates"):
        assert culprit[1] == name, message
        expected = re.search(r"= (\[[\d,?]*\]), got (\[[\d,?]*\])", message)
        assert expected and expected[1] != expected[2], message


@pytest.mark.parametrize("cell, op, name, wrong", CASES)
def test_wrong_shape(cell, op, name, wrong):
    values = cell.arguments(op, **{name: wrong})
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        cell.call(op, values)
    check(str(error.value), cell, name, wrong)


@pytest.mark.parametrize("cell, op, name, wrong", CASES)
def test_contradiction_is_found_while_the_graph_is_built(
    cell, op, name, wrong
):
    values = cell.arguments(op, **{name: wrong})
    with tf.Graph().as_default():
        with pytest.raises(ValueError) as error:
            cell.call(op, values)
    check(str(error.value), cell, name, wrong)


def test_bias_of_the_other_convention():
    for name, wrong in (("gru_after", (3 * H,)), ("gru_before", (2, 3 * H))):
        cell = OF[name]
        values = cell.arguments("", bias=wrong)
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            cell.call("", values)
        assert f"bias must have shape {cell.words['bias']}" in str(error.value)


# The sizes that each input of a forward op alone determines.
KNOWN = {
    "x": "BTI", "h0": "BH", "c0": "BH", "kernel": "IH", "recurrent_kernel": "H",
    "bias": "H", "mask": "BT", "recurrent_dropout_mask": "BH",
}


@each_cell
@pytest.mark.parametrize("time_major", [True, False])
def test_sizes_are_inferred_from_any_input(time_major, cell):
    """All shapes unknown but one, and what it alone determines."""
    values = cell.arguments("_grad")
    if time_major:
        for name in ("x", "outputs", "d_outputs"):
            values[name] = np.swapaxes(values[name], 0, 1)
    for source in cell.ops[""]:
        with tf.Graph().as_default():
            check_inferred(cell, time_major, source, values)


def check_inferred(cell, time_major, source, values):
    batch, steps, inputs, units = (
        size if name in KNOWN[source] else None
        for name, size in zip("BTIH", (B, T, I, H))
    )
    tensors = {
        name: tf.compat.v1.placeholder(
            value.dtype, value.shape if name == source else [None] * value.ndim
        )
        for name, value in values.items()
    }
    layout = dict(time_major=time_major)
    forward = {name: tensors[name] for name in cell.ops[""]}
    outputs, *others = cell.call("", forward, **layout)
    *d_first, d_gates = cell.call("_grad", tensors, **layout)
    sequence = [steps, batch] if time_major else [batch, steps]
    slots = units and cell.slots * units
    assert outputs.shape.as_list() == [*sequence, units]
    states, kept = others[: len(d_first)], others[len(d_first) :]
    for state in (*states, *d_first):
        assert state.shape.as_list() == [batch, units]
    if cell.name == "lstm":
        assert kept.pop(0).shape.as_list() == [steps, batch, units]
    for value in (*kept, d_gates):
        assert value.shape.as_list() == [steps, batch, slots]
    # What follows from these and one more input.
    d_x = cell.call(
        "_input_grad",
        dict(kernel=tensors["kernel"], mask=tensors["mask"], d_gates=d_gates),
        **layout,
    )
    if source in ("kernel", "recurrent_kernel", "mask"):
        expected = [*sequence, inputs if source == "kernel" else None]
        assert d_x.shape.as_list() == expected


@each_cell
def test_sizes_are_inferred_for_weights(cell):
    with tf.Graph().as_default():
        d_kernel, d_recurrent, (d_bias,) = cell.op("_weight_grad")(
            x=tf.compat.v1.placeholder(tf.float32, [None, None, I]),
            h0=[], mask=[], recurrent_dropout_mask=[],
            outputs=tf.compat.v1.placeholder(tf.float32, [None] * 3),
            d_gates=tf.compat.v1.placeholder(
                tf.float32, [None, None, cell.slots * H]
            ),
            num_bias=1, **cell.options,
        )
        assert d_kernel.shape == [I, cell.gates * H]
        assert d_recurrent.shape == [H, cell.gates * H]
        assert d_bias.shape == cell.shapes["bias"]


def api_arguments(cell):
    """For a function of the package, whose every argument is there."""
    return {**rnn_arguments(
        cell, 0, B, T, I, H, np.float32, mask=True, dropout=True
    ), **cell.options}


@each_function
def test_wrong_dtype(cell):
    given = (*differentiable(cell)[1:], "recurrent_dropout_mask")
    for name in given:
        values = api_arguments(cell)
        values[name] = values[name].astype(np.float64)
        with pytest.raises(TypeError) as error:
            fused(cell)(**values)
        assert f"{name} must have the dtype of x, float32" in str(error.value)
        assert "float64" in str(error.value)


@each_function
@pytest.mark.parametrize("dtype", [np.int32, np.complex64, np.bool_])
def test_unsupported_dtype(dtype, cell):
    values = api_arguments(cell)
    values["x"] = values["x"].astype(dtype)
    with pytest.raises(TypeError, match="x must have dtype float32"):
        fused(cell)(**values)


@each_function
def test_unknown_activation(cell):
    ops = Cell("gru_after" if cell.name == "gru" else cell.name)
    for name in cell.activations:
        message = f"^{name} must be one of tanh, .*gelu"
        with pytest.raises(ValueError, match=message):
            fused(cell)(**api_arguments(cell), **{name: "gelu"})
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            ops.call("", ops.arguments(""), **{name: "gelu"})


@each_function
def test_masks_of_other_dtypes(cell):
    """Whatever converts to a truth value is a mask."""
    values = api_arguments(cell)
    expected = fused(cell)(**values)
    for dtype in (np.float32, np.int64):
        values["mask"] = values["mask"].astype(dtype)
        np.testing.assert_array_equal(
            fused(cell)(**values).outputs, expected.outputs
        )


@each_cell
def test_two_tensors_where_one_may_be(cell):
    values = cell.arguments("")
    for name in set(values) & set(LISTS):
        lists = {n: [v] if n in LISTS else v for n, v in values.items()}
        lists[name] = lists[name] * 2
        message = f"{name} must hold at most one tensor, got 2"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            cell.op("")(**lists)
        with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
            cell.op("")(**lists)


def run_unchecked(cell, op, values):
    """Runs an op on shapes that its graph does not know."""
    names = list(values)
    tensors = list(values.values())

    @tf.function(
        input_signature=[tf.TensorSpec(None, v.dtype) for v in tensors]
    )
    def function(*arguments):
        return cell.call(op, dict(zip(names, arguments)))

    return function(*tensors)


HUGE = 2**40


def empty_arguments(cell, op, **shapes):
    """Of no size, but where `shapes` says so."""
    leading = {
        "bias": cell.shapes["bias"][:-1], "recurrent_dropout_mask": (1,)
    }
    given = {}
    for name, shape in cell.shapes.items():
        first = leading.get(name, ())
        given[name] = (*first, *[0] * (len(shape) - len(first)))
    return {
        name: tf.zeros(
            shapes.get(name, given[name]),
            tf.bool if name == "mask" else tf.float32,
        )
        for name in cell.ops[op]
    }


@each_cell
@pytest.mark.parametrize("shape, units", [
    ((HUGE, HUGE, 0), 1),  # x has more rows than numbers can count
    ((HUGE, 0, HUGE), 1),  # steps * batch size * input size
    ((HUGE, HUGE, 0), 0),
])
def test_sizes_that_overflow(shape, units, cell):
    """Empty tensors may claim any size."""
    columns = cell.gates * units
    with pytest.raises(
        (tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError)
    ):
        values = empty_arguments(
            cell, "", x=shape, kernel=[0, columns],
            recurrent_kernel=[units, columns],
            bias=[*cell.shapes["bias"][:-1], columns],
        )
        run_unchecked(cell, "", values)


@each_cell
def test_enormous_units_of_nothing(cell):
    """A product of sizes that no tensor holds, but results would have."""
    units = 2**61
    values = empty_arguments(
        cell, "_weight_grad", x=[0, 0, 1], d_gates=[0, 0, units]
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="below 2\\^63"):
        cell.call("_weight_grad", values)


@each_function
def test_enormous_empty_batch(cell):
    """No loop runs over rows or steps that hold nothing."""
    for shape in ((HUGE, 3, 0), (3, HUGE, 0), (0, HUGE, 2)):
        values = dict.fromkeys(first_states(cell))
        outputs, *states = fused(cell)(
            x=tf.zeros(shape), kernel=tf.zeros([shape[2], 0]),
            recurrent_kernel=tf.zeros([0, 0]), **values,
        )
        assert outputs.shape == [*shape[:2], 0]
        for state in states:
            assert state.shape == [shape[0], 0]
