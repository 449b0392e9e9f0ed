"""The block cells where TensorFlow takes graphs: strategies, files, sessions."""

import json

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_python
from helpers_block import BLOCK_CELLS, advance, each_block_cell

SHAPE = (4, 3, 5)


def arguments(cell, seed=0):
    return cell.arguments(seed, *SHAPE, np.float32)


STRATEGY = """
    import sys
    import numpy as np, tensorflow as tf, fused_rnn
    from helpers_block import BLOCK_CELLS, advance

    cell = BLOCK_CELLS[sys.argv[1]]
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategies = {
        "none": tf.distribute.get_strategy(),
        "one device": tf.distribute.OneDeviceStrategy("CPU:1"),
        "mirrored": tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    }
    inputs = cell.arguments(0, 8, 3, 5, np.float64)
    weights = [inputs[name] for name in cell.weights]
    dataset = tf.data.Dataset.from_tensor_slices(
        tuple(inputs[name] for name in ("x", *cell.states))).batch(8)
    results = {}
    for name, strategy in strategies.items():
        with strategy.scope():
            variables = [tf.Variable(w) for w in weights]

        def step(x, *states):
            with tf.GradientTape() as tape:
                _, states = advance(cell, cell.fused, x, states, variables)
                loss = sum(tf.reduce_sum(state ** 2) for state in states)
            gradients = tape.gradient(loss, variables)
            context = tf.distribute.get_replica_context()
            gradients = context.all_reduce("sum", gradients)
            for variable, gradient in zip(variables, gradients):
                variable.assign_sub(0.1 * gradient)
            return loss

        @tf.function
        def train(batch):
            losses = strategy.run(step, args=batch)
            return strategy.reduce("sum", losses, axis=None)

        for _ in range(3):
            for batch in strategy.experimental_distribute_dataset(dataset):
                train(batch)
        results[name] = [v.numpy() for v in variables]
        if name == "mirrored":
            assert len(variables[0].values) == 2
    for name in ("one device", "mirrored"):
        for a, b in zip(results[name], results["none"]):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    print("same weights")
"""


@pytest.mark.parametrize("cell", ["gru", "lstm_peephole"])
def test_distribution_strategies(cell):
    """Two logical CPUs have to be set up before anything runs."""
    assert "same weights" in run_python(STRATEGY, cell)


FREEZE = """
    import json, sys
    import numpy as np, tensorflow as tf
    op, states, weights, options, values, graph_file, results = sys.argv[1:]
    states, weights, options = map(json.loads, (states, weights, options))
    with np.load(values) as file:
        values = dict(file)
    tf.compat.v1.disable_v2_behavior()
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [4, None, 3], name="x")
        constants = {n: tf.constant(values[n]) for n in weights}
        def body(t, *before):
            cell = getattr(tf.raw_ops, op)(
                x=x[:, t], **dict(zip(states, before)), **constants, **options)
            after = [getattr(cell, n.removesuffix("_prev")) for n in states]
            return t + 1, *after
        _, *last = tf.compat.v1.while_loop(
            lambda t, *_: t < tf.shape(x)[1], body,
            (0, *[tf.constant(values[n]) for n in states]))
        tf.identity(tf.concat(last, 1), name="state")
        with tf.compat.v1.Session() as session:
            state = session.run("state:0", {"x:0": values["x"]})
    with open(graph_file, "wb") as file:
        file.write(graph.as_graph_def().SerializeToString())
    np.save(results, state)
"""


@pytest.mark.parametrize("cell", ["gru", "lstm_peephole"])
def test_frozen_graph_of_version_1(cell, tmp_path):
    """A GraphDef written without the package; constants in place of weights."""
    cell = BLOCK_CELLS[cell]
    values = arguments(cell)
    values["x"] = np.random.default_rng(5).standard_normal(
        (4, 6, 3)
    ).astype(np.float32)
    np.savez(tmp_path / "values.npz", **values)
    run_python(
        FREEZE, cell.raw_name,
        *map(json.dumps, (cell.states, cell.weights, cell.options)),
        tmp_path / "values.npz", tmp_path / "graph.pb", tmp_path / "state.npy",
    )
    graph_def = tf.compat.v1.GraphDef.FromString(
        (tmp_path / "graph.pb").read_bytes()
    )
    kinds = {node.op for node in graph_def.node}
    assert {cell.raw_name, "Enter", "NextIteration"} <= kinds

    states = [values[name] for name in cell.states]
    weights = [values[name] for name in cell.weights]
    for t in range(6):
        _, states = advance(
            cell, cell.fused, values["x"][:, t], states, weights
        )
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            state = session.run("state:0", {"x:0": values["x"]})
    # The same kernel in the graph and out of it; TensorFlow's own kernel
    # differs by the order of its sums of eight terms.
    np.testing.assert_array_equal(state, np.concatenate(states, 1))
    np.testing.assert_allclose(
        state, np.load(tmp_path / "state.npy"), atol=64 * 2.0**-24
    )


@each_block_cell
def test_saved_function(cell, tmp_path):
    class Module(tf.Module):
        def __init__(self, weights):
            super().__init__()
            self.weights = [tf.Variable(weight) for weight in weights]

        @tf.function(
            input_signature=[tf.TensorSpec([None, SHAPE[1]])]
            + [tf.TensorSpec([None, SHAPE[2]])] * len(cell.states)
        )
        def step(self, *values):
            return cell.fused(*values, *self.weights).h

    values = list(arguments(cell).values())
    module = Module(values[-len(cell.weights):])
    values = values[: -len(cell.weights)]
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    expected = module.step(*values)
    np.testing.assert_array_equal(loaded.step(*values), expected)
    # A loaded function is differentiable as the original is.
    for function in (module, loaded):
        with tf.GradientTape() as tape:
            h = function.step(*values)
        gradients = tape.gradient(h, function.weights)
        assert [g.shape for g in gradients] == [
            w.shape for w in module.weights
        ]


@each_block_cell
def test_dynamic_shapes_retrace_nothing(cell):
    traces = []

    @tf.function(input_signature=[
        tf.TensorSpec([None] * value.ndim)
        for value in arguments(cell).values()
    ])
    def step(*values):
        traces.append(1)
        with tf.GradientTape() as tape:
            tape.watch(values)
            outputs = cell.fused(*values)
        return outputs, tape.gradient(outputs, values)

    for shape in ((1, 2, 3), (4, 3, 2), (0, 2, 3), (2, 0, 3), (2, 3, 0)):
        values = cell.arguments(0, *shape, np.float32)
        outputs, gradients = step(*values.values())
        for output in outputs:
            assert output.shape == [shape[0], shape[2]]
        for gradient, value in zip(gradients, values.values(), strict=True):
            assert gradient.shape == value.shape
    assert len(traces) == 1
