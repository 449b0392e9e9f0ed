"""Registered gradients: what TensorFlow calls to differentiate the ops."""

from __future__ import annotations

import tensorflow as tf

from fused_rnn import _expressions, _library

try:
    from tensorflow.python.eager.record import should_record_backprop
except ImportError:  # Not public: without it every tensor may be watched.

    def should_record_backprop(tensors):
        return True


_ops = _library.load()


def _surely_zero(tensor) -> bool:
    """Whether a graph says that this incoming gradient is zero.

    TensorFlow fills in zeros for an output that nobody differentiates. In a
    graph they can be recognised, and then need not exist. Zeros that a tape
    watches, for double backpropagation, are a variable's value like another.
    """
    if hasattr(tensor, "numpy"):  # Eager: a value like another.
        return False
    kind = tensor.op.type
    if kind == "Fill":
        zero = tf.get_static_value(tensor.op.inputs[1]) == 0
    elif kind == "Const":
        zero = not tf.get_static_value(tensor).any()
    else:
        zero = kind == "ZerosLike"
    return bool(zero) and not watched([tensor])


def watched(tensors) -> bool:
    """Whether a tape may differentiate with respect to these tensors."""
    return should_record_backprop(tensors)


def _dense(*gradients) -> list:
    """Incoming gradients as tensors; of tf.gather's result they are slices."""
    return [
        tf.convert_to_tensor(gradient)
        if isinstance(gradient, tf.IndexedSlices) else gradient
        for gradient in gradients
    ]


def _skipped(op) -> frozenset:
    """Inputs whose gradient an eager tape will throw away."""
    return frozenset(getattr(op, "skip_input_indices", None) or ())


def _block_cell_grad(op, d_r, d_u, d_c, d_h):
    x, h_prev, w_ru, w_c, b_ru, b_c = op.inputs
    r, u, c, _ = op.outputs
    *d_gates, d_h = _dense(d_r, d_u, d_c, d_h)
    if all(_surely_zero(d) for d in d_gates):
        d_gates = []
    d_x, d_h_prev, d_c_bar, d_r_bar_u_bar = (
        _ops.fused_rnn_gru_block_cell_grad(
            x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h, d_gates
        )
    )
    weights = [None] * 4
    if not _skipped(op).issuperset(range(2, 6)):
        weights = _ops.fused_rnn_gru_block_cell_weight_grad(
            x, h_prev, r, d_c_bar, d_r_bar_u_bar
        )
    return d_x, d_h_prev, *weights


def _block_cell_grad_grad(op, e_x, e_h_prev, e_c_bar, e_r_bar_u_bar):
    """Differentiates, line by line, what GRUBlockCellGrad computes.

    Write p for d_c̄·w_cᵀ and q for [d_r̄ d_ū]·w_ruᵀ, both [B, I+H] with the
    columns of x before those of the state:

        d_c̄ = k ∘ (1−c∘c)            k = d_c + d_h∘(1−u)
        d_r̄ = v ∘ r∘(1−r)            v = d_r + p_h∘h_prev
        d_ū = w ∘ u∘(1−u)            w = d_u + d_h∘(h_prev−c)
        d_x = p_x + q_x               d_h_prev = q_h + p_h∘r + d_h∘u

    e_v is the gradient that arrives at v, and so on; g_r what this function
    returns for r. r, u and c are inputs here, what they mean for x and the
    weights is the forward op's gradient. Everything below is TensorFlow's own
    ops, so that higher orders follow.
    """
    e_x, e_h_prev, e_c_bar, e_r_bar_u_bar = _dense(
        e_x, e_h_prev, e_c_bar, e_r_bar_u_bar
    )
    x, h_prev, w_ru, w_c, _, _, r, u, c, d_h, *d_gates = op.inputs
    d_r, d_u, d_c = d_gates or (0.0, 0.0, 0.0)
    _, _, d_c_bar, d_r_bar_u_bar = op.outputs
    k = d_c + d_h * (1.0 - u)
    p_h = tf.matmul(d_c_bar, w_c[tf.shape(x)[1] :], transpose_b=True)
    v = d_r + p_h * h_prev
    w = d_u + d_h * (h_prev - c)

    e_q = tf.concat([e_x, e_h_prev], axis=1)
    e_r_bar, e_u_bar = tf.split(e_r_bar_u_bar + tf.matmul(e_q, w_ru), 2, axis=1)
    e_v = e_r_bar * r * (1.0 - r)
    e_w = e_u_bar * u * (1.0 - u)
    e_p = tf.concat([e_x, e_v * h_prev + e_h_prev * r], axis=1)
    e_c_bar = e_c_bar + tf.matmul(e_p, w_c)
    e_k = e_c_bar * (1.0 - c * c)

    g_h_prev = e_v * p_h + e_w * d_h
    g_w_ru = tf.matmul(e_q, d_r_bar_u_bar, transpose_a=True)
    g_w_c = tf.matmul(e_p, d_c_bar, transpose_a=True)
    g_r = e_r_bar * v * (1.0 - 2.0 * r) + e_h_prev * p_h
    g_u = e_u_bar * w * (1.0 - 2.0 * u) + (e_h_prev - e_k) * d_h
    g_c = -2.0 * e_c_bar * k * c - e_w * d_h
    g_d_h = e_w * (h_prev - c) + e_h_prev * u + e_k * (1.0 - u)
    g_d_gates = [e_v, e_w, e_k] if d_gates else []
    # x, b_ru and b_c enter the forward op alone.
    return [
        None, g_h_prev, g_w_ru, g_w_c, None, None, g_r, g_u, g_c, g_d_h,
        *g_d_gates,
    ]


