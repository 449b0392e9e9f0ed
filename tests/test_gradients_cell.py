"""Registered gradients of the block cell, in every way TensorFlow asks."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import CELL_INPUTS, CELL_OUTPUTS, cell_arguments, cell_gradients

import fused_rnn
from fused_rnn import _library, reference

_ops = _library.load()

# compute_gradient takes central differences with this step: they err by
# step^2/6 of a third derivative of order 1, and by eps/step.
STEP = 2.0**-17
TOLERANCE = 1e-9
SHAPE = (3, 4, 5)


@pytest.fixture
def inputs():
    return {
        name: tf.constant(value)
        for name, value in cell_arguments(0, *SHAPE, np.float64).items()
    }


@pytest.fixture
def incoming():
    batch, _, units = SHAPE
    return [
        tf.constant(value)
        for value in cell_gradients(1, batch, units, np.float64).values()
    ]


def check_jacobians(function, arguments):
    theoretical, numerical = tf.test.compute_gradient(
        function, arguments, delta=STEP
    )
    for theory, number in zip(theoretical, numerical):
        np.testing.assert_allclose(theory, number, rtol=0, atol=TOLERANCE)


def plain_cell(x, h_prev, w_ru, w_c, b_ru, b_c):
    """The cell in TensorFlow's own ops: what derivatives must equal."""
    r, u = tf.split(
        tf.sigmoid(tf.concat([x, h_prev], 1) @ w_ru + b_ru), 2, axis=1
    )
    c = tf.tanh(tf.concat([x, r * h_prev], 1) @ w_c + b_c)
    return r, u, c, u * h_prev + (1.0 - u) * c


def gradient(cell, inputs, incoming):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = cell(*inputs)
    return tape.gradient(outputs, inputs, incoming)


def assert_close(actual, expected):
    # Two float64 computations of a few hundred terms of order 1.
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("output", CELL_OUTPUTS)
@pytest.mark.parametrize("name", CELL_INPUTS)
def test_first_order(inputs, name, output):
    def function(value):
        return getattr(
            fused_rnn.gru_block_cell(**{**inputs, name: value}), output
        )

    check_jacobians(function, [inputs[name]])


def flat(tensors):
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


def test_second_order(inputs, incoming):
    """The gradient of every gradient, for all inputs and outputs."""

    @tf.function
    def function(*arguments):
        return flat(gradient(
            fused_rnn.gru_block_cell, arguments[:6], list(arguments[6:])
        ))

    check_jacobians(function, [*inputs.values(), *incoming])


@pytest.mark.parametrize("with_gates", [True, False])
def test_gradient_op_alone(inputs, incoming, with_gates):
    """Its r, u and c are inputs of their own, whatever the forward op says."""
    *d_gates, d_h = incoming
    rng = np.random.default_rng(2)
    gates = [tf.constant(rng.uniform(0.1, 0.9, d_h.shape)) for _ in range(3)]

    @tf.function
    def function(*arguments):
        return flat(_ops.fused_rnn_gru_block_cell_grad(
            *arguments[:10], list(arguments[10:])
        ))

    values = [*inputs.values(), *gates, d_h]
    check_jacobians(function, values + d_gates if with_gates else values)


def test_gradient_of_tensorflows_ops():
    inputs = [
        tf.constant(value)
        for value in cell_arguments(0, *SHAPE, np.float32).values()
    ]
    incoming = [
        tf.constant(value)
        for value in cell_gradients(1, SHAPE[0], SHAPE[2], np.float32).values()
    ]

    def raw(*arguments):
        return tf.raw_ops.GRUBlockCell(
            **dict(zip(CELL_INPUTS, arguments))
        )

    def second(cell):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            first = gradient(cell, inputs, incoming)
            total = sum(tf.reduce_sum(g * g) for g in first)
        return first, tape.gradient(total, inputs)

    for actual, expected in zip(second(raw), second(plain_cell)):
        for a, e in zip(actual, expected):
            # Sums of some tens of float32 products of order 10.
            np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-4)

    # The op for the gradient, too, exists in core, without d_gates.
    r, u, c, _ = raw(*inputs)
    with tf.GradientTape() as tape:
        tape.watch(incoming[3])
        d_x = tf.raw_ops.GRUBlockCellGrad(
            **dict(zip(CELL_INPUTS, inputs)), r=r, u=u, c=c, d_h=incoming[3]
        )[0]
    assert tape.gradient(d_x, incoming[3]).shape == incoming[3].shape


