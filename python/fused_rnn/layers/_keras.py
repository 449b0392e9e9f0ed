"""What the layers do about Keras whatever they compute: errors, warnings."""

import contextlib
import os
import sys

import keras
import tensorflow as tf

# Whose frames stand between a user's line and ours.
_INSIDE = ("fused_rnn", "keras", "tensorflow")


def require_tensorflow_backend():
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "The layers of fused_rnn need Keras on TensorFlow, but Keras runs"
            f" on {keras.backend.backend()}. Set KERAS_BACKEND=tensorflow"
            " before keras is imported."
        )


@contextlib.contextmanager
def errors_name(layer):
    """Puts the layer's name before the message of an error of the op."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"Layer '{layer.name}': {error}") from error
    except tf.errors.InvalidArgumentError as error:
        raise tf.errors.InvalidArgumentError(
            error.node_def, error.op, f"Layer '{layer.name}': {error.message}"
        ) from error


def _is_inside(frame):
    # What AutoGraph makes of a user's function is in a file that goes away.
    file = os.path.basename(frame.f_code.co_filename)
    package = frame.f_globals.get("__name__", "").split(".")[0]
    return package in _INSIDE or file.startswith("__autograph_generated_file")


def users_stacklevel():
    """The stacklevel by which a warning of the caller points at a user's line.

    That is the innermost line that belongs neither to this package nor to
    Keras or TensorFlow.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_inside(frame):
        frame, level = frame.f_back, level + 1
    return level
