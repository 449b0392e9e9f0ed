"""Registered gradients of the block cells, of first and higher orders."""

import numpy as np
import pytest
import tensorflow as tf
from bounds import unit_roundoff
from helpers_block import (  # noqa: F401  fixtures among them
    BLOCK_CELLS,
    SHAPE,
    arguments_of,
    assert_close,
    cell,
    gradient,
    gradients_of,
    incoming,
    inputs,
)

# compute_gradient takes central differences with this step: they err by
# step^2/6 of a third derivative of order 1, and by eps/step.
STEP = 2.0**-17
TOLERANCE = 1e-9
def check_jacobians(function, arguments):
    theoretical, numerical = tf.test.compute_gradient(
        function, arguments, delta=STEP
    )
    for theory, number in zip(theoretical, numerical):
        np.testing.assert_allclose(theory, number, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("cell, name, output", [
    pytest.param(cell, name, output, id=f"{cell}-{name}-{output}")
    for cell in BLOCK_CELLS.values()
    for name in cell.inputs for output in cell.outputs
], indirect=["cell"])
def test_first_order(cell, inputs, name, output):
    def function(value):
        return getattr(cell.fused(*{**inputs, name: value}.values()), output)

    check_jacobians(function, [inputs[name]])


def flat(tensors):
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


def test_second_order(cell, inputs, incoming):
    """The gradient of every gradient, for all inputs and outputs."""
    count = len(inputs)

    @tf.function
    def function(*arguments):
        return flat(gradient(
            cell.fused, arguments[:count], list(arguments[count:])
        ))

    check_jacobians(function, [*inputs.values(), *incoming])


@pytest.mark.parametrize("with_gates", [True, False])
def test_gradient_op_alone(cell, inputs, with_gates):
    """Its gates are inputs of their own, whatever the forward op says."""
    batch, _, units = SHAPE
    rng = np.random.default_rng(2)

    @tf.function
    def function(*arguments):
        return flat(cell.grad(*arguments))

    names = cell.grad_names()
    if not with_gates:
        names = names[: -len(cell.gates)]
    check_jacobians(function, [
        inputs[name] if name in inputs
        else tf.constant(rng.uniform(0.1, 0.9, (batch, units)))
        for name in names
    ])


def test_gradient_of_tensorflows_ops(cell):
    """TensorFlow's op in float32 against its formula in float64."""
    inputs = [*arguments_of(cell, np.float32).values()]
    incoming = gradients_of(cell, np.float32)

    def second(step, *tensors):
        inputs, incoming = tensors
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            first = gradient(step, inputs, incoming)
            total = sum(tf.reduce_sum(g * g) for g in first)
        return first, tape.gradient(total, inputs)

    exact = [
        [tf.cast(tensor, tf.float64) for tensor in tensors]
        for tensors in (inputs, incoming)
    ]
    for actual, expected in zip(
        second(cell.raw, inputs, incoming), second(cell.plain, *exact)
    ):
        for a, e in zip(actual, expected):
            # Sums of some tens of float32 products of order 10.
            np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_second_order_of_half_types(cell, dtype):
    """As exact as TensorFlow's own ops in float32 with the same values."""
    rounded = [
        [tf.cast(tensor, dtype) for tensor in tensors]
        for tensors in (arguments_of(cell).values(), gradients_of(cell))
    ]

    def penalty(step, inputs, incoming):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            first = gradient(step, inputs, incoming)
            total = sum(
                tf.reduce_sum(tf.cast(g, tf.float32) ** 2) for g in first
            )
        return tape.gradient(total, inputs)

    exact = [[tf.cast(t, tf.float32) for t in part] for part in rounded]
    for a, e in zip(penalty(cell.fused, *rounded), penalty(cell.plain, *exact)):
        assert a.dtype == dtype
        # Some tens of roundings of what is summed, relative to the largest.
        largest = np.max(np.abs(e))
        error = np.abs(tf.cast(a, tf.float32) - e)
        assert np.max(error) <= 32 * unit_roundoff(dtype) * largest


def test_gradient_op_of_tensorflow():
    """The op for the gradient, too, exists in core, without d_gates."""
    cell = BLOCK_CELLS["gru"]
    inputs = arguments_of(cell, np.float32)
    r, u, c, _ = cell.raw(*inputs.values())
    d_h = gradients_of(cell, np.float32)[-1]
    with tf.GradientTape() as tape:
        tape.watch(d_h)
        d_x = tf.raw_ops.GRUBlockCellGrad(**inputs, r=r, u=u, c=c, d_h=d_h)[0]
    assert tape.gradient(d_x, d_h).shape == d_h.shape


def test_peepholes_that_are_not_used_have_no_gradient():
    values = BLOCK_CELLS["lstm_peephole"].arguments(0, *SHAPE, np.float32)
    tensors = {name: tf.constant(value) for name, value in values.items()}
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        outputs = tf.raw_ops.LSTMBlockCell(**tensors)
    gradients = tape.gradient(outputs, tensors)
    assert {name for name, g in gradients.items() if g is None} == {
        "wci", "wcf", "wco"
    }


def test_third_order(cell, inputs, incoming):
    def third(step):
        values = list(inputs.values())
        with tf.GradientTape() as outer:
            outer.watch(values)
            with tf.GradientTape() as inner:
                inner.watch(values)
                first = gradient(step, values, incoming)
                total = sum(tf.reduce_sum(g * g) for g in first)
            second = inner.gradient(total, values)
            total = sum(tf.reduce_sum(g * g) for g in second)
        return outer.gradient(total, values)

    assert_close(
        [g / tf.reduce_max(abs(g)) for g in third(cell.fused)],
        [g / tf.reduce_max(abs(g)) for g in third(cell.plain)],
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_gradient_penalty_and_hessian_product(cell, inputs, compiled):
    values = list(inputs.values())

    def penalty(step):
        with tf.GradientTape() as tape:
            tape.watch(values)
            d_x = gradient(lambda x: step(x, *values[1:]).h, [values[0]], None)
            loss = tf.reduce_sum(d_x[0] ** 2)
        return tape.gradient(loss, values)

    def hessian_product(step):
        # Forward over backward.
        tangents = [tf.ones_like(value) for value in values]
        with tf.autodiff.ForwardAccumulator(values, tangents) as accumulator:
            first = gradient(lambda *v: step(*v).h, values, None)
        return accumulator.jvp(first)

    for function in (penalty, hessian_product):
        ours = tf.function(function) if compiled else function
        assert_close(ours(cell.fused), function(cell.plain))


@pytest.mark.parametrize("compiled", [False, True])
def test_forward_accumulator(cell, inputs, compiled):
    def tangents(step):
        results = []
        for position in range(len(inputs)):
            values = list(inputs.values())
            value = values[position]
            direction = tf.cos(tf.range(tf.size(value), dtype=value.dtype))
            with tf.autodiff.ForwardAccumulator(
                value, tf.reshape(direction, value.shape)
            ) as accumulator:
                outputs = step(*values)
            results += [accumulator.jvp(output) for output in outputs]
        return results

    ours = tf.function(tangents) if compiled else tangents
    actual, expected = ours(cell.fused), tangents(cell.plain)
    for a, e in zip(actual, expected, strict=True):
        if e is None:  # As GRU's reset gate, which w_c and b_c do not reach.
            e = tf.zeros_like(a if a is not None else 0.0)
        np.testing.assert_allclose(a if a is not None else 0.0, e, atol=1e-12)


@pytest.mark.parametrize("cell, output", [
    pytest.param(cell, output, id=f"{cell}-{output}")
    for cell in BLOCK_CELLS.values() for output in cell.outputs
], indirect=["cell"])
@pytest.mark.parametrize("compiled", [False, True])
def test_double_backward_with_watched_zeros(cell, inputs, output, compiled):
    """Zeros that a tape watches are no absence of a gradient."""
    values = list(inputs.values())

    def product(step):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(values)
                results = step(*values)
            result = getattr(results, output)
            zeros = tf.zeros_like(result)
            outer.watch(zeros)
            first = inner.gradient(result, values[:1], zeros)
        return outer.gradient(first, zeros)

    ours = tf.function(product) if compiled else product
    assert_close(
        [ours(cell.fused)], [product(cell.plain)]
    )


def test_jacobian(cell, inputs):
    values = list(inputs.values())

    @tf.function
    def jacobian(step):
        with tf.GradientTape() as tape:
            tape.watch(values)
            h = step(*values).h
        return tape.jacobian(h, values)

    assert_close(
        jacobian(cell.fused), jacobian(cell.plain)
    )


def test_variables_and_unwatched_inputs(cell, inputs):
    """An eager tape tells which gradients it will throw away."""
    values = {name: value.numpy() for name, value in inputs.items()}
    for name in inputs:
        variable = tf.Variable(inputs[name])
        with tf.GradientTape() as tape:
            h = cell.fused(*{**inputs, name: variable}.values()).h
        gradient = tape.gradient(h, variable)
        incoming = {f"d_{output}": 0.0 for output in cell.outputs}
        expected = cell.reference_grad(
            values, {**incoming, "d_h": np.ones(h.shape)}
        )
        assert_close([gradient], [expected[name]])
