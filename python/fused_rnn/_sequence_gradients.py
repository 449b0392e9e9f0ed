"""Registered gradients of the sequence ops."""

from __future__ import annotations

import functools
from typing import NamedTuple

import tensorflow as tf

from fused_rnn import _expressions, _library
from fused_rnn._arguments import present
from fused_rnn._gradients import dense, skipped, surely_zero

_ops = _library.load()

_LAYOUT = ("go_backwards", "time_major")
_WEIGHTS = ("kernel", "recurrent_kernel", "bias")


class _Cell(NamedTuple):
    """What its four ops have, in order; optional inputs end in ``?``."""

    name: str  # of the op
    function: str  # the same as Python writes it
    states: tuple[str, ...]  # the last ones, which outputs follow
    first: tuple[str, ...]
    kept: tuple[str, ...]  # beside the outputs, for the gradient
    options: tuple[str, ...] = ()  # of formulas
    activations: tuple[str, ...] = ("activation", "recurrent_activation")

    def op(self, suffix=""):
        return getattr(_ops, f"fused_rnn_{self.function}{suffix}")

    @property
    def forward_inputs(self):
        return (
            "x", *self.first, "kernel", "recurrent_kernel", "bias?", "mask?",
            "recurrent_dropout_mask?",
        )

    @property
    def forward_outputs(self):
        return ("outputs", *self.states, *self.kept)

    @property
    def grad_inputs(self):
        return (
            *self.forward_inputs, "outputs", *self.kept, "d_outputs?",
            *(f"d_{state}?" for state in self.states),
        )

    @property
    def forward_options(self):
        return (
            *self.options, *_LAYOUT, "zero_output_for_mask", *self.activations
        )

    def keeps(self, op) -> bool:
        """Whether a forward op has kept what the gradient needs."""
        if self.kept:
            return op.get_attr("keep_reserve")
        return op.get_attr("return_sequences")


_CELLS = (
    _Cell(
        "GRU", "gru", ("state",), ("h0?",), ("reserve",), ("reset_after",)
    ),
    _Cell(
        "LSTM", "lstm", ("state", "cell_state"), ("h0?", "c0?"),
        ("cell_states", "reserve"),
    ),
    _Cell(
        "SimpleRNN", "simple_rnn", ("state",), ("h0?",), (),
        activations=("activation",),
    ),
)
_INPUT_GRAD_INPUTS = ("kernel", "mask?", "d_gates")
_WEIGHT_GRAD_INPUTS = (
    "x", "h0?", "mask?", "recurrent_dropout_mask?", "outputs", "d_gates"
)


def _inputs(op, names) -> dict:
    """The inputs of an op by name, None where one is absent."""
    tensors = iter(op.inputs)
    inputs = {}
    for name in names:
        key = name.rstrip("?")
        absent = name != key and op.get_attr(f"num_{key}") == 0
        inputs[key] = None if absent else next(tensors)
    return inputs


def _in_order(inputs, gradients) -> list:
    """Gradients by name -> one for each input that is there."""
    return [
        gradients.get(name) for name, tensor in inputs.items()
        if tensor is not None
    ]


def _options(op, names) -> dict:
    return {name: op.get_attr(name) for name in names}


def _as_lists(inputs, names) -> dict:
    """Inputs as the ops take them."""
    return {
        name.rstrip("?"): present(inputs[name.rstrip("?")])
        if name.endswith("?") else inputs[name]
        for name in names
    }


