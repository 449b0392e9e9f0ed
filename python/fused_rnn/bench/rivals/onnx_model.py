"""A model in ONNX with one GRU, for the runtimes that read such models."""

import onnx
from onnx import helper, numpy_helper

from fused_rnn import weights


def gru(case):
    """Bytes of the model: x [T, B, I] and h0 [1, B, H] to y [T, 1, B, H]."""
    converted = weights.keras_to_onnx(
        *case.weights(), reset_after=case.reset_after
    )
    values = {"W": converted.W, "R": converted.R, "B": converted.B}
    node = helper.make_node(
        "GRU", ["x", "W", "R", "B", "", "h0"], ["y", "state"],
        hidden_size=case.units,
        linear_before_reset=converted.linear_before_reset,
    )

    def tensor(name, *shape):
        return helper.make_tensor_value_info(
            name, onnx.TensorProto.FLOAT, shape
        )

    state = (1, case.batch, case.units)
    graph = helper.make_graph(
        [node], "gru",
        [tensor("x", case.steps, case.batch, case.inputs),
         tensor("h0", *state)],
        [tensor("y", case.steps, *state), tensor("state", *state)],
        [numpy_helper.from_array(value, name)
         for name, value in values.items()],
    )
    # The oldest versions that have the operator as it is today.
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def results(y, state):
    """The oracle's names and layout."""
    return {"outputs": y[:, 0].swapaxes(0, 1), "state": state[0]}
