"""Layouts of other libraries, each against that library's own formula.

The formulas here are written out from the libraries' documentation, on their
layouts, and share nothing with fused_rnn. Where torch or onnx is installed,
the library itself is asked too.
"""

import numpy as np
import pytest

from fused_rnn import reference, weights

BATCH, INPUTS, UNITS = 3, 2, 4


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def keras_weights(reset_after, bias=True, seed=0):
    rng = np.random.default_rng(seed)
    shape = (2, 3 * UNITS) if reset_after else (3 * UNITS,)
    return weights.KerasWeights(
        rng.normal(size=(INPUTS, 3 * UNITS)),
        rng.normal(size=(UNITS, 3 * UNITS)),
        rng.normal(size=shape) if bias else None,
    )


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(BATCH, INPUTS))


@pytest.fixture
def h():
    return np.random.default_rng(2).normal(size=(BATCH, UNITS))


def assert_same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right):
        if b is None:
            assert a is None
        else:
            np.testing.assert_array_equal(a, b)


def test_block_cell(x, h):
    keras = keras_weights(reset_after=False)
    block = weights.keras_to_block_cell(*keras)
    w_ru, b_ru, w_c, b_c = block
    step = reference.gru_block_cell(x, h, w_ru, w_c, b_ru, b_c)
    expected = reference.gru_cell(x, h, *keras, reset_after=False)
    np.testing.assert_allclose(step.h, expected.h, rtol=1e-13)
    np.testing.assert_allclose(step.u, expected.z, rtol=1e-13)
    assert_same(weights.block_cell_to_keras(*block), keras)


def test_block_cell_without_bias(x, h):
    keras = keras_weights(reset_after=False, bias=False)
    w_ru, b_ru, w_c, b_c = weights.keras_to_block_cell(*keras)
    step = reference.gru_block_cell(x, h, w_ru, w_c, b_ru, b_c)
    expected = reference.gru_cell(x, h, *keras, reset_after=False)
    np.testing.assert_allclose(step.h, expected.h, rtol=1e-13)


@pytest.mark.parametrize("names", [
    ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"),
    ("w_ru", "b_ru", "w_c", "b_c"),
    ("w_c", "b_c", "w_ru", "b_ru"),  # stored under each other's name
])
@pytest.mark.parametrize("scope", ["", "rnn/gru_cell", "rnn/gru_cell/"])
def test_tf1_names(names, scope):
    block = weights.keras_to_block_cell(*keras_weights(reset_after=False))
    prefix = scope.rstrip("/") + "/" if scope else ""
    variables = dict(zip([prefix + name for name in names], block))

    class Reader:
        has_tensor = staticmethod(variables.__contains__)
        get_tensor = staticmethod(variables.__getitem__)

    assert_same(weights.tf1_to_block_cell(variables, scope), block)
    assert_same(weights.tf1_to_block_cell(Reader, scope), block)


def test_tf1_checkpoint(tmp_path):
    tf = pytest.importorskip("tensorflow")
    block = weights.keras_to_block_cell(*keras_weights(reset_after=False))
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


def torch_step(state, x, h, suffix="_l0"):
    """PyTorch's documented formula; rows of its matrices are r, z, n."""
    gx = x @ state["weight_ih" + suffix].T
    gh = h @ state["weight_hh" + suffix].T
    if "bias_ih" + suffix in state:
        gx = gx + state["bias_ih" + suffix]
        gh = gh + state["bias_hh" + suffix]
    (x_r, x_z, x_n), (h_r, h_z, h_n) = (np.split(g, 3, 1) for g in (gx, gh))
    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    n = np.tanh(x_n + r * h_n)
    return (1 - z) * n + z * h


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layer, reverse", [(0, False), (2, True)])
def test_torch(x, h, bias, layer, reverse):
    keras = keras_weights(reset_after=True, bias=bias)
    state = weights.keras_to_torch(*keras, layer=layer, reverse=reverse)
    suffix = f"_l{layer}" + ("_reverse" if reverse else "")
    expected = reference.gru_cell(x, h, *keras, reset_after=True)
    np.testing.assert_allclose(
        torch_step(state, x, h, suffix), expected.h, rtol=1e-13
    )
    prefixed = {"encoder." + name: value for name, value in state.items()}
    assert_same(
        weights.torch_to_keras(
            prefixed, layer=layer, reverse=reverse, prefix="encoder."
        ),
        keras,
    )


def test_torch_missing_layer():
    state = weights.keras_to_torch(*keras_weights(reset_after=True))
    with pytest.raises(KeyError, match="no weight_ih_l1"):
        weights.torch_to_keras(state, layer=1)


def test_torch_itself():
    torch = pytest.importorskip("torch")
    layers = [
        [keras_weights(True, seed=10 + 2 * i + d) for d in range(2)]
        for i in range(2)
    ]
    # Above the first layer both directions enter.
    rng = np.random.default_rng(3)
    layers[1] = [
        w._replace(kernel=rng.normal(size=(2 * UNITS, 3 * UNITS)))
        for w in layers[1]
    ]
    state = {}
    for i, directions in enumerate(layers):
        for d, w in enumerate(directions):
            state.update(weights.keras_to_torch(*w, layer=i, reverse=bool(d)))
    gru = torch.nn.GRU(INPUTS, UNITS, 2, batch_first=True, bidirectional=True,
                       dtype=torch.float64)
    gru.load_state_dict(
        {n: torch.from_numpy(np.ascontiguousarray(v))
         for n, v in state.items()}
    )
    x = rng.normal(size=(BATCH, 5, INPUTS))
    outputs, _ = gru(torch.from_numpy(x))
    for directions in layers:
        forward, backward = (
            reference.gru(
                x, None, *w, reset_after=True, go_backwards=bool(d)
            )[0]
            for d, w in enumerate(directions)
        )
        x = np.concatenate([forward, backward[:, ::-1]], axis=2)
    np.testing.assert_allclose(outputs.detach().numpy(), x, atol=1e-13)
    for i, directions in enumerate(layers):
        for d, w in enumerate(directions):
            assert_same(
                weights.torch_to_keras(
                    gru.state_dict(), layer=i, reverse=bool(d)
                ),
                w,
            )


