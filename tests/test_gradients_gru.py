"""Registered gradients of the sequence ops, to second order and beyond."""

import numpy as np
import pytest
import tensorflow as tf
from bounds import unit_roundoff
from helpers import gru_arguments
from plain_gru import plain_gru

import fused_rnn
from fused_rnn import _library, reference

_ops = _library.load()

DIFFERENTIABLE = ("x", "h0", "kernel", "recurrent_kernel", "bias")


def arguments(reset_after, seed=0, shape=(3, 4, 2, 3), **optional):
    """Tensors to differentiate by, and the other arguments."""
    values = gru_arguments(
        seed, *shape, np.float64, reset_after=reset_after, **optional
    )
    tensors = [
        tf.constant(values[name]) for name in DIFFERENTIABLE
        if values[name] is not None
    ]
    others = {
        name: tf.constant(values[name])
        for name in ("mask", "recurrent_dropout_mask")
        if values[name] is not None
    }
    return tensors, dict(others, reset_after=reset_after)


def scalar(results):
    """Weighs all elements differently, and twice differentiably."""
    return sum(
        tf.reduce_sum(
            tf.sin(value + tf.reshape(
                tf.range(tf.size(value, tf.int64), dtype=value.dtype),
                tf.shape(value),
            ))
        )
        for value in results
    )


def assert_close(actual, expected):
    # Two float64 computations of a few thousand terms.
    for a, e in zip(actual, expected, strict=True):
        largest = np.max(np.abs(e), initial=1.0)
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-11 * largest)


def first_order(cell, tensors, **options):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        loss = scalar(cell(*tensors, **options))
    return tape.gradient(loss, tensors)


def second_order(cell, tensors, **options):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        penalty = scalar(first_order(cell, tensors, **options))
    return tape.gradient(penalty, tensors)


def third_order(cell, tensors, **options):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        penalty = scalar(second_order(cell, tensors, **options))
    return tape.gradient(penalty, tensors)


def jvp(cell, tensors, **options):
    tangents = [tf.cos(tensor) for tensor in tensors]
    with tf.autodiff.ForwardAccumulator(tensors, tangents) as accumulator:
        results = cell(*tensors, **options)
    return [accumulator.jvp(result) for result in results]


def hessian_product(cell, tensors, **options):
    tangents = [tf.cos(tensor) for tensor in tensors]
    with tf.autodiff.ForwardAccumulator(tensors, tangents) as accumulator:
        gradients = first_order(cell, tensors, **options)
    return [accumulator.jvp(gradient) for gradient in gradients]


# The first matters without a mask, the last with one.
FLAGS = ("time_major", "go_backwards", "zero_output_for_mask")


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("reset_after", [True, False])
def test_second_order(reset_after, mask):
    for flag in FLAGS[mask : mask + 2]:
        options = dict.fromkeys(FLAGS, False)
        if flag:
            options[flag] = True
        tensors, others = arguments(reset_after, mask=mask, dropout=mask)
        if options["time_major"]:
            tensors[0] = tf.transpose(tensors[0], [1, 0, 2])
        options.update(others)
        assert_close(
            second_order(fused_rnn.gru, tensors, **options),
            second_order(plain_gru, tensors, **options),
        )


@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_second_order_of_activations(name):
    tensors, options = arguments(True)
    # Gates that are not bounded make large numbers of small ones.
    tensors = [0.3 * tensor for tensor in tensors]
    options.update(activation=name, recurrent_activation=name)
    assert_close(
        second_order(fused_rnn.gru, tensors, **options),
        second_order(plain_gru, tensors, **options),
    )


@pytest.mark.parametrize("reset_after", [True, False])
def test_numeric_gradients(reset_after):
    """Against differences, which share no formula with anything."""
    tensors, options = arguments(
        reset_after, shape=(2, 3, 1, 2), mask=True, dropout=True
    )

    def values(*tensors):
        results = fused_rnn.gru(*tensors, **options)
        return tf.concat([tf.reshape(r, [-1]) for r in results], 0)

    def gradients(*tensors):
        results = first_order(fused_rnn.gru, list(tensors), **options)
        return tf.concat([tf.reshape(r, [-1]) for r in results], 0)

    for function in (values, tf.function(gradients)):
        theoretical, numerical = tf.test.compute_gradient(
            function, tensors, delta=2.0**-17
        )
        for theory, number in zip(theoretical, numerical):
            # Differences err by delta^2/6 of a third derivative below 50, and
            # by eps/delta.
            np.testing.assert_allclose(theory, number, rtol=0, atol=1e-8)


