"""`fused-rnn profile`: what it finds in a model, times, and prints."""

import json

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

import fused_rnn  # noqa: E402
from fused_rnn import cli  # noqa: E402
from fused_rnn.bench import harness  # noqa: E402
from fused_rnn.cli import _profiling, profile  # noqa: E402


def tagger():
    words = keras.Input((None,), dtype="int32", name="words")
    numbers = keras.Input((None, 3), name="numbers")
    x = keras.layers.Embedding(11, 4, mask_zero=True, name="embedding")(words)
    x = keras.layers.Bidirectional(
        keras.layers.GRU(5, return_sequences=True, name="gru"), name="both"
    )(x)
    x = keras.layers.LSTM(2, name="memory")(x)
    y = keras.layers.RNN(keras.layers.GRUCell(4), name="cells")(numbers)
    y = keras.layers.Concatenate()([x, y])
    return keras.Model({"words": words, "numbers": numbers},
                       keras.layers.Dense(1)(y))


def test_inputs_fit_the_model():
    model = tagger()
    inputs = _profiling.example(model, 2, 7)
    assert inputs["words"].shape == (2, 7)
    assert inputs["numbers"].shape == (2, 7, 3)
    words = inputs["words"].numpy()
    assert words.min() >= 0 and 2 < words.max() < 11
    assert model(inputs).shape == (2, 1)


def test_recurrent_layers_get_what_they_got_in_the_model():
    model = tagger()
    inputs = _profiling.example(model, 2, 7)
    calls = _profiling.calls_of(model, inputs)
    assert [layer.name for layer, *_ in calls] == [
        "forward_gru", "backward_gru", "memory", "cells"
    ]
    (_, (sequence, *_), options), *_ = calls
    embedding = model.get_layer("embedding")
    np.testing.assert_array_equal(sequence, embedding(inputs["words"]))
    np.testing.assert_array_equal(options["mask"], inputs["words"] != 0)
    # Nothing of the recording is left.
    assert all("call" not in vars(layer) for layer, *_ in calls)


def test_steps_compute_gradients_of_everything():
    model = tagger()
    inputs = _profiling.example(model, 2, 7)
    steps = _profiling.steps_of(model, inputs)
    whole, layers = steps["train"]
    assert len(whole()) == len(model.trainable_variables)
    # Four sequences, and the weights of four cells.
    assert len(layers()) == 4 + 4 * 3
    assert all(gradient is not None for gradient in [*whole(), *layers()])
    whole, layers = steps["predict"]
    np.testing.assert_allclose(whole(), model(inputs), rtol=1e-5)
    assert len(layers()) == 4


def test_the_command(tmp_path, capsys):
    path, results = tmp_path / "model.keras", tmp_path / "results.json"
    model = tagger()
    model.save(path)
    before = path.read_bytes()
    assert cli.main([
        "profile", str(path), "--batch", "2", "--steps", "5", "--rounds", "2",
        "--budget", "0.01", "--json", str(results),
    ]) == 0
    assert path.read_bytes() == before
    printed = capsys.readouterr().out
    assert "both/forward_gru" in printed and "memory" in printed
    assert "in recurrent layers" in printed and "times as fast" in printed
    record = json.loads(results.read_text())["profile"]
    assert record["settings"]["inputs"].startswith("2x")
    found = {(r["name"], r["mode"], r["part"]): r for r in record["results"]}
    assert found.keys() == {
        (name, mode, part) for name in ("keras", "fused")
        for mode in ("predict", "train") for part in ("model", "recurrent")
    }
    for result in found.values():
        assert len(result["rounds"]) == 2 and result["calls"] >= 2


def test_table():
    record = harness.start_record(rounds=2)
    record["results"] = [
        {"name": name, "mode": "predict", "part": part, "rounds": [time] * 2}
        for name, part, time in (
            ("keras", "model", 0.01), ("keras", "recurrent", 0.008),
            ("fused", "model", 0.004), ("fused", "recurrent", 0.002),
        )
    ]
    lines = profile.table(record).splitlines()
    assert lines[1].split() == ["Keras'", "own", "10", "ms"]
    assert lines[2].endswith("8 ms     80 %") and lines[4].endswith("50 %")
    assert lines[5].split()[-1] == "2.50"
    # Points and units stand below each other.
    assert len({line.index(" ms") for line in lines[1:5]}) == 1
    record["results"] = record["results"][:2]  # None was fused.
    assert "fused" not in profile.table(record).partition("Measured")[0]


