"""Registered gradients of the sequence ops, to second order and beyond."""

import numpy as np
import pytest
import tensorflow as tf
from bounds import unit_roundoff
from helpers import first_states
from helpers_gradients import (
    assert_close,
    first_order,
    hessian_product,
    jvp,
    second_order,
    tensors_of,
    third_order,
)
from helpers_rnn import CELLS, differentiable, each_cell, each_function, fused
from plain_rnn import plain

from fused_rnn import reference

# The first matters without a mask, the last with one.
FLAGS = ("time_major", "go_backwards", "zero_output_for_mask")


@each_cell
@pytest.mark.parametrize("mask", [True, False])
def test_second_order(mask, cell):
    for flag in FLAGS[mask : mask + 2]:
        options = dict.fromkeys(FLAGS, False)
        options[flag] = True
        tensors, others = tensors_of(
            cell, mask=mask, dropout=mask and flag == FLAGS[1] or "shared"
        )
        if options["time_major"]:
            tensors[0] = tf.transpose(tensors[0], [1, 0, 2])
        options.update(others)
        assert_close(
            second_order(fused(cell), tensors, **options),
            second_order(plain(cell), tensors, **options),
        )


@each_function
@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_second_order_of_activations(name, cell):
    tensors, options = tensors_of(cell)
    # Gates that are not bounded make large numbers of small ones.
    tensors = [0.3 * tensor for tensor in tensors]
    options.update(dict.fromkeys(cell.activations, name))
    assert_close(
        second_order(fused(cell), tensors, **options),
        second_order(plain(cell), tensors, **options),
    )


@each_cell
def test_numeric_gradients(cell):
    """Against differences, which share no formula with anything."""
    tensors, options = tensors_of(
        cell, shape=(2, 3, 1, 2), mask=True, dropout=True
    )

    def values(*tensors):
        results = fused(cell)(*tensors, **options)
        return tf.concat([tf.reshape(r, [-1]) for r in results], 0)

    def gradients(*tensors):
        results = first_order(fused(cell), list(tensors), **options)
        return tf.concat([tf.reshape(r, [-1]) for r in results], 0)

    for function in (values, tf.function(gradients)):
        theoretical, numerical = tf.test.compute_gradient(
            function, tensors, delta=2.0**-17
        )
        for theory, number in zip(theoretical, numerical):
            # Differences err by delta^2/6 of a third derivative below 50, and
            # by eps/delta.
            np.testing.assert_allclose(theory, number, rtol=0, atol=1e-8)


@pytest.mark.parametrize("order, name, compiled", [
    (third_order, "gru_after", True),
    (third_order, "lstm", True),
    (third_order, "simple_rnn", True),
    (jvp, "gru_after", True),
    (jvp, "gru_before", False),
    (jvp, "lstm", True),
    (jvp, "simple_rnn", False),
    (hessian_product, "gru_after", False),
    (hessian_product, "gru_before", True),
    (hessian_product, "lstm", False),
    (hessian_product, "simple_rnn", True),
])
def test_other_orders(order, name, compiled):
    cell = CELLS[name]
    tensors, options = tensors_of(cell, mask=True)
    ours = tf.function(order) if compiled else order
    assert_close(
        ours(fused(cell), tensors, **options),
        order(plain(cell), tensors, **options),
    )


@each_function
@pytest.mark.parametrize("training", [None, True, False])
def test_second_order_without_reserve(training, cell):
    tensors, options = tensors_of(cell, mask=True)

    def inference(*tensors, **options):
        return fused(cell)(
            *tensors, training=training, recompute=True, **options
        )

    assert_close(
        second_order(inference, tensors, **options),
        second_order(plain(cell), tensors, **options),
    )


@each_function
@pytest.mark.parametrize("compiled", [True, False])
def test_one_result_alone(compiled, cell):
    """A gradient that does not arrive, at first and at second order."""
    tensors, options = tensors_of(cell, mask=True)
    for wanted in ("outputs", *cell.states, "last"):

        def take(results):
            outputs, *states = results
            if wanted in cell.states:
                return [states[cell.states.index(wanted)]]
            return [outputs]

        def ours(*tensors, **options):
            return take(fused(cell)(
                *tensors, return_sequences=wanted != "last", **options
            ))

        def expected(*tensors, **options):
            outputs, *states = plain(cell)(*tensors, **options)
            if wanted == "last":
                outputs = outputs[:, -1]
            return take([outputs, *states])

        for order in (first_order, second_order):
            function = tf.function(order) if compiled else order
            assert_close(
                function(ours, tensors, **options),
                order(expected, tensors, **options),
            )


@each_function
def test_absent_arguments(cell):
    """First states and bias: their gradients have no place."""
    states = first_states(cell)
    zeros = tf.zeros([3, 3], tf.float64)

    def without(absent, function, stand_in):
        """The function of the arguments that are there."""
        present = [n for n in differentiable(cell) if n not in absent]

        def call(*tensors, **options):
            given = dict(zip(present, tensors))
            return function(
                *(
                    given.get(name, None if name == "bias" else stand_in)
                    for name in differentiable(cell)
                ),
                **options,
            )
        return call

    for absent in ((*states, "bias"), states[1:], states[:1]):
        tensors, options = tensors_of(cell, absent=absent)
        assert_close(
            second_order(
                without(absent, fused(cell), None), tensors, **options
            ),
            second_order(
                without(absent, plain(cell), zeros), tensors, **options
            ),
        )


@each_function
@pytest.mark.parametrize("steps", [0, 1])
def test_few_steps(steps, cell):
    tensors, options = tensors_of(cell, shape=(3, steps, 2, 3), mask=True)
    gradients = second_order(fused(cell), tensors, **options)
    for gradient, tensor in zip(gradients, tensors):
        assert gradient.shape == tensor.shape
        assert np.isfinite(gradient).all()


@each_function
def test_masked_steps_reach_no_second_derivative(cell):
    tensors, options = tensors_of(cell, mask=True)
    expected = second_order(fused(cell), tensors, **options)
    mask = options["mask"][:, :, tf.newaxis]
    x = tf.where(mask, tensors[0], tf.constant(np.nan, tf.float64))
    assert_close(
        second_order(fused(cell), [x, *tensors[1:]], **options), expected
    )


@each_function
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
def test_second_order_of_other_dtypes(dtype, cell):
    tensors, options = tensors_of(cell, mask=True)
    narrow = [tf.cast(tensor, dtype) for tensor in tensors]
    exact = [tf.cast(tensor, tf.float64) for tensor in narrow]
    expected = second_order(plain(cell), exact, **options)
    for gradient, value in zip(
        second_order(fused(cell), narrow, **options), expected
    ):
        assert gradient.dtype == dtype
        # The loss adds up to 36 to a value below 1, which rounds it to 32 units
        # at each order; some ten values, each rounded, multiply.
        tolerance = 128 * unit_roundoff(dtype.name)
        scale = float(tf.reduce_max(abs(value)))
        np.testing.assert_allclose(
            tf.cast(gradient, tf.float64), value, rtol=0,
            atol=tolerance * scale,
        )