def onnx_step(onnx, x, h):
    """ONNX' documented formula; rows of its matrices are z, r, h."""
    W, R, B, linear_before_reset = onnx
    bias = np.zeros(6 * UNITS) if B is None else B[0]
    w_z, w_r, w_h = np.split(W[0], 3)
    r_z, r_r, r_h = np.split(R[0], 3)
    wb_z, wb_r, wb_h, rb_z, rb_r, rb_h = np.split(bias, 6)
    z = sigmoid(x @ w_z.T + h @ r_z.T + wb_z + rb_z)
    r = sigmoid(x @ w_r.T + h @ r_r.T + wb_r + rb_r)
    if linear_before_reset:
        hh = np.tanh(x @ w_h.T + r * (h @ r_h.T + rb_h) + wb_h)
    else:
        hh = np.tanh(x @ w_h.T + (r * h) @ r_h.T + rb_h + wb_h)
    return (1 - z) * hh + z * h


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("reset_after", [True, False])
def test_onnx(x, h, bias, reset_after):
    keras = keras_weights(reset_after, bias)
    onnx = weights.keras_to_onnx(*keras, reset_after=reset_after)
    assert onnx.linear_before_reset == reset_after
    expected = reference.gru_cell(x, h, *keras, reset_after=reset_after)
    np.testing.assert_allclose(onnx_step(onnx, x, h), expected.h, rtol=1e-13)
    assert_same(weights.onnx_to_keras(*onnx), keras)


def test_onnx_second_direction_and_summed_bias(x, h):
    rng = np.random.default_rng(4)
    W = rng.normal(size=(2, 3 * UNITS, INPUTS))
    R = rng.normal(size=(2, 3 * UNITS, UNITS))
    B = rng.normal(size=(2, 6 * UNITS))
    keras = weights.onnx_to_keras(W, R, B, 0, direction=1)
    expected = onnx_step((W[1:], R[1:], B[1:], 0), x, h)
    step = reference.gru_cell(x, h, *keras, reset_after=False)
    np.testing.assert_allclose(step.h, expected, rtol=1e-13)


@pytest.mark.parametrize("reset_after", [True, False])
def test_onnx_itself(reset_after):
    helper = pytest.importorskip("onnx.helper")
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    keras = keras_weights(reset_after)
    onnx = weights.keras_to_onnx(*keras, reset_after=reset_after)
    arrays = {"W": onnx.W, "R": onnx.R, "B": onnx.B}
    x = np.random.default_rng(5).normal(size=(5, BATCH, INPUTS))
    node = helper.make_node(
        "GRU", ["X", "W", "R", "B"], ["", "Y_h"], hidden_size=UNITS,
        linear_before_reset=onnx.linear_before_reset,
    )
    infos = [
        helper.make_tensor_value_info(n, 11, None) for n in ("X", *arrays)
    ]
    graph = helper.make_graph(
        [node], "gru", infos, [helper.make_tensor_value_info("Y_h", 11, None)]
    )
    (state,) = evaluator(helper.make_model(graph)).run(
        None, {"X": x, **arrays}
    )
    expected = reference.gru(
        x.swapaxes(0, 1), None, *keras, reset_after=reset_after
    )[1]
    np.testing.assert_allclose(state[0], expected, atol=1e-13)


def test_cudnn(x, h):
    keras = keras_weights(reset_after=True)
    matrices, biases = weights.keras_to_cudnn(*keras)
    w_r, w_z, w_n, r_r, r_z, r_n = matrices
    b_r, b_z, b_n, q_r, q_z, q_n = biases
    r = sigmoid(x @ w_r.T + h @ r_r.T + b_r + q_r)
    z = sigmoid(x @ w_z.T + h @ r_z.T + b_z + q_z)
    n = np.tanh(x @ w_n.T + r * (h @ r_n.T + q_n) + b_n)
    expected = reference.gru_cell(x, h, *keras, reset_after=True)
    np.testing.assert_allclose((1 - z) * n + z * h, expected.h, rtol=1e-13)
    assert_same(weights.cudnn_to_keras(matrices, biases), keras)


def test_cudnn_without_bias():
    keras = keras_weights(reset_after=True, bias=False)
    _, biases = weights.keras_to_cudnn(*keras)
    assert len(biases) == 6 and not np.any(biases)


@pytest.mark.parametrize("convert, arguments, message", [
    (weights.keras_to_block_cell, keras_weights(True),
     r"bias: expected shape \[12\], got \[2, 12\]"),
    (weights.keras_to_torch, keras_weights(False),
     r"bias: expected shape \[2, 12\], got \[12\]"),
    (weights.keras_to_torch, (np.ones((2, 9)), np.ones((4, 12))),
     r"kernel: expected shape \[any, 12\], got \[2, 9\]"),
    (weights.keras_to_torch, (np.ones((2, 12)), np.ones((4, 11))),
     r"recurrent_kernel: expected shape \[4, 12\], got \[4, 11\]"),
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
])
def test_wrong_shapes(convert, arguments, message):
    with pytest.raises(ValueError, match=message):
        convert(*arguments)
