"""TensorFlow's BlockLSTM and BlockLSTMV2, by the library's kernels."""

import json

import numpy as np
import pytest
import tensorflow as tf
from bounds import unit_roundoff
from bounds_block import block_lstm_bounds
from helpers import DTYPES, SEQUENCE_SHAPES, run_python
from helpers_block import BLOCK_CELLS

from fused_rnn import reference

CELL = BLOCK_CELLS["lstm_peephole"]
# The order of the gates, and what the oracle is told, by op.
ORDERS = {
    "BlockLSTM": ("i", "ci", "f", "o"), "BlockLSTMV2": ("i", "f", "ci", "o")
}
LAYOUTS = {"BlockLSTM": "LSTMBlockCell", "BlockLSTMV2": "BlockLSTMV2"}
OPTIONS = [
    dict(cell_clip=0.0, use_peephole=False),
    dict(cell_clip=0.375, use_peephole=True),
]
each_op = pytest.mark.parametrize("op", ORDERS)
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def arguments(shape, dtype=np.float32):
    """Inputs by name, time-major, for (B, T, I, H)."""
    batch, steps, inputs, units = shape
    values = CELL.arguments(0, batch, inputs, units, dtype)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((steps, batch, inputs)).astype(dtype)
    return {**values, "x": x}


def all_options(op, options):
    """Only the older op has a forget bias."""
    return {**options, **({"forget_bias": 0.5} if op == "BlockLSTM" else {})}


def run(op, steps, values, options):
    return getattr(tf.raw_ops, op)(
        seq_len_max=tf.constant(steps, tf.int64), **values,
        **all_options(op, options),
    )


@each_op
@each_option
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", SEQUENCE_SHAPES)
def test_oracle_values(op, options, dtype, shape):
    shape = SEQUENCE_SHAPES[shape]
    values = arguments(shape, DTYPES[dtype])
    full = {"forget_bias": 0.0, **all_options(op, options)}
    for steps in {shape[1], shape[1] // 2}:
        outputs = run(op, steps, values, options)
        expected = reference.block_lstm(
            steps, **values, **full, layout=LAYOUTS[op]
        )
        bounds = block_lstm_bounds(
            DTYPES[dtype], steps, **values, **full, order=ORDERS[op]
        )
        for k, name in enumerate(CELL.outputs):
            output, wanted = outputs[k].numpy(), expected[k]
            assert output.shape == (shape[1], shape[0], shape[3])
            for t in range(steps):
                bounds[t][k].check(output[t], wanted[t], f"{name} at {t}")
            # TensorFlow's kernel leaves all but cs and h uninitialised.
            assert not output[steps:].any()


TENSORFLOW_KERNEL = """
    import json, sys
    import numpy as np, tensorflow as tf
    if sys.argv[4] == "ours":
        import fused_rnn
    op, options = sys.argv[1], json.loads(sys.argv[2])
    with np.load(sys.argv[3]) as file:
        values = {name: tf.constant(value) for name, value in file.items()}
    results = {}
    for steps in (3, 5):
        with tf.GradientTape() as tape:
            tape.watch(list(values.values()))
            outputs = getattr(tf.raw_ops, op)(
                seq_len_max=tf.constant(steps, tf.int64), **values, **options)
            loss = tf.reduce_sum(tf.sin(outputs.h) + outputs.cs ** 2)
        gradients = tape.gradient(loss, values)
        for name, value in outputs._asdict().items():
            defined = None if name in ("cs", "h") else steps
            results[f"{name} {steps}"] = value[:defined]
        for name, value in gradients.items():
            results[f"d_{name} {steps}"] = value
    np.savez(sys.argv[5], **results)
"""


@each_op
@each_option
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_same_as_tensorflows_own_kernel(op, options, dtype, tmp_path):
    """Values, and the gradient that TensorFlow makes of them with its own
    kernel, in processes with and without the package."""
    values = arguments(SEQUENCE_SHAPES["primes"], DTYPES[dtype])
    np.savez(tmp_path / "values.npz", **values)
    results = []
    for kernel in ("theirs", "ours"):
        file = tmp_path / f"{kernel}.npz"
        run_python(
            TENSORFLOW_KERNEL, op, json.dumps(all_options(op, options)),
            tmp_path / "values.npz", kernel, file,
        )
        with np.load(file) as loaded:
            results.append(dict(loaded))
    theirs, ours = results
    for name, value in theirs.items():
        value = value.astype(np.float64)
        # Sums of 84 terms, of which TensorFlow rounds each to the type, and
        # five steps of them.
        tolerance = 64 * unit_roundoff(dtype) * max(1.0, np.abs(value).max())
        assert np.abs(ours[name] - value).max(initial=0) <= tolerance, name


@each_op
def test_nan_stays_in_its_row_and_after_its_step(op):
    values = arguments((3, 4, 5, 6))
    clean = run(op, 4, values, OPTIONS[1])
    values["x"][2, 1, 3] = np.nan
    values["x"][3:] = np.nan
    dirty = run(op, 3, values, OPTIONS[1])
    for a, b in zip(clean, dirty):
        np.testing.assert_array_equal(a[:2], b[:2])
        np.testing.assert_array_equal(a[2, ::2], b[2, ::2])
        assert np.isnan(b[2, 1]).all() and not b[3:].numpy().any()


@each_op
@pytest.mark.parametrize("steps", [-1, 5, 2**40])
def test_wrong_number_of_steps(op, steps):
    """TensorFlow's kernel takes the process down."""
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=f"seq_len_max must be between 0 and 4, .* got {steps}",
    ):
        run(op, steps, arguments((3, 4, 5, 6)), OPTIONS[0])


@each_op
@pytest.mark.parametrize("name", CELL.inputs)
def test_wrong_shapes(op, name):
    values = arguments((3, 4, 5, 6))
    values[name] = values[name][:-1]
    culprit = name
    if name == "x":
        values["x"] = values["x"][..., :-1]
        culprit = "w"
    elif name == "cs_prev":
        values["cs_prev"] = np.zeros((3, 7), np.float32)
        culprit = "h_prev"
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"{culprit} must have shape"
    ) as error:
        run(op, 3, values, OPTIONS[1])
    assert "x is [" in str(error.value) and "cs_prev is [" in str(error.value)
    if name in ("wci", "wcf", "wco"):  # Not read, so of no matter.
        run(op, 3, values, OPTIONS[0])


@each_op
def test_not_a_scalar(op):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="seq_len_max must have shape"
    ):
        run(op, [1, 2], arguments((3, 4, 5, 6)), OPTIONS[0])
