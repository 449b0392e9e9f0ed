"""The block cell's ops: values, shapes, takeover, threads."""

import numpy as np
import pytest
import tensorflow as tf
from bounds import Bounded, bounded_cell, bounded_cell_grad
from helpers import (
    CELL_INPUTS,
    CELL_OUTPUTS,
    CELL_SHAPES,
    DTYPES,
    cell_arguments,
    cell_gradients,
    run_python,
)

import fused_rnn
from fused_rnn import _library, reference

_ops = _library.load()


def sample(shape, dtype="float32", seed=0):
    """Inputs by name, and the gradients that come in, for a named shape."""
    batch, inputs, units = CELL_SHAPES.get(shape, shape)
    return (
        cell_arguments(seed, batch, inputs, units, DTYPES[dtype]),
        cell_gradients(seed + 1, batch, units, DTYPES[dtype]),
    )


def numpy(tensors):
    return [tensor.numpy() for tensor in tensors]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CELL_SHAPES)
def test_oracle_values(shape, dtype):
    inputs, _ = sample(shape, dtype)
    actual = fused_rnn.gru_block_cell(**inputs)
    expected = reference.gru_block_cell(**inputs)
    bounds = bounded_cell(DTYPES[dtype], **inputs)
    for name, bound in zip(CELL_OUTPUTS, bounds):
        bound.check(getattr(actual, name), getattr(expected, name), name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CELL_SHAPES)
def test_oracle_gradients(shape, dtype):
    inputs, incoming = sample(shape, dtype)
    expected = reference.gru_block_cell_grad(**inputs, **incoming)
    bounds = bounded_cell_grad(DTYPES[dtype], **inputs, **incoming)

    tensors = [tf.constant(value) for value in inputs.values()]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        outputs = fused_rnn.gru_block_cell(*tensors)
    gradients = tape.gradient(
        outputs, tensors, [tf.constant(value) for value in incoming.values()]
    )
    for name, gradient in zip(CELL_INPUTS, gradients):
        bounds[name].check(gradient, expected[name], name)

    r, u, c, _ = outputs
    d_r, d_u, d_c, d_h = incoming.values()
    actual = _ops.fused_rnn_gru_block_cell_grad(
        *tensors, r, u, c, d_h, [d_r, d_u, d_c]
    )
    for name, gradient in zip(("x", "h_prev", "c_bar", "r_bar_u_bar"), actual):
        bounds[name].check(gradient, expected[name], name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CELL_SHAPES)
def test_oracle_weight_gradients(shape, dtype):
    """The weights' gradients of gate gradients that the test makes up."""
    inputs, incoming = sample(shape, dtype)
    x, h_prev = inputs["x"], inputs["h_prev"]
    r, d_c_bar, d_u_bar = (incoming[name] for name in ("d_r", "d_c", "d_u"))
    d_gates = np.concatenate([incoming["d_h"], d_u_bar], axis=1)
    actual = _ops.fused_rnn_gru_block_cell_weight_grad(
        x, h_prev, r, d_c_bar, d_gates
    )

    def exact(value):
        return Bounded(value.astype(np.float64), x.dtype)

    ones = np.ones((1, len(x)))
    left = np.concatenate([x, h_prev], axis=1).T
    expected = {
        "w_ru": exact(left) @ exact(d_gates),
        # The product of state and gate rounds once.
        "w_c": exact(x.T) @ exact(d_c_bar),
        "b_ru": exact(ones) @ exact(d_gates),
        "b_c": exact(ones) @ exact(d_c_bar),
    }
    inputs_size = x.shape[1]
    d_w_ru, d_w_c, d_b_ru, d_b_c = actual
    for name, value in (
        ("w_ru", d_w_ru), ("w_c", d_w_c[:inputs_size]),
        ("b_ru", d_b_ru[None]), ("b_c", d_b_c[None]),
    ):
        bound = expected[name].stored()
        bound.check(value, bound.value, name)
    of_state = ((exact(h_prev) * exact(r)).T @ exact(d_c_bar)).stored()
    of_state.check(d_w_c[inputs_size:], of_state.value, "w_c of the state")


def test_gradient_without_gate_gradients_is_that_with_zeros():
    inputs, incoming = sample("primes")
    r, u, c, _ = fused_rnn.gru_block_cell(**inputs)
    zeros = np.zeros_like(incoming["d_r"])
    call = [*inputs.values(), r, u, c, incoming["d_h"]]
    without = _ops.fused_rnn_gru_block_cell_grad(*call, [])
    with_zeros = _ops.fused_rnn_gru_block_cell_grad(*call, [zeros] * 3)
    own = tf.raw_ops.GRUBlockCellGrad(
        x=call[0], h_prev=call[1], w_ru=call[2], w_c=call[3], b_ru=call[4],
        b_c=call[5], r=r, u=u, c=c, d_h=call[9],
    )
    for a, b, c in zip(without, with_zeros, own):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_known_last_state_of_keras_tests():
    """Values of Keras' own published tests, recomputed in float64."""
    x = np.arange(72.0).reshape(3, 6, 4)
    w_ru = np.concatenate([np.full((4, 6), 0.01), np.full((3, 6), 0.02)])
    w_c = w_ru[:, :3]
    h = np.zeros((3, 3))
    for t in range(6):
        h = fused_rnn.gru_block_cell(
            x[:, t], h, w_ru, w_c, np.full(6, 0.03), np.full(3, 0.03)
        ).h
    expected = np.array([0.51447756, 0.6426879, 0.40208288])
    # Given to eight digits.
    np.testing.assert_allclose(h, np.tile(expected[:, None], 3), atol=5e-9)


