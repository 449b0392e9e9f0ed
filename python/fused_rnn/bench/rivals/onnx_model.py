"""A model in ONNX with one recurrent layer, for the runtimes that read such."""

import onnx
from onnx import helper, numpy_helper

from fused_rnn import weights
from fused_rnn.bench import worker

_OPERATORS = {"gru": "GRU", "lstm": "LSTM", "rnn": "RNN"}


def last_states(case):
    """Names of the last states among the model's outputs."""
    return ("state", "cell_state")[:len(case.states)]


def model(case):
    """Bytes of the model: x [T, B, I] and the first states, h0 and of an LSTM
    c0, [1, B, H], to y [T, 1, B, H] and the last states."""
    is_gru = case.cell == "gru"
    converted = weights.keras_to_onnx(
        *case.weights(), reset_after=case.reset_after if is_gru else None
    )
    values = {"W": converted.W, "R": converted.R, "B": converted.B}
    node = helper.make_node(
        _OPERATORS[case.cell], ["x", "W", "R", "B", "", *case.states],
        ["y", *last_states(case)], hidden_size=case.units,
        **({"linear_before_reset": converted.linear_before_reset}
           if is_gru else {}),
    )

    def tensor(name, *shape):
        return helper.make_tensor_value_info(
            name, onnx.TensorProto.FLOAT, shape
        )

    state = (1, case.batch, case.units)
    graph = helper.make_graph(
        [node], case.cell,
        [tensor("x", case.steps, case.batch, case.inputs),
         *(tensor(name, *state) for name in case.states)],
        [tensor("y", case.steps, *state),
         *(tensor(name, *state) for name in last_states(case))],
        [numpy_helper.from_array(value, name)
         for name, value in values.items()],
    )
    # The oldest versions that have the operators as they are today.
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8
    )
    onnx.checker.check_model(made)
    return made.SerializeToString()


def inputs(case):
    """Arrays by the names of the model's inputs."""
    return {
        "x": worker.time_major(case.x),
        **{name: getattr(case, name)[None] for name in case.states},
    }


def results(case, y, *states):
    """The oracle's names and layout."""
    return case.named(y[:, 0].swapaxes(0, 1), [state[0] for state in states])
