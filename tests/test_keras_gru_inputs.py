"""What fused_rnn.GRU takes as inputs, masks and states, and what it refuses."""

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
    STEPS,
    UNITS,
    assert_same,
    data,
)

STATE = data(1, (BATCH, UNITS))


def pair(**options):
    """Ours and Keras' layer with the same weights."""
    layers = [
        gru(UNITS, name="my_gru", **options)
        for gru in (fused_rnn.GRU, keras.layers.GRU)
    ]
    for layer in layers:
        layer.build((BATCH, None, INPUTS))
        for i, weight in enumerate(layer.trainable_weights):
            weight.assign(
                np.random.default_rng(i).uniform(-0.6, 0.6, weight.shape)
            )
    return layers


@pytest.mark.parametrize("options", [
    dict(), dict(return_sequences=True), dict(dropout=0.3),
    dict(recurrent_dropout=0.3, unroll=True),
], ids=str)
def test_no_steps_and_no_rows(options):
    layer = fused_rnn.GRU(UNITS, return_state=True, **options)
    layer(data())
    outputs, state = layer(data()[:, :0], initial_state=STATE, training=True)
    np.testing.assert_array_equal(state, STATE)
    if layer.return_sequences:
        assert outputs.shape == (BATCH, 0, UNITS)
    else:
        np.testing.assert_array_equal(outputs, STATE)
    outputs, state = layer(data()[:0], training=True)
    assert state.shape == (0, UNITS) and outputs.shape[0] == 0
    assert layer.unroll == bool(options.get("unroll"))


@pytest.mark.parametrize("options", [
    dict(unroll=True), dict(dropout=0.3),
    dict(dropout=0.3, recurrent_dropout=0.3, implementation=1),
], ids=str)
def test_no_steps_in_a_graph(options):
    """A number of steps, and of rows, that only the run knows."""
    layer = fused_rnn.GRU(UNITS, **options)
    layer(data())

    @tf.function(input_signature=[tf.TensorSpec([None, None, INPUTS])])
    def run(x):
        return layer(x, training=True), layer(x)

    for outputs in run(data()[:, :0]):
        np.testing.assert_array_equal(outputs, np.zeros((BATCH, UNITS)))
    assert [o.shape for o in run(data()[:0])] == [(0, UNITS)] * 2
    assert_same(run(data())[1], layer(data()))
    assert layer.unroll == bool(options.get("unroll"))


def test_a_call_without_steps_leaves_the_others_alone():
    """Calls from many threads, every other one without steps."""
    layer = fused_rnn.GRU(UNITS)
    calls = [(data(), layer(data())), (data()[:, :0], np.zeros((BATCH, UNITS)))]

    def same(i):
        x, expected = calls[i % 2]
        return np.array_equal(layer(x), expected)

    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        assert all(executor.map(same, range(200)))


@pytest.mark.parametrize("training", [False, True])
def test_dropout_is_drawn_as_often_as_by_keras(training):
    """After some calls, in inference too, the next masks are still Keras'."""
    results = []
    for layer in pair(dropout=0.4, recurrent_dropout=0.3, seed=5):
        layer(data())
        layer(data(), training=training)
        results.append(layer(data(), training=True))
    assert_same(*results)


def test_masks_as_keras_takes_them():
    """Numbers, and a last axis of one."""
    layer = fused_rnn.GRU(UNITS, return_sequences=True)
    expected = layer(data(), mask=HOLES)
    for mask in (HOLES[..., None], HOLES.astype("float32"), [HOLES]):
        np.testing.assert_array_equal(layer(data(), mask=mask), expected)


INTEGERS = np.arange(BATCH * STEPS * INPUTS).reshape(data().shape) % 3
TAKEN = {
    "integers": (dict(), dict(sequences=INTEGERS)),
    "bytes": (
        dict(dtype="mixed_float16"),
        dict(sequences=INTEGERS.astype("uint8")),
    ),
    "without_autocast": (
        dict(autocast=False), dict(sequences=data().astype("float64")),
    ),
    "mask_of_one_row": (dict(return_sequences=True), dict(mask=HOLES[1:2])),
    "list": (dict(), dict(initial_state=[STATE])),
    "tuple": (dict(), dict(initial_state=(STATE,))),
    "first_of_two": (dict(), dict(initial_state=[STATE, 2 * STATE])),
    "state_of_another_dtype": (
        dict(), dict(initial_state=STATE.astype("float64")),
    ),
    "state_of_one_row": (dict(), dict(initial_state=STATE[:1])),
}