def test_third_order(inputs, incoming):
    def third(cell):
        values = list(inputs.values())
        with tf.GradientTape() as outer:
            outer.watch(values)
            with tf.GradientTape() as inner:
                inner.watch(values)
                first = gradient(cell, values, incoming)
                total = sum(tf.reduce_sum(g * g) for g in first)
            second = inner.gradient(total, values)
            total = sum(tf.reduce_sum(g * g) for g in second)
        return outer.gradient(total, values)

    assert_close(
        [g / tf.reduce_max(abs(g)) for g in third(fused_rnn.gru_block_cell)],
        [g / tf.reduce_max(abs(g)) for g in third(plain_cell)],
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_gradient_penalty_and_hessian_product(inputs, compiled):
    values = list(inputs.values())

    def penalty(cell):
        with tf.GradientTape() as tape:
            tape.watch(values)
            d_x = gradient(lambda x: cell(x, *values[1:]).h, [values[0]], None)
            loss = tf.reduce_sum(d_x[0] ** 2)
        return tape.gradient(loss, values)

    def hessian_product(cell):
        # Forward over backward.
        tangents = [tf.ones_like(value) for value in values]
        with tf.autodiff.ForwardAccumulator(values, tangents) as accumulator:
            first = gradient(lambda *v: cell(*v).h, values, None)
        return accumulator.jvp(first)

    def plain(*arguments):
        return fused_rnn.GRUBlockCellOutput(*plain_cell(*arguments))

    for function in (penalty, hessian_product):
        ours = tf.function(function) if compiled else function
        assert_close(ours(fused_rnn.gru_block_cell), function(plain))


@pytest.mark.parametrize("compiled", [False, True])
def test_forward_accumulator(inputs, compiled):
    def tangents(cell):
        results = []
        for position in range(6):
            values = list(inputs.values())
            value = values[position]
            direction = tf.cos(tf.range(tf.size(value), dtype=value.dtype))
            with tf.autodiff.ForwardAccumulator(
                value, tf.reshape(direction, value.shape)
            ) as accumulator:
                outputs = cell(*values)
            results += [accumulator.jvp(output) for output in outputs]
        return results

    ours = tf.function(tangents) if compiled else tangents
    actual, expected = ours(fused_rnn.gru_block_cell), tangents(plain_cell)
    for a, e in zip(actual, expected, strict=True):
        if e is None:  # The reset gate does not depend on w_c or b_c.
            e = tf.zeros_like(a if a is not None else 0.0)
        np.testing.assert_allclose(a if a is not None else 0.0, e, atol=1e-12)


@pytest.mark.parametrize("output", CELL_OUTPUTS)
@pytest.mark.parametrize("compiled", [False, True])
def test_double_backward_with_watched_zeros(inputs, output, compiled):
    """Zeros that a tape watches are no absence of a gradient."""
    values = list(inputs.values())

    def product(cell):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(values)
                results = cell(*values)
            result = results[CELL_OUTPUTS.index(output)]
            zeros = tf.zeros_like(result)
            outer.watch(zeros)
            first = inner.gradient(result, values[:2], zeros)
        return outer.gradient(first, zeros)

    ours = tf.function(product) if compiled else product
    assert_close(
        [ours(fused_rnn.gru_block_cell)], [product(plain_cell)]
    )


def test_jacobian(inputs):
    values = list(inputs.values())

    @tf.function
    def jacobian(cell):
        with tf.GradientTape() as tape:
            tape.watch(values)
            h = cell(*values)[3]
        return tape.jacobian(h, values)

    assert_close(
        jacobian(fused_rnn.gru_block_cell), jacobian(plain_cell)
    )


def test_variables_and_unwatched_inputs(inputs):
    """An eager tape tells which gradients it will throw away."""
    values = dict(inputs, w_c=tf.Variable(inputs["w_c"]))
    with tf.GradientTape() as tape:
        h = fused_rnn.gru_block_cell(**values).h
    d_w_c = tape.gradient(h, values["w_c"])
    expected = reference.gru_block_cell_grad(
        *[value.numpy() for value in inputs.values()], 0.0, 0.0, 0.0,
        np.ones(h.shape),
    )
    assert_close([d_w_c], [expected["w_c"]])


def test_while_loop(inputs):
    steps = 4
    weights = list(inputs.values())[2:]
    x = tf.constant(np.random.default_rng(3).standard_normal((steps, 3, 4)))

    def loss(cell, loop, h, weights):
        def body(t, h, total):
            outputs = cell(x[t], h, *weights)
            return t + 1, outputs[3], total + tf.reduce_sum(outputs[1] ** 2)

        return loop(
            lambda t, *_: t < steps, body,
            (0, h, tf.constant(0.0, tf.float64)),
        )[1:]

    def gradients(cell, loop):
        values = [inputs["h_prev"], *weights]
        with tf.GradientTape() as tape:
            tape.watch(values)
            h, total = loss(cell, loop, values[0], values[1:])
            objective = total + tf.reduce_sum(h)
        return tape.gradient(objective, values)

    def python_loop(condition, body, state):
        while condition(*state):
            state = body(*state)
        return state

    expected = gradients(plain_cell, python_loop)
    in_graph = tf.function(lambda: gradients(
        fused_rnn.gru_block_cell, tf.while_loop
    ))
    assert_close(in_graph(), expected)
    assert_close(gradients(fused_rnn.gru_block_cell, tf.while_loop), expected)


def test_map_fn(inputs):
    weights = list(inputs.values())[2:]
    rng = np.random.default_rng(4)
    x = tf.constant(rng.standard_normal((2, *inputs["x"].shape)))
    h = tf.constant(rng.standard_normal((2, *inputs["h_prev"].shape)))

    @tf.function
    def gradients(cell):
        with tf.GradientTape() as tape:
            tape.watch([x, h, *weights])
            y = tf.map_fn(
                lambda pair: cell(*pair, *weights)[3], (x, h),
                fn_output_signature=tf.float64,
            )
        return y, *tape.gradient(y, [x, h, *weights])

    assert_close(
        gradients(fused_rnn.gru_block_cell), gradients(plain_cell)
    )


@pytest.mark.parametrize("control_flow_v2", [False, True])
def test_version_1_graph(inputs, incoming, control_flow_v2):
    """tf.gradients, first and second order, also through version 1 loops."""
    values = [value.numpy() for value in inputs.values()]
    was_v2 = tf.compat.v1.control_flow_v2_enabled()
    switch = (
        tf.compat.v1.enable_control_flow_v2
        if control_flow_v2
        else tf.compat.v1.disable_control_flow_v2
    )

    def run(cell):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tensors = [
                tf.compat.v1.placeholder(tf.float64, [None] * value.ndim)
                for value in values
            ]
            grads = [tf.constant(g.numpy()) for g in incoming]
            first = tf.gradients(
                list(cell(*tensors)), tensors, grad_ys=grads
            )
            second = tf.gradients([g ** 2 for g in first], tensors)
            _, h = tf.compat.v1.while_loop(
                lambda t, h: t < 3,
                lambda t, h: (t + 1, cell(tensors[0], h, *tensors[2:])[3]),
                (0, tensors[1]),
            )
            through_loop = tf.gradients(h, tensors)
            return session.run(
                [first, second, through_loop], dict(zip(tensors, values))
            )

    try:
        switch()
        ours, theirs = run(fused_rnn.gru_block_cell), run(plain_cell)
    finally:
        if was_v2:
            tf.compat.v1.enable_control_flow_v2()
        else:
            tf.compat.v1.disable_control_flow_v2()
    for actual, expected in zip(ours, theirs):
        assert_close(actual, expected)


def test_gradients_nobody_asked_for_are_dropped(inputs):
    """A graph without d_r, d_u and d_c makes no zeros for them."""
    values = list(inputs.values())

    @tf.function
    def train(*values):
        return gradient(
            lambda *v: fused_rnn.gru_block_cell(*v).h, list(values), None
        )

    graph = train.get_concrete_function(*values).graph
    (op,) = [
        op for op in graph.get_operations()
        if op.type == "FusedRNN>GRUBlockCellGrad"
    ]
    assert op.get_attr("num_d_gates") == 0


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_that_arrive_as_slices(inputs, compiled):
    """tf.gather sends back the rows that it took."""
    values = list(inputs.values())

    def gradients(cell):
        with tf.GradientTape() as outer:
            outer.watch(values)
            with tf.GradientTape() as tape:
                tape.watch(values)
                results = [tf.gather(y, [2, 0]) for y in cell(*values)]
            first = tape.gradient(results, values)
            taken = [tf.gather(gradient, [1, 0]) for gradient in first]
        return *first, *outer.gradient(taken, values)

    ours = tf.function(gradients) if compiled else gradients
    assert_close(ours(fused_rnn.gru_block_cell), gradients(plain_cell))