TENSORFLOW_KERNEL = """
    import sys, numpy as np, tensorflow as tf
    with np.load(sys.argv[1]) as file:
        inputs = dict(file)
    d_h = inputs.pop("d_h")
    r, u, c, h = tf.raw_ops.GRUBlockCell(**inputs)
    grads = tf.raw_ops.GRUBlockCellGrad(**inputs, r=r, u=u, c=c, d_h=d_h)
    np.savez(sys.argv[2], *[t.numpy() for t in [r, u, c, h, *grads]])
"""


def test_same_as_tensorflows_own_kernel(tmp_path):
    """Against a process that never imports the package."""
    inputs, incoming = sample("primes")
    d_h = incoming["d_h"]
    np.savez(tmp_path / "inputs.npz", **inputs, d_h=d_h)
    run_python(
        TENSORFLOW_KERNEL, tmp_path / "inputs.npz", tmp_path / "out.npz"
    )
    with np.load(tmp_path / "out.npz") as file:
        theirs = list(file.values())
    r, u, c, h = tf.raw_ops.GRUBlockCell(**inputs)
    ours = [
        r, u, c, h,
        *tf.raw_ops.GRUBlockCellGrad(**inputs, r=r, u=u, c=c, d_h=d_h),
    ]
    # Both sides lie within the tolerance of the exact values.
    zeros = dict.fromkeys(("d_r", "d_u", "d_c"), np.zeros_like(d_h))
    grads = bounded_cell_grad(np.float32, **inputs, **zeros, d_h=d_h)
    bounds = list(bounded_cell(np.float32, **inputs)) + [
        grads[name] for name in ("x", "h_prev", "c_bar", "r_bar_u_bar")
    ]
    for bound, our, their in zip(bounds, ours, theirs):
        difference = np.abs(our.numpy().astype(np.float64) - their)
        assert (difference <= 2 * bound.tolerance).all()


def test_takes_over_tensorflows_op():
    """Only this library's kernels name both shapes when sizes disagree."""
    inputs, _ = sample("primes")
    inputs["b_c"] = inputs["b_c"][1:]
    with pytest.raises(tf.errors.InvalidArgumentError, match="b_c must have"):
        tf.raw_ops.GRUBlockCell(**inputs)


@pytest.mark.parametrize("shape", ["serving", "split", "wide"])
def test_forwarded_buffers_give_the_same_bits(shape):
    """h_prev and x that nobody else holds are overwritten in place."""
    inputs, incoming = sample(shape)

    @tf.function
    def forwarded(x, h_prev, *weights):
        # Fresh tensors of the graph whose only use is the op.
        return fused_rnn.gru_block_cell(x, h_prev * tf.constant(1.0), *weights)

    @tf.function
    def grad_forwarded(inputs, gates, d_h):
        one = tf.constant(1.0)
        x, h_prev, *weights = inputs
        return _ops.fused_rnn_gru_block_cell_grad(
            x * one, h_prev * one, *weights, *[gate * one for gate in gates],
            d_h * one, [],
        )

    tensors = [tf.constant(value) for value in inputs.values()]
    plain = fused_rnn.gru_block_cell(*tensors)
    for a, b in zip(plain, forwarded(*tensors)):
        np.testing.assert_array_equal(a, b)
    d_h = tf.constant(incoming["d_h"])
    plain_grad = _ops.fused_rnn_gru_block_cell_grad(
        *tensors, *plain[:3], d_h, []
    )
    for a, b in zip(plain_grad, grad_forwarded(tensors, plain[:3], d_h)):
        np.testing.assert_array_equal(a, b)
    for tensor, value in zip(tensors, inputs.values()):
        np.testing.assert_array_equal(tensor, value)


def test_misaligned_rows():
    """Rows that start anywhere, as in memory that others allocated."""
    inputs, _ = sample("primes")
    shifted = []
    for value in inputs.values():
        buffer = np.empty(value.size + 1, value.dtype)
        buffer[1:] = value.ravel()
        view = buffer[1:].reshape(value.shape)
        shifted.append(
            tf.experimental.dlpack.from_dlpack(view.__dlpack__())
        )
    for a, b in zip(
        fused_rnn.gru_block_cell(*shifted), fused_rnn.gru_block_cell(**inputs)
    ):
        np.testing.assert_array_equal(a, b)


def test_nan_stays_in_its_row():
    inputs, _ = sample("row_block_and_one")
    clean = numpy(fused_rnn.gru_block_cell(**inputs))
    inputs["x"][4, 2] = np.nan
    dirty = numpy(fused_rnn.gru_block_cell(**inputs))
    for a, b in zip(clean, dirty):
        assert np.isnan(b[4]).all()
        np.testing.assert_array_equal(np.delete(a, 4, 0), np.delete(b, 4, 0))


def test_saturated_gates():
    """Values whose exponentials overflow or vanish."""
    ones = np.ones((1, 1), np.float32)
    for size in (1e3, 1e30, np.inf):
        for sign in (1, -1):
            w_ru = np.full((2, 2), sign * size, np.float32)
            w_c = np.full((2, 1), sign * size, np.float32)
            r, u, c, h = numpy(
                fused_rnn.gru_block_cell(
                    ones, 0 * ones + 0.5, w_ru, w_c, np.zeros(2, np.float32),
                    np.zeros(1, np.float32),
                )
            )
            gate = 1.0 if sign > 0 else 0.0
            assert (r, u) == (gate, gate)
            # 0 * inf in the reset state is not a number, and stays visible.
            if np.isfinite(size) or sign > 0:
                assert c == sign
                assert h == gate * 0.5 + (1 - gate) * c