@pytest.mark.parametrize("name", sorted(TAKEN))
@pytest.mark.parametrize("function", [False, True])
def test_what_keras_takes(name, function):
    options, arguments = TAKEN[name]
    arguments = dict(sequences=data()) | arguments
    fused, stock = pair(**options)
    call = lambda: fused(**arguments)  # noqa: E731
    ours = (tf.function(call) if function else call)()
    theirs = stock(**arguments)
    assert ours.dtype == theirs.dtype
    assert_same(ours, theirs, options.get("dtype", "float32"))


ERRORS = {
    "rank": lambda layer: layer(data()[0]),
    "features": lambda layer: layer(data()[:, :, :2], training=True),
    "ragged": lambda layer: layer(tf.RaggedTensor.from_tensor(data())),
    "mask_longer": lambda layer: layer(
        data(), mask=np.ones((BATCH, STEPS + 1), bool)
    ),
    "mask_shorter": lambda layer: layer(data(), mask=HOLES[:, 1:]),
    "mask_rows": lambda layer: layer(data(), mask=HOLES[1:3]),
    "mask_rank": lambda layer: layer(data(), mask=HOLES[0]),
    "state_units": lambda layer: layer(
        data(), initial_state=data(1, (BATCH, UNITS + 1))
    ),
    "state_rows": lambda layer: layer(
        data(), initial_state=data(1, (BATCH + 1, UNITS))
    ),
    "state_rank": lambda layer: layer(data(), initial_state=STATE[0]),
}
# Where Keras runs out of an index, or in a graph does not look.
OTHER_CLASS = {"mask_longer", "mask_shorter", "mask_rank"}


@pytest.mark.parametrize("name", sorted(ERRORS))
@pytest.mark.parametrize("function", [False, True])
def test_errors_are_those_of_keras(name, function):
    fused, stock = pair(dropout=0.2)

    def error(layer):
        run = lambda: ERRORS[name](layer)  # noqa: E731
        with pytest.raises(Exception) as caught:
            (tf.function(run) if function else run)()
        return caught

    ours = error(fused)
    assert "'my_gru'" in str(ours.value)
    if name == "features":
        assert "input has 2 features, but it was built for 3" in str(ours.value)
    if name not in OTHER_CLASS:
        assert ours.type is error(stock).type
    elif function or name != "mask_rank":
        assert ours.type is ValueError
    else:
        assert ours.type is tf.errors.InvalidArgumentError
    assert fused(data()[:1], training=True).shape == (1, UNITS)


def test_arguments_that_keras_refuses():
    with pytest.raises(ValueError, match="units"):
        fused_rnn.GRU(0)
    with pytest.raises(ValueError, match="use_cudnn"):
        fused_rnn.GRU(3, use_cudnn="yes")
    with pytest.raises(ValueError, match="batch size must be static"):
        fused_rnn.GRU(3, stateful=True).build((None, None, 2))


def test_stateful_refuses_another_batch():
    layer = fused_rnn.GRU(UNITS, stateful=True)
    layer(data())
    state = np.array(layer.states[0])
    with pytest.raises(ValueError, match="batch size"):
        layer(data()[:2])
    np.testing.assert_array_equal(layer.states[0], state)


@pytest.mark.parametrize("count", [1, 3])
def test_a_stack_needs_a_state_for_each_cell(count):
    layer = fused_rnn.RNN(
        [keras.layers.GRUCell(UNITS), keras.layers.GRUCell(2)], name="my_rnn"
    )
    with pytest.raises(ValueError, match="'my_rnn': expected 2 initial"):
        layer(data(), initial_state=[STATE, STATE[:, :2], STATE][:count])


def test_cell_takes_integers_and_one_state_for_all():
    fused, stock = (
        cell(UNITS, recurrent_initializer="ones", seed=2)
        for cell in (fused_rnn.GRUCell, keras.layers.GRUCell)
    )
    x = INTEGERS[:, 0]
    for cell in (fused, stock):
        cell.build(x.shape)
    stock.set_weights(fused.get_weights())
    assert_same(fused(x, [STATE[:1]])[0], stock(x, [STATE[:1]])[0])


def test_block_cell_takes_integers_and_names_itself():
    cell = fused_rnn.GRUBlockCell(UNITS, name="my_cell")
    x = INTEGERS[:, 0]
    np.testing.assert_array_equal(
        cell(x, [STATE])[0], cell(x.astype("float32"), [STATE])[0]
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="'my_cell': "):
        cell(x, [STATE[1:]])
