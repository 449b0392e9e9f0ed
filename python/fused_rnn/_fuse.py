"""Fused layers in an existing Keras model, and Keras' own layers back again.

A fused layer holds what Keras' own holds and differs by its class alone. So a
layer changes its class in place, and all that refers to it stays: variables
and the optimizer's slots for them, nodes of functional models, shared layers,
attributes of subclassed models.
"""

import contextlib
import contextvars
import functools
import inspect
import threading
import warnings
import weakref

import keras

from fused_rnn.layers import (
    GRU,
    LSTM,
    RNN,
    GRUBlockCell,
    GRUCell,
    LSTMCell,
    SimpleRNN,
    SimpleRNNCell,
)
from fused_rnn.layers._keras import require_tensorflow_backend
from fused_rnn.layers._kinds import KINDS, cells_of, one_of, why_not_fused

__all__ = ["fuse", "fused_scope", "unfuse"]

_STOCK = {
    fused: fused._keras_class for fused in (
        GRU, LSTM, SimpleRNN, RNN, GRUCell, LSTMCell, SimpleRNNCell
    )
}
_FUSED = {stock: fused for fused, stock in _STOCK.items()}
_CELLS = tuple(KINDS)
# Each with a cell of its own.
_LAYERS = tuple(c for c in _FUSED if c not in (*_CELLS, keras.layers.RNN))

# What `fit`, `evaluate` and `predict` have traced, with the layers of then.
_TRACED = ("train_function", "test_function", "predict_function")

# The models that were to be compiled by XLA before they were fused.
_without_xla = weakref.WeakSet()


def fuse(model, verbose=True):
    """Makes every GRU, LSTM and SimpleRNN of a Keras model fused, in place.

    Replaced are ``keras.layers.GRU``, ``LSTM`` and ``SimpleRNN``,
    ``keras.layers.RNN`` around their cells, one or several, and such a cell
    that stands alone or in another kind of RNN; wherever the model keeps them,
    ``Bidirectional``, ``TimeDistributed`` and other models included. Weights,
    names, optimizer, loss, metrics and states are untouched, and what Keras has
    traced for ``fit``, ``evaluate`` and ``predict`` is traced anew. A
    ``tf.function`` of one's own, or a model around this one, keeps what it
    traced before.

    What stays as it is, a subclass of ``GRU`` say, is in the table with the
    reason. XLA cannot compile the op: a model compiled with
    ``jit_compile=True`` is set to False, with a warning.

    Args:
      model: a Keras 3 model or layer, built or not, compiled or not.
      verbose: whether to print the table of layers, replaced or why not.

    Returns:
      The same model.

    Raises:
      TypeError: model is not a Keras 3 model or layer.
      RuntimeError: Keras does not run on TensorFlow.

    Example:
      model = fused_rnn.fuse(keras.models.load_model("model.keras"))
    """
    require_tensorflow_backend()
    _check_model("fuse", model)
    rows, changes = [], []
    for path, layer, parent in _walk(model):
        if not isinstance(layer, (keras.layers.RNN, *_CELLS)):
            continue
        if isinstance(layer, _CELLS) and _reads_weights(parent):
            continue
        reason = _why_not_replaced(layer)
        if reason is None and type(layer) in _FUSED:
            changes.append((layer, _FUSED[type(layer)]))
        rows.append((path, type(layer).__name__, reason or "fused"))
    _change_classes(model, changes)
    for layer in _models(model, changes):
        if getattr(layer, "_jit_compile", None):
            _without_xla.add(layer)
            layer.jit_compile = False
            warnings.warn(
                f"XLA cannot compile the fused ops: jit_compile of model"
                f" '{layer.name}' is now False",
                stacklevel=2,
            )
    if verbose:
        print(_table(rows))
    return model


def unfuse(model, verbose=True):
    """Makes every fused layer of a Keras model Keras' own again, in place.

    The inverse of ``fuse``, for an export to ONNX or TFLite, or for somebody
    without this package. Layers and cells that were built as those of
    ``fused_rnn`` are replaced too.
    ``fused_rnn.GRUBlockCell`` has no counterpart in Keras and stays.

    Args:
      model: a Keras 3 model or layer.
      verbose: whether to print the table of layers, replaced or why not.

    Returns:
      The same model.

    Raises:
      TypeError: model is not a Keras 3 model or layer.

    Example:
      fused_rnn.unfuse(model).export("model.onnx", format="onnx")
      fused_rnn.fuse(model)
    """
    _check_model("unfuse", model)
    rows, changes = [], []
    for path, layer, _ in _walk(model):
        if type(layer) in _STOCK:
            changes.append((layer, _STOCK[type(layer)]))
            state = "Keras' own"
        elif isinstance(layer, GRUBlockCell):
            state = "stays: Keras has no such cell"
        elif isinstance(layer, tuple(_STOCK)):
            state = f"stays: a subclass of {_base(layer, _STOCK)}"
        else:
            continue
        rows.append((path, type(layer).__name__, state))
    _change_classes(model, changes)
    for layer in _models(model, changes):
        if layer in _without_xla:
            _without_xla.remove(layer)
            layer.jit_compile = True
    if verbose:
        print(_table(rows))
    return model


_in_scope = contextvars.ContextVar("fused_rnn.fused_scope", default=False)
_scopes = 0
_scopes_lock = threading.Lock()