@tf.RegisterGradient("FusedRNN>GRUBlockCellWeightGrad")
def _block_cell_weight_grad_grad(op, e_w_ru, e_w_c, e_b_ru, e_b_c):
    """With D and E for the gate gradients, [x h]ᵀ·D and [x r∘h]ᵀ·E are linear
    in each factor; the biases' sums hand what arrives to every row."""
    e_w_ru, e_w_c, e_b_ru, e_b_c = _dense(e_w_ru, e_w_c, e_b_ru, e_b_c)
    x, h_prev, r, d_c_bar, d_r_bar_u_bar = op.inputs
    sizes = [tf.shape(x)[1], tf.shape(h_prev)[1]]
    p_x, p_h = tf.split(
        tf.matmul(d_r_bar_u_bar, e_w_ru, transpose_b=True), sizes, axis=1
    )
    q_x, q_h = tf.split(
        tf.matmul(d_c_bar, e_w_c, transpose_b=True), sizes, axis=1
    )
    g_r_bar_u_bar = tf.matmul(tf.concat([x, h_prev], axis=1), e_w_ru) + e_b_ru
    g_c_bar = tf.matmul(tf.concat([x, h_prev * r], axis=1), e_w_c) + e_b_c
    return p_x + q_x, p_h + q_h * r, q_h * h_prev, g_c_bar, g_r_bar_u_bar


# The library's ops, and TensorFlow's own of the same name, which the library's
# kernels take over.
for _name in ("GRUBlockCell", "FusedRNN>GRUBlockCell"):
    tf.RegisterGradient(_name)(_block_cell_grad)
    tf.RegisterGradient(_name + "Grad")(_block_cell_grad_grad)


