"""What the layers take as inputs, masks and states, and what they refuse."""

import concurrent.futures

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
from helpers_keras import (  # noqa: E402
    BATCH,
    HOLES,
    INPUTS,
    LAYERS,
    STEPS,
    UNITS,
    assert_same,
    data,
    states_of,
)


def pair(name, **options):
    """Ours and Keras' layer with the same weights."""
    layers = [
        getattr(module, name)(UNITS, name="my_layer", **options)
        for module in (fused_rnn, keras.layers)
    ]
    for layer in layers:
        layer.build((BATCH, None, INPUTS))
        for i, weight in enumerate(layer.trainable_weights):
            weight.assign(
                np.random.default_rng(i).uniform(-0.6, 0.6, weight.shape)
            )
    return layers


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("options", [
    dict(), dict(return_sequences=True), dict(dropout=0.3),
    dict(recurrent_dropout=0.3, unroll=True),
], ids=str)
def test_no_steps_and_no_rows(name, options):
    layer = getattr(fused_rnn, name)(UNITS, return_state=True, **options)
    layer(data())
    given = states_of(name)
    outputs, *states = layer(
        data()[:, :0], initial_state=given, training=True
    )
    for state, expected in zip(states, given, strict=True):
        np.testing.assert_array_equal(state, expected)
    if layer.return_sequences:
        assert outputs.shape == (BATCH, 0, UNITS)
    else:
        np.testing.assert_array_equal(outputs, given[0])
    outputs, *states = layer(data()[:0], training=True)
    assert outputs.shape[0] == 0
    assert [state.shape for state in states] == [(0, UNITS)] * len(given)
    assert layer.unroll == bool(options.get("unroll"))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("options", [
    dict(unroll=True), dict(dropout=0.3),
    dict(dropout=0.3, recurrent_dropout=0.3),
], ids=str)
def test_no_steps_in_a_graph(name, options):
    """A number of steps, and of rows, that only the run knows."""
    layer = getattr(fused_rnn, name)(UNITS, **options)
    layer(data())

    @tf.function(input_signature=[tf.TensorSpec([None, None, INPUTS])])
    def run(x):
        return layer(x, training=True), layer(x)

    for outputs in run(data()[:, :0]):
        np.testing.assert_array_equal(outputs, np.zeros((BATCH, UNITS)))
    assert [o.shape for o in run(data()[:0])] == [(0, UNITS)] * 2
    assert_same(run(data())[1], layer(data()))
    assert layer.unroll == bool(options.get("unroll"))


@pytest.mark.parametrize("name", LAYERS)
def test_a_call_without_steps_leaves_the_others_alone(name):
    """Calls from many threads, every other one without steps."""
    layer = getattr(fused_rnn, name)(UNITS)
    calls = [(data(), layer(data())), (data()[:, :0], np.zeros((BATCH, UNITS)))]

    def same(i):
        x, expected = calls[i % 2]
        return np.array_equal(layer(x), expected)

    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        assert all(executor.map(same, range(200)))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("training", [False, True])
def test_dropout_is_drawn_as_often_as_by_keras(name, training):
    """After some calls, in inference too, the next masks are still Keras'."""
    results = []
    for layer in pair(name, dropout=0.4, recurrent_dropout=0.3, seed=5):
        layer(data())
        layer(data(), training=training)
        results.append(layer(data(), training=True))
    assert_same(*results)


@pytest.mark.parametrize("name", LAYERS)
def test_masks_as_keras_takes_them(name):
    """Numbers, and a last axis of one."""
    layer = getattr(fused_rnn, name)(UNITS, return_sequences=True)
    expected = layer(data(), mask=HOLES)
    for mask in (HOLES[..., None], HOLES.astype("float32"), [HOLES]):
        np.testing.assert_array_equal(layer(data(), mask=mask), expected)


INTEGERS = np.arange(BATCH * STEPS * INPUTS).reshape(data().shape) % 3
# Options of a layer and arguments of a call.
TAKEN = {
    "integers": (dict(), lambda _: dict(sequences=INTEGERS)),
    "bytes": (
        dict(dtype="mixed_float16"),
        lambda _: dict(sequences=INTEGERS.astype("uint8")),
    ),
    "without_autocast": (
        dict(autocast=False),
        lambda _: dict(sequences=data().astype("float64")),
    ),
    "mask_of_one_row": (
        dict(return_sequences=True), lambda _: dict(mask=HOLES[1:2]),
    ),
    "list": (dict(), lambda states: dict(initial_state=states)),
    "tuple": (dict(), lambda states: dict(initial_state=tuple(states))),
    "state_of_another_dtype": (
        dict(),
        lambda states: dict(
            initial_state=[state.astype("float64") for state in states]
        ),
    ),
    "state_of_one_row": (
        dict(),
        lambda states: dict(initial_state=[state[:1] for state in states]),
    ),
    "last_state_of_one_row": (
        dict(),
        lambda states: dict(initial_state=[*states[:-1], states[-1][:1]]),
    ),
    # Only Keras' GRU takes more states than it has.
    "more_states": (
        dict(), lambda states: dict(initial_state=[states[0], 2 * states[0]]),
    ),
}


@pytest.mark.parametrize("name, what", [
    (name, what) for name in LAYERS for what in sorted(TAKEN)
    if name == "GRU" or what != "more_states"
])
@pytest.mark.parametrize("function", [False, True])
def test_what_keras_takes(name, what, function):
    options, arguments = TAKEN[what]
    arguments = dict(sequences=data()) | arguments(states_of(name))
    fused, stock = pair(name, **options)
    call = lambda: fused(**arguments)  # noqa: E731
    ours = (tf.function(call) if function else call)()
    theirs = stock(**arguments)
    assert ours.dtype == theirs.dtype
    assert_same(ours, theirs, options.get("dtype", "float32"))


