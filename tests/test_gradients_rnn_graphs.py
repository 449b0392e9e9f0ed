"""Gradients of the sequence ops where TensorFlow takes graphs."""

import numpy as np
import pytest
import tensorflow as tf
from helpers_gradients import (
    assert_close,
    scalar,
    second_order,
    tensors_of,
)
from helpers_rnn import each_function, fused
from plain_rnn import plain


@each_function
def test_unknown_sizes_in_one_graph(cell):
    """One trace serves all sizes, at second order too."""
    traces = []
    ranks = [tensor.shape.rank for tensor in tensors_of(cell)[0]]

    @tf.function(
        input_signature=[
            [tf.TensorSpec([None] * rank, tf.float64) for rank in ranks],
            tf.TensorSpec([None, None], tf.bool),
        ]
    )
    def penalty(tensors, mask):
        traces.append(1)
        return second_order(fused(cell), tensors, mask=mask, **cell.options)

    for shape in ((3, 4, 2, 3), (1, 1, 1, 1), (2, 0, 3, 4), (0, 2, 3, 4)):
        tensors, options = tensors_of(cell, shape=shape, mask=True)
        gradients = penalty(tensors, options["mask"])
        for gradient, tensor in zip(gradients, tensors):
            assert gradient.shape == tensor.shape
        if 0 not in shape:
            assert_close(
                gradients, second_order(plain(cell), tensors, **options)
            )
    assert len(traces) == 1


@each_function
@pytest.mark.parametrize("control_flow_v2", [True, False])
def test_version_1_graph(control_flow_v2, cell):
    """tf.gradients of tf.gradients, and through a version 1 loop."""
    tensors, options = tensors_of(cell, mask=True)
    values = [tensor.numpy() for tensor in tensors]
    mask = options.pop("mask").numpy()
    was_v2 = tf.compat.v1.control_flow_v2_enabled()
    count = len(cell.states)

    def run(rnn):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            inputs = [tf.constant(value) for value in values]
            x, *others = inputs
            loss = scalar(rnn(*inputs, mask=tf.constant(mask), **options))
            first = tf.gradients(loss, inputs)
            second = tf.gradients(scalar(first), inputs)
            _, *states = tf.compat.v1.while_loop(
                lambda i, *states: i < 3,
                lambda i, *states: (
                    i + 1, *rnn(x, *states, *others[count:], **options)[1:]
                ),
                (0, *others[:count]),
            )
            return session.run([first, second, tf.gradients(states, inputs)])

    def training(*tensors, **options):
        return fused(cell)(*tensors, training=True, **options)

    switches = (
        tf.compat.v1.disable_control_flow_v2,
        tf.compat.v1.enable_control_flow_v2,
    )
    try:
        switches[control_flow_v2]()
        expected = run(plain(cell))
        for rnn in (fused(cell), training):
            for actual, wanted in zip(run(rnn), expected):
                assert_close(actual, wanted)
    finally:
        switches[was_v2]()


@each_function
def test_what_nobody_asked_for_is_dropped(cell):
    """No d_x without x, and no zeros for results that are not used."""
    tensors, options = tensors_of(cell)
    count = len(cell.states)

    @tf.function
    def train(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors[1 + count :])
            state = fused(cell)(*tensors, **options).state
        return tape.gradient(state, tensors[1 + count :])

    concrete = train.get_concrete_function(*tensors)
    op = f"FusedRNN>{cell.keras}"
    ops = concrete.graph.get_operations()
    (grad,) = [o for o in ops if o.type == op + "Grad"]
    assert grad.get_attr("num_d_outputs") == 0
    assert grad.get_attr("num_d_state") == 1
    if count == 2:
        assert grad.get_attr("num_d_cell_state") == 0
    (forward,) = [o for o in ops if o.type == op]
    if cell.name != "simple_rnn":
        assert forward.get_attr("keep_reserve")
    # TensorFlow prunes what leads to no result when the graph runs.
    graph = concrete.graph
    pruned = tf.compat.v1.graph_util.extract_sub_graph(
        graph.as_graph_def(), [output.op.name for output in graph.outputs]
    )
    kinds = {node.op for node in pruned.node}
    assert op + "WeightGrad" in kinds
    assert op + "InputGrad" not in kinds


@each_function
def test_nested_in_while_loop_and_map(cell):
    """A loop whose body runs a sequence, differentiated twice."""
    tensors, options = tensors_of(cell, mask=True)
    count = len(cell.states)

    def looped(rnn, loop):
        def function(x, *others, **options):
            states, weights = others[:count], others[count:]
            _, *states = loop(
                lambda i, *states: i < 2,
                lambda i, *states: (
                    i + 1, *rnn(x, *states, *weights, **options)[1:]
                ),
                (0, *states),
            )
            return states
        return function

    def python_loop(condition, body, state):
        while condition(*state):
            state = body(*state)
        return state

    ours = tf.function(
        lambda: second_order(
            looped(fused(cell), tf.while_loop), tensors, **options
        )
    )
    assert_close(
        ours(),
        second_order(looped(plain(cell), python_loop), tensors, **options),
    )


@each_function
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_that_arrive_as_slices(compiled, cell):
    """tf.gather sends back the rows that it took."""
    tensors, options = tensors_of(cell)

    def gradients(rnn):
        with tf.GradientTape() as outer:
            outer.watch(tensors)
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                results = rnn(*tensors, **options)
                taken = [tf.gather(result, [2, 0]) for result in results]
            first = tape.gradient(taken, tensors)
            taken = [tf.gather(gradient, [1, 0]) for gradient in first]
        return *first, *outer.gradient(taken, tensors)

    ours = tf.function(gradients) if compiled else gradients
    assert_close(ours(fused(cell)), gradients(plain(cell)))


@each_function
def test_jacobian(cell):
    """TensorFlow cannot vectorise the ops, and loops over them instead."""
    tensors, options = tensors_of(cell, shape=(2, 3, 1, 2))

    @tf.function
    def jacobian(rnn):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            states = tf.stack(rnn(*tensors, **options)[1:])
        return tape.jacobian(states, tensors)

    assert_close(jacobian(fused(cell)), jacobian(plain(cell)))


@each_function
def test_saved_function(tmp_path, cell):
    """A SavedModel gives the same values, and is differentiable as before."""
    tensors, _ = tensors_of(cell, mask=True)
    x, *others = tensors
    count = len(cell.states)

    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = [tf.Variable(w) for w in others[count:]]

        @tf.function(
            input_signature=[tf.TensorSpec([None, None, 2], tf.float64)]
        )
        def run(self, x):
            return list(fused(cell)(
                x, *[None] * count, *self.weights, **cell.options
            ))

    module = Module()
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    results = []
    for one in (module, loaded):
        with tf.GradientTape() as tape:
            values = one.run(x)
        results.append([*values, *tape.gradient(values, one.weights)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
