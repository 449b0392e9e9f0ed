"""fused_scope: what is built and loaded in it."""

import pathlib
import threading
import types

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402
from keras import layers  # noqa: E402
from keras.layers import GRU as imported_before  # noqa: E402, N811

import fused_rnn  # noqa: E402
from helpers_keras import LAYERS  # noqa: E402
from helpers_models import (  # noqa: E402
    OwnCell,
    assert_close,
    count_fused,
    encoder_decoder,
    tagger,
    while_loops,
)


def test_scope():
    with fused_rnn.fused_scope():
        model, inputs, _ = tagger()
        assert count_fused(model) == 4
        assert type(imported_before(2)) is fused_rnn.GRU
        stack = layers.RNN([layers.GRUCell(2), fused_rnn.GRUCell(2)])
        assert type(stack) is fused_rnn.RNN
        assert type(layers.RNN(cell=layers.GRUCell(2))) is fused_rnn.RNN
        assert type(layers.RNN(layers.LSTMCell(2))) is fused_rnn.RNN
        assert type(layers.RNN(OwnCell(2))) is layers.RNN
        assert type(layers.LSTM(2)) is fused_rnn.LSTM
        assert type(layers.SimpleRNN(2)) is fused_rnn.SimpleRNN
        assert type(layers.ConvLSTM1D(2, 1)) is layers.ConvLSTM1D
        assert type(layers.GRUCell(2)) is layers.GRUCell
        with pytest.raises(TypeError):
            layers.RNN()
        elsewhere = []
        thread = threading.Thread(
            target=lambda: elsewhere.append(layers.GRU(2))
        )
        thread.start()
        thread.join()
        assert type(elsewhere[0]) is layers.GRU
        with pytest.raises(ZeroDivisionError), fused_rnn.fused_scope():
            1 / 0
        assert type(layers.GRU(2)) is fused_rnn.GRU
    assert type(layers.GRU(2)) is layers.GRU
    assert "__new__" not in vars(layers.RNN)
    with pytest.raises(ValueError, match="time_major"):
        layers.GRU(2, time_major=False)
    # What was built inside stays fused, and is otherwise what Keras builds.
    assert not while_loops(model, inputs)
    keras.backend.clear_session(free_memory=False)
    with fused_rnn.fused_scope():
        paths = [v.path for v in tagger()[0].variables]
    keras.backend.clear_session(free_memory=False)
    assert paths == [v.path for v in tagger()[0].variables]


@pytest.mark.parametrize("name", LAYERS)
def test_scope_loads_and_clones(name, tmp_path):
    model, inputs, replaced = encoder_decoder(getattr(layers, name))
    model.compile("adam", "mse")
    model.save(tmp_path / "old.keras")
    expected = model(inputs)
    with fused_rnn.fused_scope():
        loaded = keras.models.load_model(tmp_path / "old.keras")
        clone = keras.models.clone_model(model)
    assert count_fused(loaded) == count_fused(clone) == replaced
    assert loaded.compiled
    assert isinstance(loaded.optimizer, keras.optimizers.Adam)
    assert_close(loaded(inputs), expected)
    clone.set_weights(model.get_weights())
    assert_close(clone(inputs), expected)
    assert not count_fused(model)
    assert isinstance(fused_rnn.fuse, types.FunctionType)


# tf_keras 2.19 wrote the first and 2.21 the second, trained for two steps of
# Adam: Embedding(5, 3, mask_zero=True), Bidirectional(GRU(2)), GRU(3,
# reset_after=False), RNN([GRUCell(2), GRUCell(2)]), GRU(2), Dense(1); and
# LSTM(2), LSTM(3, unit_forget_bias=False), RNN([LSTMCell(2), SimpleRNNCell(2)])
# and SimpleRNN(2) in their places.
FILES = {
    "keras2.h5": [
        0.07449819147586823, 0.0632244199514389, 0.07966948300600052,
        0.07474116235971451,
    ],
    "keras2_lstm.h5": [
        0.13601212203502655, 0.10265673696994781, 0.11522838473320007,
        0.13413046300411224,
    ],
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_file_of_keras_2(name, tmp_path):
    file = pathlib.Path(__file__).parent / "data" / name
    x = np.random.default_rng(0).integers(0, 5, (4, 6))
    expected = np.array(FILES[name])[:, None]
    # Keras 3 cannot read the losses that Keras 2 wrote.
    with fused_rnn.fused_scope():
        model = keras.models.load_model(file, compile=False)
    assert count_fused(model) == 5
    assert_close(model(x), expected)
    model.compile("sgd", keras.losses.MeanSquaredError())
    model.fit(x, np.ones((4, 1)), verbose=0)
    expected = model.predict(x, verbose=0)
    model.save(tmp_path / "again.h5")
    again = keras.models.load_model(tmp_path / "again.h5")
    assert count_fused(again) == 5
    np.testing.assert_array_equal(again.predict(x, verbose=0), expected)
    fused_rnn.unfuse(again).save(tmp_path / "stock.h5")
    stock = keras.models.load_model(tmp_path / "stock.h5")
    assert not count_fused(stock)
    assert_close(stock(x), expected)
    assert count_fused(fused_rnn.fuse(stock)) == 5
    np.testing.assert_array_equal(stock.predict(x, verbose=0), expected)