def with_state(change):
    """A call with another last state, of an LSTM c."""
    return lambda layer, states: layer(
        data(), initial_state=[*states[:-1], change(states[-1])]
    )


ERRORS = {
    "rank": lambda layer, _: layer(data()[0]),
    "features": lambda layer, _: layer(data()[:, :, :2], training=True),
    "ragged": lambda layer, _: layer(tf.RaggedTensor.from_tensor(data())),
    "mask_longer": lambda layer, _: layer(
        data(), mask=np.ones((BATCH, STEPS + 1), bool)
    ),
    "mask_shorter": lambda layer, _: layer(data(), mask=HOLES[:, 1:]),
    "mask_rows": lambda layer, _: layer(data(), mask=HOLES[1:3]),
    "mask_rank": lambda layer, _: layer(data(), mask=HOLES[0]),
    "state_units": with_state(lambda _: data(1, (BATCH, UNITS + 1))),
    "state_rows": with_state(lambda _: data(1, (BATCH + 1, UNITS))),
    "state_rank": with_state(lambda state: state[0]),
    "states_missing": lambda layer, states: layer(
        data(), initial_state=states[:-1]
    ),
    "states_too_many": lambda layer, states: layer(
        data(), initial_state=[*states, states[0]]
    ),
}
# Where Keras runs out of an index, or in a graph does not look.
OTHER_CLASS = {"mask_longer", "mask_shorter", "mask_rank", "states_missing"}
# What Keras takes, a vector as that of all rows.
TAKEN_BY_KERAS = {
    ("GRU", "states_too_many"), ("LSTM", "state_rank"),
    ("SimpleRNN", "state_rank"),
}


@pytest.mark.parametrize("layer, name", [
    (layer, name) for layer in LAYERS for name in sorted(ERRORS)
    if (layer, name) not in TAKEN_BY_KERAS
])
@pytest.mark.parametrize("function", [False, True])
def test_errors_are_those_of_keras(layer, name, function):
    fused, stock = pair(layer, dropout=0.2)

    def error(layer_):
        run = lambda: ERRORS[name](layer_, states_of(layer))  # noqa: E731
        with pytest.raises(Exception) as caught:
            (tf.function(run) if function else run)()
        return caught

    ours = error(fused)
    assert "'my_layer'" in str(ours.value)
    if name == "features":
        assert "input has 2 features, but it was built for 3" in str(ours.value)
    if name not in OTHER_CLASS:
        assert ours.type is error(stock).type
    elif function or name != "mask_rank":
        assert ours.type is ValueError
    else:
        assert ours.type is tf.errors.InvalidArgumentError
    assert fused(data()[:1], training=True).shape == (1, UNITS)


@pytest.mark.parametrize("name", LAYERS)
def test_arguments_that_keras_refuses(name):
    layer = getattr(fused_rnn, name)
    with pytest.raises(ValueError, match="units"):
        layer(0)
    with pytest.raises(ValueError, match="use_cudnn"):
        layer(3, use_cudnn="yes")
    with pytest.raises(ValueError, match="batch size must be static"):
        layer(3, stateful=True).build((None, None, 2))


@pytest.mark.parametrize("name", LAYERS)
def test_stateful_refuses_another_batch(name):
    layer = getattr(fused_rnn, name)(UNITS, stateful=True)
    layer(data())
    before = [np.array(state) for state in layer.states]
    with pytest.raises(ValueError, match="batch size"):
        layer(data()[:2])
    for state, expected in zip(layer.states, before):
        np.testing.assert_array_equal(state, expected)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_stack_needs_a_state_for_each_cell(count):
    layer = fused_rnn.RNN(
        [keras.layers.LSTMCell(UNITS), keras.layers.GRUCell(2)], name="my_rnn"
    )
    h, c = states_of("LSTM")
    with pytest.raises(ValueError, match="'my_rnn': expected 3 initial"):
        layer(data(), initial_state=[h, c, h[:, :2], h][:count])


@pytest.mark.parametrize("name", LAYERS)
def test_cell_takes_integers_and_one_state_for_all(name):
    fused, stock = (
        getattr(module, name + "Cell")(
            UNITS, recurrent_initializer="ones", seed=2
        )
        for module in (fused_rnn, keras.layers)
    )
    x = INTEGERS[:, 0]
    for cell in (fused, stock):
        cell.build(x.shape)
    stock.set_weights(fused.get_weights())
    states = [state[:1] for state in states_of(name)]
    assert_same(fused(x, states)[0], stock(x, states)[0])


def test_cell_needs_all_its_states():
    cell = fused_rnn.LSTMCell(UNITS, name="my_cell")
    h, c = states_of("LSTM")
    # Keras runs out of an index.
    with pytest.raises(ValueError, match="'my_cell': expected 2 states, got 1"):
        cell(data()[:, 0], [h])
    # Stacked in one tensor, as Keras takes them too.
    outputs, _ = cell(data()[:, 0], np.stack([h, c]))
    np.testing.assert_array_equal(outputs, cell(data()[:, 0], (h, c))[0])


def test_block_cell_takes_integers_and_names_itself():
    cell = fused_rnn.GRUBlockCell(UNITS, name="my_cell")
    x = INTEGERS[:, 0]
    (state,) = states_of("GRU")
    np.testing.assert_array_equal(
        cell(x, [state])[0], cell(x.astype("float32"), [state])[0]
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="'my_cell': "):
        cell(x, [state[1:]])