def test_fused_models_are_compared_with_keras_own(tmp_path):
    model = fused_rnn.fuse(tagger(), verbose=False)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.models.load_model(path)
    stock = fused_rnn.unfuse(loaded, verbose=False)
    inputs = _profiling.example(stock, 2, 5)
    assert _profiling.difference([model, stock], inputs) < 1e-5
    stock.layers[-1].bias.assign([3.0])
    assert _profiling.difference([model, stock], inputs) > 0.1
    assert _profiling.difference([model], inputs) == 0


def run_on(path, *options):
    """The exit status for a small run."""
    return cli.main([
        "profile", str(path), "--batch", "2", "--steps", "3", "--rounds", "1",
        "--budget", "0.001", *map(str, options),
    ])


OWN = """
import keras


class Double(keras.layers.Layer):
    def call(self, x):
        return 2 * x


def curve(x):
    return x / 2
"""


@pytest.fixture
def own_model(tmp_path):
    """A model of one's own layer and activation, and the file that has them."""
    source = tmp_path / "my_layers.py"
    source.write_text(OWN)
    parts = {}
    exec(OWN, parts)
    Double = type("Double", (parts["Double"],), {"__module__": "my_layers"})
    parts["curve"].__module__ = "my_layers"
    path = tmp_path / "model.keras"
    keras.Sequential([
        keras.Input((None, 3)), Double(),
        keras.layers.GRU(4, activation=parts["curve"]),
    ]).save(path)
    return path, source


def test_layers_of_ones_own(own_model, capsys):
    path, source = own_model
    assert run_on(path) == 1
    error = capsys.readouterr().err
    assert "Could not locate" in error and "--import names a module" in error
    assert len(error.splitlines()) == 1 and len(error) < 400
    assert run_on(path, "--import", source) == 0
    # Its activation is none of those that are fused, so there is one model.
    printed = capsys.readouterr().out
    assert "fuse() replaces none of them" in printed
    assert "in recurrent layers" in printed and "times as fast" not in printed
    assert run_on(path, "--import", "no_such_module") == 1
    assert "no_such_module cannot be imported" in capsys.readouterr().err


def test_nothing_to_fuse(tmp_path, capsys):
    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save(path)
    assert run_on(path) == 0
    printed = capsys.readouterr().out
    assert "There is no recurrent layer in it" in printed
    assert "Measured" not in printed


def test_lambdas_are_loaded_when_asked_for(tmp_path, capsys):
    path = tmp_path / "model.keras"
    keras.Sequential([
        keras.Input((None, 3)), keras.layers.Lambda(lambda x: 2 * x),
        keras.layers.GRU(4),
    ]).save(path)
    assert run_on(path) == 1
    assert "--unsafe loads it" in capsys.readouterr().err
    assert run_on(path, "--unsafe") == 0
    assert "times as fast" in capsys.readouterr().out


def test_stacked_layers_and_cells(tmp_path, capsys):
    """Compiled, with a loss that nobody else has: it plays no part."""
    path = tmp_path / "model.h5"
    model = keras.Sequential([
        keras.Input((3, 3)), keras.layers.GRU(4, return_sequences=True),
        keras.layers.RNN([keras.layers.GRUCell(4), keras.layers.GRUCell(2)]),
    ])
    model.compile("adam", lambda y, z: y - z)
    model.save(path)
    assert run_on(path) == 0
    assert "times as fast" in capsys.readouterr().out


@pytest.mark.parametrize("make, words", [
    (lambda path: None, "there is no file"),
    (lambda path: path.mkdir(), "is a folder"),
    (lambda path: path.write_text("no model"), "expected a zip archive"),
])
def test_errors_in_plain_words(make, words, tmp_path, capsys):
    path = tmp_path / "model.keras"
    make(path)
    assert cli.main(["profile", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("fused-rnn: ") and words in error
    assert len(error.splitlines()) == 1


def test_a_file_that_keras_cannot_read(tmp_path, capsys):
    path = tmp_path / "model.h5"
    path.write_text("no model")
    assert cli.main(["profile", str(path)]) == 1
    error = capsys.readouterr().err
    assert "cannot be profiled" in error and len(error.splitlines()) == 1


def test_a_model_without_inputs():
    with pytest.raises(_profiling.ModelError, match="does not say"):
        _profiling.example(keras.Sequential([keras.layers.GRU(3)]), 2, 3)
