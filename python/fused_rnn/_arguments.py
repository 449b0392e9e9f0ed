"""What the functional API and the gradients do with arguments."""

from __future__ import annotations

import tensorflow as tf

DTYPES = (tf.float32, tf.float64, tf.float16, tf.bfloat16)


def tensors_of(**arguments) -> list[tf.Tensor]:
    """Converts arguments to tensors of one dtype, the first argument's.

    None stays None.
    """
    tensors = []
    for name, value in arguments.items():
        if value is None:
            tensors.append(None)
            continue
        dtype = tensors[0].dtype if tensors else None
        # Numbers and lists take that dtype; arrays have one already, and a
        # hint would round them to it without a word.
        hint = None if hasattr(value, "dtype") else dtype
        try:
            tensor = tf.convert_to_tensor(value, dtype_hint=hint)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{name} must be a tensor or convertible to one, got"
                f" {type(value).__name__}: {error}"
            ) from error
        if not tensors and tensor.dtype not in DTYPES:
            raise TypeError(
                f"{name} must have dtype"
                f" {', '.join(dtype.name for dtype in DTYPES)}, got"
                f" {tensor.dtype.name}"
            )
        if tensors and tensor.dtype != dtype:
            first = next(iter(arguments))
            raise TypeError(
                f"{name} must have the dtype of {first}, {dtype.name}, got"
                f" {tensor.dtype.name}"
            )
        tensors.append(tensor)
    return tensors


def present(tensor) -> list:
    """An optional input as the ops take it: a list of one tensor, or none."""
    return [] if tensor is None else [tensor]
