"""Layouts of other libraries, each against that library's own formula.

The formulas here are written out from the libraries' documentation, on their
layouts, and share nothing with fused_rnn. Where torch or onnx is installed,
the library itself is asked too.
"""

import numpy as np
import pytest
from helpers_reference import CASES

from fused_rnn import reference, weights

BATCH, INPUTS, UNITS = 3, 2, 4
# What PyTorch and cuDNN have; ONNX has a GRU that resets before, too.
AFTER = ["gru_after", "lstm", "simple_rnn"]
GRU = CASES["gru_before"]


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def keras_weights(case, bias=True, seed=0, inputs=INPUTS):
    rng = np.random.default_rng(seed)
    values = case.weights(rng, inputs, UNITS, bias)
    return weights.KerasWeights(**{"bias": None, **values})


def draw_x_and_states(case):
    """x [B, I], and of the states, h and perhaps c, [B, H] each."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(BATCH, INPUTS)), [
        rng.normal(size=(BATCH, UNITS)) for _ in case.states
    ]


def expected_states(case, x, states, keras):
    """Of one step of the oracle."""
    step = case.cell(x, *states, *keras, **case.options)
    return [getattr(step, name) for name in case.states]


def assert_states(actual, expected):
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-14)


def assert_same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right):
        if b is None:
            assert a is None
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("bias", [True, False])
def test_block_cell(bias):
    keras = keras_weights(GRU, bias)
    x, (h,) = draw_x_and_states(GRU)
    block = weights.keras_to_block_cell(*keras)
    w_ru, b_ru, w_c, b_c = block
    step = reference.gru_block_cell(x, h, w_ru, w_c, b_ru, b_c)
    expected = reference.gru_cell(x, h, *keras, reset_after=False)
    np.testing.assert_allclose(step.h, expected.h, rtol=1e-13)
    np.testing.assert_allclose(step.u, expected.z, rtol=1e-13)
    if bias:
        assert_same(weights.block_cell_to_keras(*block), keras)


@pytest.mark.parametrize("forget_bias", [0.0, 1.0])
@pytest.mark.parametrize("bias", [True, False])
def test_lstm_block_cell(bias, forget_bias):
    case = CASES["lstm"]
    keras = keras_weights(case, bias)
    x, (h, c) = draw_x_and_states(case)
    w, b = weights.keras_to_lstm_block_cell(*keras, forget_bias=forget_bias)
    step = reference.lstm_block_cell(
        x, c, h, w, 0.0, 0.0, 0.0, b, forget_bias=forget_bias, cell_clip=0.0
    )
    assert_states([step.h, step.cs], expected_states(case, x, [h, c], keras))
    if bias:
        back = weights.lstm_block_cell_to_keras(w, b, forget_bias=forget_bias)
        assert_states(back, keras)


@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("scope", ["", "rnn/lstm_cell"])
def test_tf1_lstm_block_cell(peepholes, scope):
    block = list(weights.keras_to_lstm_block_cell(
        *keras_weights(CASES["lstm"])
    ))
    names = ["kernel", "bias"]
    if peepholes:
        names += ["w_i_diag", "w_f_diag", "w_o_diag"]
        block += list(np.random.default_rng(2).normal(size=(3, UNITS)))
    prefix = scope + "/" if scope else ""
    variables = dict(zip([prefix + name for name in names], block))
    assert_same(weights.tf1_to_lstm_block_cell(variables, scope), block)
    variables[prefix + names[-1]] = np.zeros(3)
    with pytest.raises(ValueError, match=f"{names[-1]}: expected shape"):
        weights.tf1_to_lstm_block_cell(variables, scope)
    with pytest.raises(KeyError, match="no LSTMBlockCell under 'other/'"):
        weights.tf1_to_lstm_block_cell(variables, "other")


@pytest.mark.parametrize("names", [
    ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"),
    ("w_ru", "b_ru", "w_c", "b_c"),
    ("w_c", "b_c", "w_ru", "b_ru"),  # stored under each other's name
])
@pytest.mark.parametrize("scope", ["", "rnn/gru_cell", "rnn/gru_cell/"])
def test_tf1_names(names, scope):
    block = weights.keras_to_block_cell(*keras_weights(GRU))
    prefix = scope.rstrip("/") + "/" if scope else ""
    variables = dict(zip([prefix + name for name in names], block))

    class Reader:
        has_tensor = staticmethod(variables.__contains__)
        get_tensor = staticmethod(variables.__getitem__)

    assert_same(weights.tf1_to_block_cell(variables, scope), block)
    assert_same(weights.tf1_to_block_cell(Reader, scope), block)


def test_tf1_checkpoint(tmp_path):
    tf = pytest.importorskip("tensorflow")
    block = weights.keras_to_block_cell(*keras_weights(GRU))
    path = str(tmp_path / "model.ckpt")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in zip(("w_ru", "b_ru", "w_c", "b_c"), block):
            tf.compat.v1.get_variable("rnn/" + name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, path)
    reader = tf.train.load_checkpoint(path)
    assert_same(weights.tf1_to_block_cell(reader, "rnn"), block)


def test_tf1_missing():
    with pytest.raises(KeyError, match="no GRUBlockCell under 'rnn/'"):
        weights.tf1_to_block_cell({"rnn/w_ru": 0}, "rnn")


# Gates in the order of each library, n and g what it calls the new value.
ORDERS = {
    "torch": {1: "h", 3: "rzn", 4: "ifgo"},
    "cudnn": {1: "h", 3: "rzn", 4: "ifgo"},
    "onnx": {1: "h", 3: "zrn", 4: "iofg"},
}


def library_step(order, W, R, B, Q, x, states, reset_after=True):
    """The libraries' documented formulas: the new states.

    W [GH, I], R [GH, H] and two biases [GH], gates in that order.
    """
    W, R, B, Q = (
        dict(zip(order, np.split(a, len(order)))) for a in (W, R, B, Q)
    )
    h = states[0]

    def total(gate, h=h):
        return x @ W[gate].T + B[gate] + h @ R[gate].T + Q[gate]

    if order == "h":
        return [np.tanh(total("h"))]
    if "f" in order:
        i, f, o = (sigmoid(total(gate)) for gate in "ifo")
        c = f * states[1] + i * np.tanh(total("g"))
        return [o * np.tanh(c), c]
    r, z = sigmoid(total("r")), sigmoid(total("z"))
    if reset_after:
        n = np.tanh(x @ W["n"].T + B["n"] + r * (h @ R["n"].T + Q["n"]))
    else:
        n = np.tanh(total("n", r * h))
    return [(1 - z) * n + z * h]


@pytest.mark.parametrize("name", AFTER)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layer, reverse", [(0, False), (2, True)])
def test_torch(name, bias, layer, reverse):
    case = CASES[name]
    keras = keras_weights(case, bias)
    state = weights.keras_to_torch(*keras, layer=layer, reverse=reverse)
    suffix = f"_l{layer}" + ("_reverse" if reverse else "")
    assert len(state) == (4 if bias else 2)
    none = np.zeros(case.gates * UNITS)
    x, states = draw_x_and_states(case)
    assert_states(
        library_step(
            ORDERS["torch"][case.gates],
            *(
                state.get(kind + suffix, none)
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ),
            x, states,
        ),
        expected_states(case, x, states, keras),
    )
    prefixed = {"encoder." + key: value for key, value in state.items()}
    assert_same(
        weights.torch_to_keras(
            prefixed, layer=layer, reverse=reverse, prefix="encoder."
        ),
        keras,
    )


def test_torch_missing_layer_and_projection():
    state = weights.keras_to_torch(*keras_weights(CASES["lstm"]))
    with pytest.raises(KeyError, match="no weight_ih_l1"):
        weights.torch_to_keras(state, layer=1)
    state["weight_hr_l0"] = np.ones((2, UNITS))
    with pytest.raises(ValueError, match="weight_hr_l0: .* no projection"):
        weights.torch_to_keras(state)


@pytest.mark.parametrize("name", AFTER)
def test_torch_itself(name):
    """Two layers of two directions; above the first layer both enter."""
    torch = pytest.importorskip("torch")
    case = CASES[name]
    layers = [
        [
            keras_weights(case, seed=10 + 2 * i + d, inputs=inputs)
            for d in range(2)
        ]
        for i, inputs in enumerate((INPUTS, 2 * UNITS))
    ]
    state = {}
    for i, directions in enumerate(layers):
        for d, w in enumerate(directions):
            state.update(weights.keras_to_torch(*w, layer=i, reverse=bool(d)))
    theirs = {"SimpleRNN": "RNN"}.get(case.keras, case.keras)
    module = getattr(torch.nn, theirs)(
        INPUTS, UNITS, 2, batch_first=True, bidirectional=True,
        dtype=torch.float64,
    )
    module.load_state_dict(
        {key: torch.from_numpy(value) for key, value in state.items()}
    )
    x = np.random.default_rng(3).normal(size=(BATCH, 5, INPUTS))
    outputs, _ = module(torch.from_numpy(x))
    for directions in layers:
        forward, backward = (
            case.sequence(
                x, *[None] * len(case.states), *w, go_backwards=bool(d),
                **case.options,
            )[0]
            for d, w in enumerate(directions)
        )
        x = np.concatenate([forward, backward[:, ::-1]], axis=2)
    np.testing.assert_allclose(outputs.detach().numpy(), x, atol=1e-13)
    for i, directions in enumerate(layers):
        for d, w in enumerate(directions):
            assert_same(
                weights.torch_to_keras(
                    module.state_dict(), layer=i, reverse=bool(d)
                ),
                w,
            )


def to_onnx(case, keras):
    return weights.keras_to_onnx(*keras, **case.options)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("bias", [True, False])
def test_onnx(name, bias):
    case = CASES[name]
    keras = keras_weights(case, bias)
    onnx = to_onnx(case, keras)
    assert onnx.linear_before_reset == case.options.get("reset_after")
    size = case.gates * UNITS
    B, Q = np.zeros((2, size)) if onnx.B is None else np.split(onnx.B[0], 2)
    x, states = draw_x_and_states(case)
    assert_states(
        library_step(
            ORDERS["onnx"][case.gates], onnx.W[0], onnx.R[0], B, Q, x, states,
            onnx.linear_before_reset,
        ),
        expected_states(case, x, states, keras),
    )
    assert_same(weights.onnx_to_keras(*onnx), keras)


@pytest.mark.parametrize("name", ["gru_before", "lstm", "simple_rnn"])
def test_onnx_second_direction_and_summed_bias(name):
    case = CASES[name]
    rng = np.random.default_rng(4)
    rows = case.gates * UNITS
    W = rng.normal(size=(2, rows, INPUTS))
    R = rng.normal(size=(2, rows, UNITS))
    B = rng.normal(size=(2, 2 * rows))
    keras = weights.onnx_to_keras(W, R, B, 0, direction=1)
    x, states = draw_x_and_states(case)
    assert_states(
        library_step(
            ORDERS["onnx"][case.gates], W[1], R[1], *np.split(B[1], 2), x,
            states, reset_after=False,
        ),
        expected_states(case, x, states, keras),
    )


@pytest.mark.parametrize("name", CASES)
def test_onnx_itself(name):
    helper = pytest.importorskip("onnx.helper")
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    case = CASES[name]
    keras = keras_weights(case)
    onnx = to_onnx(case, keras)
    arrays = {"W": onnx.W, "R": onnx.R, "B": onnx.B}
    x = np.random.default_rng(5).normal(size=(5, BATCH, INPUTS))
    node = helper.make_node(
        {"SimpleRNN": "RNN"}.get(case.keras, case.keras),
        ["X", *arrays], ["", "Y_h"], hidden_size=UNITS,
        **({"linear_before_reset": onnx.linear_before_reset}
           if case.gates == 3 else {}),
    )
    infos = [
        helper.make_tensor_value_info(n, 11, None) for n in ("X", *arrays)
    ]
    graph = helper.make_graph(
        [node], "cell", infos, [helper.make_tensor_value_info("Y_h", 11, None)]
    )
    (state,) = evaluator(helper.make_model(graph)).run(
        None, {"X": x, **arrays}
    )
    expected = case.sequence(
        x.swapaxes(0, 1), *[None] * len(case.states), *keras, **case.options
    )[1]
    np.testing.assert_allclose(state[0], expected, atol=1e-13)


@pytest.mark.parametrize("name", AFTER)
def test_cudnn(name):
    case = CASES[name]
    keras = keras_weights(case)
    matrices, biases = weights.keras_to_cudnn(*keras)
    assert len(matrices) == len(biases) == 2 * case.gates
    x, states = draw_x_and_states(case)
    assert_states(
        library_step(
            ORDERS["cudnn"][case.gates],
            *(
                np.concatenate(values)
                for both in (matrices, biases)
                for values in (both[:case.gates], both[case.gates:])
            ),
            x, states,
        ),
        expected_states(case, x, states, keras),
    )
    assert_same(weights.cudnn_to_keras(matrices, biases), keras)


@pytest.mark.parametrize("name", AFTER)
def test_cudnn_without_bias(name):
    _, biases = weights.keras_to_cudnn(*keras_weights(CASES[name], bias=False))
    assert len(biases) == 2 * CASES[name].gates and not np.any(biases)


@pytest.mark.parametrize("convert, arguments, message", [
    (weights.keras_to_block_cell, keras_weights(CASES["gru_after"]),
     r"bias: expected shape \[12\], got \[2, 12\]"),
    (weights.keras_to_torch, keras_weights(GRU),
     r"bias: expected shape \[2, 12\], got \[12\]"),
    (weights.keras_to_torch, (np.ones((2, 9)), np.ones((4, 12))),
     r"kernel: expected shape \[any, 12\], got \[2, 9\]"),
    (weights.keras_to_torch, (np.ones((2, 12)), np.ones((4, 11))),
     r"recurrent_kernel: expected shape \[4, 4\] or \[4, 12\] or \[4, 16\],"
     r" got \[4, 11\]"),
    (weights.keras_to_torch, (np.ones((2, 0)), np.ones((0, 0))),
     r"recurrent_kernel: expected shape .* got \[0, 0\]"),
    (weights.keras_to_block_cell, keras_weights(CASES["lstm"]),
     r"recurrent_kernel: expected shape \[4, 12\], got \[4, 16\]"),
    (weights.keras_to_onnx,
     (np.ones((2, 16)), np.ones((4, 16)), np.ones((2, 16))),
     r"bias: expected shape \[16\], got \[2, 16\]"),
    (weights.keras_to_onnx, keras_weights(GRU),
     "reset_after: expected True or False"),
    (weights.block_cell_to_keras,
     (np.ones((6, 8)), np.ones(8), np.ones((5, 4)), np.ones(4)),
     r"gates_kernel: expected shape \[5, 8\], got \[6, 8\]"),
    (weights.block_cell_to_keras,
     (np.ones((6, 8)), np.ones(7), np.ones((6, 4)), np.ones(4)),
     r"gates_bias: expected shape \[8\], got \[7\]"),
    (weights.block_cell_to_keras,
     (np.ones((3, 8)), np.ones(8), np.ones((3, 4)), np.ones(4)),
     r"candidate_kernel: expected shape \[I \+ H, H\], got \[3, 4\]"),
    (weights.onnx_to_keras,
     (np.ones((1, 12, 2)), np.ones((1, 12, 4)), np.ones((1, 12))),
     r"B: expected shape \[24\], got \[12\]"),
    (weights.cudnn_to_keras, ([], []), "expected 6 matrices"),
    (weights.textbook_gru_to_keras,
     ({n + g: np.ones((3, 4)) for n in "Wb" for g in "zrh"},),
     r"Wz: expected shape \[H \+ I, H\], got \[3, 4\]"),
    (weights.textbook_rnn_to_keras,
     ({"Wxh": np.ones((2, 4)), "Whh": np.ones((4, 3)), "bh": np.ones(4)},),
     r"Whh: expected shape \[4, 4\], got \[4, 3\]"),
    (weights.keras_to_textbook_gru, keras_weights(CASES["gru_after"]),
     r"bias: expected shape \[12\], got \[2, 12\]"),
])
def test_wrong_shapes(convert, arguments, message):
    with pytest.raises(ValueError, match=message):
        convert(*arguments)
