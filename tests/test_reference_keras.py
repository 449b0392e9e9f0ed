"""The oracle equals Keras' own loops in float64, forward and backward."""

import numpy as np
import pytest
from helpers_reference import CASES, MASKS, draw

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def check_layer(case, values, mask=None, training=False, **options):
    """Compares a Keras layer and its gradients with the oracle."""
    rng = np.random.default_rng(1)
    batch, steps, size = values["x"].shape
    units = values["h0"].shape[1]
    loop = {} if case.keras == "SimpleRNN" else {"use_cudnn": False}
    layer = getattr(keras.layers, case.keras)(
        units, return_sequences=True, return_state=True, dtype="float64",
        **loop, **case.options, **options,
    )
    layer.build((batch, steps, size))
    names = ("kernel", "recurrent_kernel", "bias")
    layer.set_weights([values[name] for name in names])
    masks = []
    create = layer.cell._create_dropout_mask

    def record(step_input, rate):
        masks.append(create(step_input, rate))
        return masks[-1]

    layer.cell._create_dropout_mask = record
    x = tf.Variable(values["x"])
    first = [tf.Variable(values[state + "0"]) for state in case.states]
    d_outputs = draw(rng, batch, steps, units)
    d_states = [draw(rng, batch, units) for _ in case.states]
    with tf.GradientTape() as tape:
        outputs, *states = layer(
            x, initial_state=first, mask=mask, training=training
        )
        loss = tf.reduce_sum(outputs * d_outputs)
        for state, d_state in zip(states, d_states):
            loss += tf.reduce_sum(state * d_state)
    variables = [x, *first, *[v.value for v in layer.trainable_variables]]
    expected = tape.gradient(loss, variables)

    options = {**case.options, **options, "mask": mask}
    if options.pop("recurrent_dropout", 0):
        (drawn,) = masks
        options["recurrent_dropout_mask"] = np.stack(
            drawn if isinstance(drawn, list) else [drawn]
        )
    ours = case.sequence(**values, **options)
    for left, right in zip(ours, (outputs, *states)):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-13)
    gradients = case.sequence_grad(
        **values, **options, d_outputs=d_outputs,
        **dict(zip(case.d_states, d_states)),
    )
    for name, gradient in zip(values, expected):
        np.testing.assert_allclose(
            gradients[name], gradient, rtol=0, atol=1e-12, err_msg=name
        )


@every_case
@pytest.mark.parametrize("mask", sorted(MASKS))
@pytest.mark.parametrize("go_backwards", [False, True])
@pytest.mark.parametrize(
    "activation, recurrent_activation",
    [("tanh", "sigmoid"), ("relu", "hard_sigmoid"), ("softsign", "elu"),
     ("linear", "tanh")],
)
def test_equals_keras(
    case, mask, go_backwards, activation, recurrent_activation
):
    check_layer(
        case, case.sequence_inputs(np.random.default_rng(10), units=5),
        mask=None if MASKS[mask] is None else np.array(MASKS[mask], bool),
        go_backwards=go_backwards,
        **case.activation_options(activation, recurrent_activation),
    )


@every_case
def test_equals_keras_with_zeros_where_masked(case):
    check_layer(
        case, case.sequence_inputs(np.random.default_rng(11)),
        mask=np.array(MASKS["holes"], bool), zero_output_for_mask=True,
    )


@every_case
def test_equals_keras_with_recurrent_dropout(case):
    check_layer(
        case, case.sequence_inputs(np.random.default_rng(12)), training=True,
        recurrent_dropout=0.5,
    )
