"""Gradients of the block cells in loops and graphs of either version."""

import numpy as np
import pytest
import tensorflow as tf
from helpers_block import (  # noqa: F401  fixtures among them
    advance,
    assert_close,
    cell,
    gradient,
    incoming,
    inputs,
)


def test_while_loop(cell, inputs):
    steps = 4
    weights = [inputs[name] for name in cell.weights]
    states = [inputs[name] for name in cell.states]
    x = tf.constant(np.random.default_rng(3).standard_normal((steps, 3, 4)))

    def loss(step, loop, states, weights):
        def body(t, states, total):
            outputs, states = advance(cell, step, x[t], states, weights)
            gate = getattr(outputs, cell.last_gate)
            return t + 1, states, total + tf.reduce_sum(gate ** 2)

        return loop(
            lambda t, *_: t < steps, body,
            (0, states, tf.constant(0.0, tf.float64)),
        )[1:]

    def gradients(step, loop):
        with tf.GradientTape() as tape:
            tape.watch([states, weights])
            last, total = loss(step, loop, states, weights)
            objective = total + sum(tf.reduce_sum(state) for state in last)
        return tape.gradient(objective, [*states, *weights])

    def python_loop(condition, body, state):
        while condition(*state):
            state = body(*state)
        return state

    expected = gradients(cell.plain, python_loop)
    in_graph = tf.function(lambda: gradients(cell.fused, tf.while_loop))
    assert_close(in_graph(), expected)
    assert_close(gradients(cell.fused, tf.while_loop), expected)


def test_map_fn(cell, inputs):
    weights = [inputs[name] for name in cell.weights]
    rng = np.random.default_rng(4)
    mapped = [
        tf.constant(rng.standard_normal((2, *inputs[name].shape)))
        for name in ("x", *cell.states)
    ]

    @tf.function
    def gradients(step):
        with tf.GradientTape() as tape:
            tape.watch([*mapped, *weights])
            y = tf.map_fn(
                lambda values: step(*values, *weights).h, mapped,
                fn_output_signature=tf.float64,
            )
        return y, *tape.gradient(y, [*mapped, *weights])

    assert_close(gradients(cell.fused), gradients(cell.plain))


@pytest.mark.parametrize("control_flow_v2", [False, True])
def test_version_1_graph(cell, inputs, incoming, control_flow_v2):
    """tf.gradients, first and second order, also through version 1 loops."""
    values = [value.numpy() for value in inputs.values()]
    was_v2 = tf.compat.v1.control_flow_v2_enabled()
    switch = (
        tf.compat.v1.enable_control_flow_v2
        if control_flow_v2
        else tf.compat.v1.disable_control_flow_v2
    )

    def run(step):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tensors = [
                tf.compat.v1.placeholder(tf.float64, [None] * value.ndim)
                for value in values
            ]
            grads = [tf.constant(g.numpy()) for g in incoming]
            first = tf.gradients(
                list(step(*tensors)), tensors, grad_ys=grads
            )
            second = tf.gradients([g ** 2 for g in first], tensors)
            count = len(cell.states)
            x, weights = tensors[0], tensors[1 + count:]
            _, *states = tf.compat.v1.while_loop(
                lambda t, *_: t < 3,
                lambda t, *states: (
                    t + 1, *advance(cell, step, x, states, weights)[1]
                ),
                (0, *tensors[1 : 1 + count]),
            )
            through_loop = tf.gradients(states, tensors)
            return session.run(
                [first, second, through_loop], dict(zip(tensors, values))
            )

    try:
        switch()
        ours, theirs = run(cell.fused), run(cell.plain)
    finally:
        if was_v2:
            tf.compat.v1.enable_control_flow_v2()
        else:
            tf.compat.v1.disable_control_flow_v2()
    for actual, expected in zip(ours, theirs):
        assert_close(actual, expected)


def test_gradients_nobody_asked_for_are_dropped(cell, inputs):
    """A graph without the gates' gradients makes no zeros for them."""
    values = list(inputs.values())

    @tf.function
    def train(*values):
        return gradient(
            lambda *v: cell.fused(*v).h, list(values), None
        )

    graph = train.get_concrete_function(*values).graph
    (op,) = [
        op for op in graph.get_operations()
        if op.type == f"FusedRNN>{cell.raw_name}Grad"
    ]
    assert op.get_attr("num_d_gates") == 0


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_that_arrive_as_slices(cell, inputs, compiled):
    """tf.gather sends back the rows that it took."""
    values = list(inputs.values())

    def gradients(step):
        with tf.GradientTape() as outer:
            outer.watch(values)
            with tf.GradientTape() as tape:
                tape.watch(values)
                results = [tf.gather(y, [2, 0]) for y in step(*values)]
            first = tape.gradient(results, values)
            taken = [tf.gather(gradient, [1, 0]) for gradient in first]
        return *first, *outer.gradient(taken, values)

    ours = tf.function(gradients) if compiled else gradients
    assert_close(ours(cell.fused), gradients(cell.plain))