def _new_in_scope(cls, *args, **kwargs):
    """``keras.layers.RNN.__new__`` while a scope is open in some thread."""
    if _in_scope.get():
        if cls is keras.layers.RNN:
            cell = kwargs["cell"] if "cell" in kwargs else (*args, None)[0]
            if not any(why_not_fused(c) for c in cells_of(cell)):
                cls = RNN
        else:
            cls = _FUSED.get(cls, cls)
    return super(keras.layers.RNN, cls).__new__(cls, *args, **kwargs)


_keras_init = keras.layers.RNN.__init__


@functools.wraps(_keras_init)
def _init_in_scope(self, *args, **kwargs):
    """``keras.layers.RNN.__init__`` while a scope is open in some thread.

    Keras 2 wrote an argument into its files that Keras 3 does not take.
    """
    if _in_scope.get() and kwargs.pop("time_major", False):
        raise ValueError(
            f"Layer '{kwargs.get('name')}' has time_major=True, which Keras 3"
            " has no more: its sequences are [B, T, I]"
        )
    _keras_init(self, *args, **kwargs)


# Keras reads the names of the arguments without looking behind a wrapper.
_init_in_scope.__signature__ = inspect.signature(_keras_init)


@contextlib.contextmanager
def fused_scope():
    """Inside, ``keras.layers.GRU`` builds and loads the fused layer.

    So do ``LSTM`` and ``SimpleRNN``, and ``keras.layers.RNN`` around their
    cells, one or several. It holds for whatever makes a layer, however the
    class was imported: code of one's own, ``keras.models.load_model``,
    ``keras.models.clone_model``, ``from_config``. Other threads are left alone.
    A layer that cannot be fused warns when it is called and names its
    ``fallback_reason``.

    Files of Keras 2 (``.h5``) with recurrent layers load in the scope: Keras 3
    by itself refuses the ``time_major`` that stands in them.

    Raises:
      ValueError: a layer in a file has time_major=True.
      RuntimeError: Keras does not run on TensorFlow.

    Example:
      with fused_rnn.fused_scope():
          model = keras.models.load_model("old_model.h5")
    """
    global _scopes
    require_tensorflow_backend()
    with _scopes_lock:
        _scopes += 1
        keras.layers.RNN.__new__ = _new_in_scope
        keras.layers.RNN.__init__ = _init_in_scope
    token = _in_scope.set(True)
    try:
        yield
    finally:
        _in_scope.reset(token)
        with _scopes_lock:
            _scopes -= 1
            if not _scopes:
                del keras.layers.RNN.__new__
                keras.layers.RNN.__init__ = _keras_init


def _check_model(function, model):
    if isinstance(model, keras.layers.Layer):
        return
    kind = f"{type(model).__module__}.{type(model).__name__}"
    if kind.startswith("tf_keras."):
        hint = "; save it, and load the file with Keras 3"
    elif isinstance(model, type):
        hint = "; it takes what the class makes, not the class"
    elif callable(getattr(model, "_gather_saveables_for_checkpoint", None)):
        hint = (
            "; a SavedModel holds a graph and no layers: fuse the model that"
            " it was made of, and export that again"
        )
    else:
        hint = ""
    raise TypeError(
        f"fused_rnn.{function} takes a Keras 3 model or layer, and got a"
        f" {kind}{hint}"
    )


def _walk(root):
    """(path, layer, parent) of a layer and all below it, each layer once."""
    seen = {id(root)}
    stack = [(root.name, root, None)]
    while stack:
        path, layer, parent = stack.pop()
        yield path, layer, parent
        # A stack of cells is no layer of its own here: what runs it owns them.
        if type(layer) is not keras.layers.StackedRNNCells:
            parent = layer
        children = layer._flatten_layers(include_self=False, recursive=False)
        for child in reversed(children):
            if id(child) not in seen:
                seen.add(id(child))
                prefix = "" if layer is root else f"{path}/"
                stack.append((f"{prefix}{child.name}", child, parent))


def _reads_weights(layer):
    """Whether a layer takes the weights of its cell and leaves the cell be."""
    return isinstance(layer, _LAYERS) or (
        type(layer) in (keras.layers.RNN, RNN)
        and _why_not_replaced(layer) is None
    )


def _why_not_replaced(layer):
    """Why a recurrent layer stays as it is; None if it is or can be fused."""
    fused = _FUSED.get(type(layer), type(layer))
    if fused in _STOCK:
        return fused.why_not(layer)
    if isinstance(layer, (*_LAYERS, *_CELLS)) or any(
        isinstance(cell, _CELLS) for cell in cells_of(layer.cell)
    ):
        return f"a subclass of {_base(layer, _FUSED)}"
    return f"not a {one_of(_LAYERS)}"


def _base(layer, classes):
    return next(c.__name__ for c in classes if isinstance(layer, c))


def _models(root, changes):
    """The models at and below a layer, if any of its layers changed."""
    if not changes:
        return []
    return [x for _, x, _ in _walk(root) if isinstance(x, keras.Model)]


def _change_classes(root, changes):
    for layer, new_class in changes:
        # Keras' own __setattr__ would look for variables in the class.
        object.__setattr__(layer, "__class__", new_class)
    for model in _models(root, changes):
        for name in _TRACED:
            if getattr(model, name, None) is not None:
                setattr(model, name, None)


def _table(rows):
    if not rows:
        return (
            "No recurrent layer found. A model that makes its layers when it is"
            " first called has them only then."
        )
    rows = [("layer", "class", ""), *rows]
    first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
    return "\n".join(
        f"{path:{first}}  {kind:{second}}  {state}".rstrip()
        for path, kind, state in rows
    )