# Inputs of the sequence ops in order; a question mark where one may be absent.
_GRU = (
    "x", "h0?", "kernel", "recurrent_kernel", "bias?", "mask?",
    "recurrent_dropout_mask?",
)
_GRU_GRAD = (*_GRU, "outputs", "reserve", "d_outputs?", "d_state?")
_GRU_INPUT_GRAD = ("kernel", "mask?", "d_gates")
_GRU_WEIGHT_GRAD = (
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


def _present(tensor) -> list:
    return [] if tensor is None else [tensor]


def _options(op, *names) -> dict:
    return {name: op.get_attr(name) for name in names}


_LAYOUT = ("go_backwards", "time_major")
_ACTIVATIONS = ("zero_output_for_mask", "activation", "recurrent_activation")


@tf.RegisterGradient("FusedRNN>GRU")
def _gru_grad(op, d_outputs, d_state, _):
    d_outputs, d_state = _dense(d_outputs, d_state)
    inputs = _inputs(op, _GRU)
    layout = _options(op, *_LAYOUT)
    options = {**layout, **_options(op, "reset_after", *_ACTIVATIONS)}
    optional = {
        name: _present(inputs[name])
        for name in ("h0", "bias", "mask", "recurrent_dropout_mask")
    }
    required = {
        name: inputs[name] for name in ("x", "kernel", "recurrent_kernel")
    }
    outputs, _, reserve = op.outputs
    if not op.get_attr("keep_reserve"):
        if not op.get_attr("return_sequences"):
            d_outputs = None
        # Not before the gradient is there, or nothing would be saved.
        waited_for = [d for d in (d_outputs, d_state) if d is not None]
        with tf.control_dependencies(waited_for):
            outputs, _, reserve = _ops.fused_rnn_gru(
                **required, **optional, **options, return_sequences=True,
                keep_reserve=True,
            )
    incoming = {
        name: [] if d is None or _surely_zero(d) else [d]
        for name, d in (("d_outputs", d_outputs), ("d_state", d_state))
    }
    d_h0, d_gates = _ops.fused_rnn_gru_grad(
        **required, **optional, **options, **incoming, outputs=outputs,
        reserve=reserve,
    )

    positions = [name for name, tensor in inputs.items() if tensor is not None]
    skipped = {positions[index] for index in _skipped(op)}
    gradients = {"h0": d_h0}
    if "x" not in skipped:
        gradients["x"] = _ops.fused_rnn_gru_input_grad(
            kernel=inputs["kernel"], mask=optional["mask"], d_gates=d_gates,
            **layout,
        )
    weights = ("kernel", "recurrent_kernel", "bias")
    if not skipped.issuperset(set(weights) & set(positions)):
        # Each uses all threads: side by side they would only take the cache
        # from each other.
        with tf.control_dependencies([gradients["x"]] if "x" in gradients
                                     else []):
            d_kernel, d_recurrent_kernel, d_bias = (
                _ops.fused_rnn_gru_weight_grad(
                    x=inputs["x"], h0=optional["h0"], mask=optional["mask"],
                    recurrent_dropout_mask=optional["recurrent_dropout_mask"],
                    outputs=outputs, d_gates=d_gates,
                    num_bias=len(optional["bias"]),
                    reset_after=options["reset_after"], **layout,
                )
            )
        gradients.update(zip(weights, (d_kernel, d_recurrent_kernel, *d_bias)))
    return _in_order(inputs, gradients)


def _second_order(op, names, expression, attributes, arguments, upstream):
    """Gradients of a gradient op, by way of its expression in TensorFlow's ops.

    `arguments` names the expression's arguments. A mask and a recurrent dropout
    mask get no gradient, and the reserve is nothing but a cache of what follows
    from the others.
    """
    inputs = _inputs(op, names)
    values = dict(inputs)
    if "d_state" in arguments:
        # The recursion starts from d_state; an absent gradient is zero.
        if values["d_state"] is None:
            values["d_state"] = tf.zeros_like(op.outputs[0])
        if values["d_outputs"] is None:
            values["d_outputs"] = tf.zeros_like(values["outputs"])
    options = _options(op, *attributes)
    for name in ("activation", "recurrent_activation"):
        if name in options:
            options[name] = tf.compat.as_str(options[name])
    gradients = _expressions.gradient(
        expression, _expressions.Options(**options), values["mask"],
        [values[name] for name in arguments], _dense(*upstream),
    )
    gradients = dict(zip(arguments, gradients))
    gradients.pop("recurrent_dropout_mask", None)
    return _in_order(inputs, gradients)


@tf.RegisterGradient("FusedRNN>GRUGrad")
def _gru_grad_grad(op, e_h0, e_gates):
    return _second_order(
        op, _GRU_GRAD, "gru_grad",
        ("reset_after", *_LAYOUT, *_ACTIVATIONS),
        ("x", "h0", "kernel", "recurrent_kernel", "bias",
         "recurrent_dropout_mask", "outputs", "d_outputs", "d_state"),
        [e_h0, e_gates],
    )


@tf.RegisterGradient("FusedRNN>GRUInputGrad")
def _gru_input_grad_grad(op, e_x):
    return _second_order(
        op, _GRU_INPUT_GRAD, "gru_input_grad", _LAYOUT, ("kernel", "d_gates"),
        [e_x],
    )


@tf.RegisterGradient("FusedRNN>GRUWeightGrad")
def _gru_weight_grad_grad(op, *e_weights):
    return _second_order(
        op, _GRU_WEIGHT_GRAD, "gru_weight_grad", ("reset_after", *_LAYOUT),
        ("x", "h0", "recurrent_dropout_mask", "outputs", "d_gates"),
        list(e_weights),
    )
