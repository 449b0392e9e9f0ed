"""The block cell where TensorFlow takes graphs: strategies, files, sessions."""

import numpy as np
import tensorflow as tf
from helpers import CELL_INPUTS, cell_arguments, run_python

import fused_rnn

SHAPE = (4, 3, 5)


def arguments(seed=0):
    return cell_arguments(seed, *SHAPE, np.float32)


STRATEGY = """
    import sys
    import numpy as np, tensorflow as tf, fused_rnn
    from helpers import cell_arguments

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategies = {
        "none": tf.distribute.get_strategy(),
        "one device": tf.distribute.OneDeviceStrategy("CPU:1"),
        "mirrored": tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    }
    inputs = cell_arguments(0, 8, 3, 5, np.float64)
    x, h_prev, *weights = inputs.values()
    dataset = tf.data.Dataset.from_tensor_slices((x, h_prev)).batch(8)
    results = {}
    for name, strategy in strategies.items():
        with strategy.scope():
            variables = [tf.Variable(w) for w in weights]

        def step(x, h_prev):
            with tf.GradientTape() as tape:
                h = fused_rnn.gru_block_cell(x, h_prev, *variables).h
                loss = tf.reduce_sum(h ** 2)
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


def test_distribution_strategies():
    """Two logical CPUs have to be set up before anything runs."""
    assert "same weights" in run_python(STRATEGY)


FREEZE = """
    import sys
    import numpy as np, tensorflow as tf
    with np.load(sys.argv[1]) as file:
        values = dict(file)
    tf.compat.v1.disable_v2_behavior()
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [4, None, 3], name="x")
        weights = {n: tf.constant(values[n])
                   for n in ("w_ru", "w_c", "b_ru", "b_c")}
        def body(t, h):
            cell = tf.raw_ops.GRUBlockCell(x=x[:, t], h_prev=h, **weights)
            return t + 1, cell.h
        _, h = tf.compat.v1.while_loop(
            lambda t, h: t < tf.shape(x)[1], body,
            (0, tf.constant(values["h_prev"])))
        tf.identity(h, name="state")
        with tf.compat.v1.Session() as session:
            state = session.run("state:0", {"x:0": values["x"]})
    with open(sys.argv[2], "wb") as file:
        file.write(graph.as_graph_def().SerializeToString())
    np.save(sys.argv[3], state)
"""


def test_frozen_graph_of_version_1(tmp_path):
    """A GraphDef written without the package; constants in place of weights."""
    values = arguments()
    values["x"] = np.random.default_rng(5).standard_normal(
        (4, 6, 3)
    ).astype(np.float32)
    np.savez(tmp_path / "values.npz", **values)
    run_python(
        FREEZE, tmp_path / "values.npz", tmp_path / "graph.pb",
        tmp_path / "state.npy",
    )
    graph_def = tf.compat.v1.GraphDef.FromString(
        (tmp_path / "graph.pb").read_bytes()
    )
    kinds = {node.op for node in graph_def.node}
    assert {"GRUBlockCell", "Enter", "NextIteration"} <= kinds

    h = values["h_prev"]
    for t in range(6):
        h = fused_rnn.gru_block_cell(
            values["x"][:, t], h,
            *[values[name] for name in CELL_INPUTS[2:]],
        ).h
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            state = session.run("state:0", {"x:0": values["x"]})
    # The same kernel in the graph and out of it; TensorFlow's own kernel
    # differs by the order of its sums of eight terms.
    np.testing.assert_array_equal(state, h)
    np.testing.assert_allclose(
        state, np.load(tmp_path / "state.npy"), atol=64 * 2.0**-24
    )


def test_saved_function(tmp_path):
    class Module(tf.Module):
        def __init__(self, weights):
            super().__init__()
            self.weights = [tf.Variable(weight) for weight in weights]

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, SHAPE[1]]), tf.TensorSpec([None, SHAPE[2]])
            ]
        )
        def step(self, x, h_prev):
            return fused_rnn.gru_block_cell(x, h_prev, *self.weights).h

    x, h_prev, *weights = arguments().values()
    module = Module(weights)
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    expected = module.step(x, h_prev)
    np.testing.assert_array_equal(loaded.step(x, h_prev), expected)
    # A loaded function is differentiable as the original is.
    for function in (module, loaded):
        with tf.GradientTape() as tape:
            h = function.step(x, h_prev)
        gradients = tape.gradient(h, function.weights)
        assert [g.shape for g in gradients] == [w.shape for w in weights]


def test_dynamic_shapes_retrace_nothing():
    traces = []

    @tf.function(
        input_signature=[tf.TensorSpec([None, None])] * 4
        + [tf.TensorSpec([None])] * 2
    )
    def step(*values):
        traces.append(1)
        with tf.GradientTape() as tape:
            tape.watch(values)
            outputs = fused_rnn.gru_block_cell(*values)
        return outputs, tape.gradient(outputs, values)

    for shape in ((1, 2, 3), (4, 3, 2), (0, 2, 3), (2, 0, 3), (2, 3, 0)):
        values = cell_arguments(0, *shape, np.float32)
        outputs, gradients = step(*values.values())
        for output in outputs:
            assert output.shape == [shape[0], shape[2]]
        for gradient, value in zip(gradients, values.values()):
            assert gradient.shape == value.shape
    assert len(traces) == 1
