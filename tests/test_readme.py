"""README and docs: examples run, and what they name is there."""

import re
import textwrap

import pytest

from helpers import ROOT, run_python

TEXT = (ROOT / "README.md").read_text()


def examples_of(text):
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


# Those that stand for themselves.
EXAMPLES = [
    *examples_of(TEXT),
    *examples_of((ROOT / "docs" / "networks.md").read_text()),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_runs(example, tmp_path):
    pytest.importorskip("tensorflow")
    run_python(f"import os, sys\nos.chdir(sys.argv[1])\n{example}", tmp_path)


# What the examples of docs/serving.md take for granted.
SERVING = """
    import os, sys
    import keras, numpy as np, fused_rnn
    os.chdir(sys.argv[1])
    stock_model = keras.Sequential([
        keras.Input((None, 3)), keras.layers.GRU(4, name="gru"),
    ])
    stock_model.compile("sgd", "mse")
    stock_model.save("old.keras")
    original = fused_rnn.fuse(keras.models.clone_model(stock_model))
    original.save("model.keras")
    original.export("served")
    folder = "served"
    x, y = np.ones((2, 5, 3), "float32"), np.ones((2, 4), "float32")
    stream = stream_of_inputs = x[:1].swapaxes(0, 1)
"""
# What they leave behind. A served model has no layers, but gradients.
CHECK = """
    assert type(copy.layers[0]) is fused_rnn.GRU
    assert type(stock_model.layers[0]) is keras.layers.GRU
    assert type(cell) is fused_rnn.GRUCell
    # Both streams went on from the same state, with the weights of one model.
    x, h = np.ones((1, 3), "float32"), np.array(h)
    np.testing.assert_allclose(step(x, h), stream.step(x), rtol=0, atol=1e-6)
    gradients = []
    for function in (served.serve, original):
        x = tf.ones((2, 5, 3))
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = function(x)
        gradients.append(tape.gradient(outputs, x))
    np.testing.assert_allclose(*gradients, rtol=0, atol=1e-6)
"""


def test_serving_examples_run(tmp_path):
    pytest.importorskip("tensorflow")
    import fused_rnn

    text = (ROOT / "docs" / "serving.md").read_text()
    code = "".join(
        example.replace("/path/to/_fused_rnn_tf.so", fused_rnn.library_path())
        .replace("model = tf.saved_model", "served = tf.saved_model")
        for example in examples_of(text)
    )
    run_python(
        textwrap.dedent(SERVING) + code + textwrap.dedent(CHECK), tmp_path
    )


def test_paths_exist():
    paths = re.findall(r"\]\(([^)#:]+)\)", TEXT) + [
        path
        for path in re.findall(r"`([^`\n ]+)`", TEXT)
        if re.match(r"(csrc|python|tests|docs|benchmarks)/", path)
    ]
    assert len(paths) > 5
    for path in paths:
        assert list(ROOT.glob(path.rstrip("/"))), path


def test_names_exist():
    pytest.importorskip("tensorflow")
    import fused_rnn

    names = set(re.findall(r"`fused_rnn\.(\w+)`", TEXT))
    assert "GRUBlockCell" in names
    for name in names - {"weights", "reference", "numpy", "cuda"}:
        assert hasattr(fused_rnn, name), name
    from fused_rnn import reference, weights  # noqa: F401