@pytest.mark.parametrize("order, reset_after, compiled", [
    (third_order, True, True),
    (jvp, True, True),
    (jvp, False, False),
    (hessian_product, True, False),
    (hessian_product, False, True),
])
def test_other_orders(order, reset_after, compiled):
    tensors, options = arguments(reset_after, mask=True)
    ours = tf.function(order) if compiled else order
    assert_close(
        ours(fused_rnn.gru, tensors, **options),
        order(plain_gru, tensors, **options),
    )


@pytest.mark.parametrize("training", [None, True, False])
def test_second_order_without_reserve(training):
    tensors, options = arguments(True, mask=True)

    def inference(*tensors, **options):
        return fused_rnn.gru(
            *tensors, training=training, recompute=True, **options
        )

    assert_close(
        second_order(inference, tensors, **options),
        second_order(plain_gru, tensors, **options),
    )


@pytest.mark.parametrize("wanted", ["outputs", "state", "last"])
@pytest.mark.parametrize("compiled", [True, False])
def test_one_result_alone(wanted, compiled):
    """A gradient that does not arrive, at first and at second order."""
    tensors, options = arguments(False, mask=True)

    def ours(*tensors, **options):
        results = fused_rnn.gru(
            *tensors, return_sequences=wanted != "last", **options
        )
        return [results.state if wanted == "state" else results.outputs]

    def plain(*tensors, **options):
        outputs, state = plain_gru(*tensors, **options)
        if wanted == "last":
            return [outputs[:, -1]]
        return [state if wanted == "state" else outputs]

    for order in (first_order, second_order):
        function = tf.function(order) if compiled else order
        assert_close(
            function(ours, tensors, **options),
            order(plain, tensors, **options),
        )


def test_absent_arguments():
    """Neither h0 nor bias: their gradients have no place."""
    tensors, options = arguments(True, h0=False, bias=False)

    def call(function, zeros):
        def cell(x, kernel, recurrent_kernel, **options):
            return function(
                x, zeros, kernel, recurrent_kernel, None, **options
            )
        return cell

    zeros = tf.zeros([3, 3], tf.float64)
    assert_close(
        second_order(call(fused_rnn.gru, None), tensors, **options),
        second_order(call(plain_gru, zeros), tensors, **options),
    )


@pytest.mark.parametrize("steps", [0, 1])
def test_few_steps(steps):
    tensors, options = arguments(True, shape=(3, steps, 2, 3), mask=True)
    gradients = second_order(fused_rnn.gru, tensors, **options)
    for gradient, tensor in zip(gradients, tensors):
        assert gradient.shape == tensor.shape
        assert np.isfinite(gradient).all()


def test_unknown_sizes_in_one_graph():
    """One trace serves all sizes, at second order too."""
    traces = []

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, None], tf.float64),
            *[tf.TensorSpec([None, None], tf.float64)] * 4,
            tf.TensorSpec([None, None], tf.bool),
        ]
    )
    def penalty(x, h0, kernel, recurrent_kernel, bias, mask):
        traces.append(1)
        return second_order(
            fused_rnn.gru, [x, h0, kernel, recurrent_kernel, bias], mask=mask
        )

    for shape in ((3, 4, 2, 3), (1, 1, 1, 1), (2, 0, 3, 4), (0, 2, 3, 4)):
        tensors, options = arguments(True, shape=shape, mask=True)
        gradients = penalty(*tensors, options["mask"])
        for gradient, tensor in zip(gradients, tensors):
            assert gradient.shape == tensor.shape
        if 0 not in shape:
            assert_close(
                gradients, second_order(plain_gru, tensors, **options)
            )
    assert len(traces) == 1


