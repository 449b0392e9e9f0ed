"""Keras' own layer of a case, on whatever Keras computes."""

_NAMES = {"gru": "GRU", "lstm": "LSTM", "rnn": "SimpleRNN"}


def build(keras, case, **options):
    """(outputs, last states) of layer(x, initial_state=...)."""
    if case.cell == "gru":
        options["reset_after"] = case.reset_after
    layer = getattr(keras.layers, _NAMES[case.cell])(
        case.units, return_sequences=True, return_state=True, dtype=case.dtype,
        **options,
    )
    layer.build((case.batch, case.steps, case.inputs))
    layer.set_weights(case.weights())
    return layer


def split(case, arguments):
    """[x, states, weights]"""
    x, *others = arguments
    return x, others[:len(case.states)], others[len(case.states):]