def _forward_grad(cell, op, *incoming):
    incoming = dict(zip(cell.forward_outputs, dense(*incoming)))
    incoming = {name: incoming[name] for name in ("outputs", *cell.states)}
    inputs = _inputs(op, cell.forward_inputs)
    options = _options(op, cell.forward_options)
    arguments = _as_lists(inputs, cell.forward_inputs)
    results = dict(zip(cell.forward_outputs, op.outputs))
    if not cell.keeps(op):
        if not op.get_attr("return_sequences"):
            incoming["outputs"] = None
        # Not before the gradient is there, or nothing would be saved.
        with tf.control_dependencies(
            [d for d in incoming.values() if d is not None]
        ):
            again = dict(keep_reserve=True) if cell.kept else {}
            results = dict(zip(cell.forward_outputs, cell.op()(
                **arguments, **options, return_sequences=True, **again
            )))
    *d_first, d_gates = cell.op("_grad")(
        **arguments, **options,
        **{
            f"d_{name}": [] if d is None or surely_zero(d) else [d]
            for name, d in incoming.items()
        },
        **{name: results[name] for name in ("outputs", *cell.kept)},
    )

    positions = [name for name, tensor in inputs.items() if tensor is not None]
    unwanted = {positions[index] for index in skipped(op)}
    gradients = dict(zip([name.rstrip("?") for name in cell.first], d_first))
    layout = {name: options[name] for name in _LAYOUT}
    inputs_of_these = dict(
        inputs, outputs=results["outputs"], d_gates=d_gates
    )
    if "x" not in unwanted:
        gradients["x"] = cell.op("_input_grad")(
            **_as_lists(inputs_of_these, _INPUT_GRAD_INPUTS), **layout
        )
    if not unwanted.issuperset(set(_WEIGHTS) & set(positions)):
        # Each uses all threads: side by side they would only take the cache
        # from each other.
        with tf.control_dependencies(present(gradients.get("x"))):
            d_kernel, d_recurrent_kernel, d_bias = cell.op("_weight_grad")(
                **_as_lists(inputs_of_these, _WEIGHT_GRAD_INPUTS), **layout,
                **{name: options[name] for name in cell.options},
                num_bias=len(arguments["bias"]),
            )
        gradients.update(zip(_WEIGHTS, (d_kernel, d_recurrent_kernel, *d_bias)))
    return _in_order(inputs, gradients)


def _second_order(cell, op, names, expression, attributes, arguments, upstream):
    """Gradients of a gradient op, by way of its expression in TensorFlow's ops.

    `arguments` names the expression's arguments. A mask and a recurrent dropout
    mask get no gradient, and what was kept is nothing but a cache of what
    follows from the others.
    """
    inputs = _inputs(op, names)
    values = {name.rstrip("?"): inputs[name.rstrip("?")] for name in arguments}
    options = {
        name: tf.compat.as_str(value) if isinstance(value, bytes) else value
        for name, value in _options(op, attributes).items()
    }
    gradients = _expressions.gradient(
        expression, _expressions.Options(cell=cell.name, **options),
        inputs["mask"], values, dense(*upstream),
    )
    gradients.pop("recurrent_dropout_mask", None)
    return _in_order(inputs, gradients)


def _grad_grad(cell, op, *upstream):
    arguments = [
        name for name in cell.grad_inputs if name not in ("mask?", *cell.kept)
    ]
    return _second_order(
        cell, op, cell.grad_inputs, "grad", cell.forward_options, arguments,
        upstream,
    )


def _input_grad_grad(cell, op, *upstream):
    return _second_order(
        cell, op, _INPUT_GRAD_INPUTS, "input_grad", _LAYOUT,
        ("kernel", "d_gates"), upstream,
    )


def _weight_grad_grad(cell, op, *upstream):
    return _second_order(
        cell, op, _WEIGHT_GRAD_INPUTS, "weight_grad",
        (*cell.options, *_LAYOUT),
        ("x", "h0", "recurrent_dropout_mask", "outputs", "d_gates"), upstream,
    )


def _register(cell):
    for suffix, function in (
        ("", _forward_grad), ("Grad", _grad_grad),
        ("InputGrad", _input_grad_grad), ("WeightGrad", _weight_grad_grad),
    ):
        tf.RegisterGradient(f"FusedRNN>{cell.name}{suffix}")(
            functools.partial(function, cell)
        )


for _cell in _CELLS:
    _register(_cell)