@pytest.mark.parametrize("control_flow_v2", [True, False])
def test_version_1_graph(control_flow_v2):
    """tf.gradients of tf.gradients, and through a version 1 loop."""
    tensors, options = arguments(True, mask=True)
    values = [tensor.numpy() for tensor in tensors]
    mask = options.pop("mask").numpy()
    was_v2 = tf.compat.v1.control_flow_v2_enabled()

    def run(cell):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            inputs = [tf.constant(value) for value in values]
            loss = scalar(cell(*inputs, mask=tf.constant(mask), **options))
            first = tf.gradients(loss, inputs)
            second = tf.gradients(scalar(first), inputs)
            _, h = tf.compat.v1.while_loop(
                lambda i, h: i < 3,
                lambda i, h: (
                    i + 1,
                    cell(inputs[0], h, *inputs[2:], **options)[1],
                ),
                (0, inputs[1]),
            )
            return session.run([first, second, tf.gradients(h, inputs)])

    def training(*tensors, **options):
        return fused_rnn.gru(*tensors, training=True, **options)

    switches = (
        tf.compat.v1.disable_control_flow_v2,
        tf.compat.v1.enable_control_flow_v2,
    )
    try:
        switches[control_flow_v2]()
        expected = run(plain_gru)
        for cell in (fused_rnn.gru, training):
            for actual, wanted in zip(run(cell), expected):
                assert_close(actual, wanted)
    finally:
        switches[was_v2]()


def test_what_nobody_asked_for_is_dropped():
    """No d_x without x, and no zeros for results that are not used."""
    tensors, options = arguments(True)

    @tf.function
    def train(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors[2:])
            state = fused_rnn.gru(*tensors, **options).state
        return tape.gradient(state, tensors[2:])

    ops = train.get_concrete_function(*tensors).graph.get_operations()
    (grad,) = [op for op in ops if op.type == "FusedRNN>GRUGrad"]
    assert grad.get_attr("num_d_outputs") == 0
    assert grad.get_attr("num_d_state") == 1
    (forward,) = [op for op in ops if op.type == "FusedRNN>GRU"]
    assert forward.get_attr("keep_reserve")
    # TensorFlow prunes what leads to no result when the graph runs.
    graph = train.get_concrete_function(*tensors).graph
    pruned = tf.compat.v1.graph_util.extract_sub_graph(
        graph.as_graph_def(), [output.op.name for output in graph.outputs]
    )
    kinds = {node.op for node in pruned.node}
    assert "FusedRNN>GRUWeightGrad" in kinds
    assert "FusedRNN>GRUInputGrad" not in kinds


def test_nested_in_while_loop_and_map():
    """A loop whose body runs a sequence, differentiated twice."""
    tensors, options = arguments(True, mask=True)

    def looped(cell, loop):
        def function(x, h0, *weights, **options):
            h = loop(
                lambda i, h: i < 2,
                lambda i, h: (i + 1, cell(x, h, *weights, **options)[1]),
                (0, h0),
            )[1]
            return [h]
        return function

    def python_loop(condition, body, state):
        while condition(*state):
            state = body(*state)
        return state

    ours = tf.function(
        lambda: second_order(
            looped(fused_rnn.gru, tf.while_loop), tensors, **options
        )
    )
    assert_close(
        ours(), second_order(looped(plain_gru, python_loop), tensors, **options)
    )


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
def test_second_order_of_other_dtypes(dtype):
    tensors, options = arguments(True, mask=True)
    narrow = [tf.cast(tensor, dtype) for tensor in tensors]
    exact = [tf.cast(tensor, tf.float64) for tensor in narrow]
    expected = second_order(plain_gru, exact, **options)
    for gradient, value in zip(
        second_order(fused_rnn.gru, narrow, **options), expected
    ):
        assert gradient.dtype == dtype
        # Some ten values, each rounded to the type, multiply; sums are few.
        tolerance = 64 * unit_roundoff(dtype.name)
        scale = float(tf.reduce_max(abs(value)))
        np.testing.assert_allclose(
            tf.cast(gradient, tf.float64), value, rtol=0,
            atol=tolerance * scale,
        )


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_that_arrive_as_slices(compiled):
    """tf.gather sends back the rows that it took."""
    tensors, options = arguments(True)

    def gradients(cell):
        with tf.GradientTape() as outer:
            outer.watch(tensors)
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                results = cell(*tensors, **options)
                taken = [tf.gather(result, [2, 0]) for result in results]
            first = tape.gradient(taken, tensors)
            taken = [tf.gather(gradient, [1, 0]) for gradient in first]
        return *first, *outer.gradient(taken, tensors)

    ours = tf.function(gradients) if compiled else gradients
    assert_close(ours(fused_rnn.gru), gradients(plain_gru))


def test_jacobian():
    """TensorFlow cannot vectorise the ops, and loops over them instead."""
    tensors, options = arguments(True, shape=(2, 3, 1, 2))

    @tf.function
    def jacobian(cell):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            state = cell(*tensors, **options)[1]
        return tape.jacobian(state, tensors)

    assert_close(jacobian(fused_rnn.gru), jacobian(plain_gru))
