"""`fused-rnn demo`: what it prints, what it leaves, and how it ends."""

import io
import os
import pathlib
import re
import signal
import subprocess
import sys

import helpers
import numpy as np
import pytest

pytest.importorskip("tensorflow")

import fused_rnn  # noqa: E402
from fused_rnn import cli  # noqa: E402
from fused_rnn.cli import _terminal, _text  # noqa: E402

SMALL = ["--units", "8", "--batch", "2", "--length", "10", "--characters",
         "20000", "--sample", "40"]
CELLS = ("gru", "lstm", "rnn")


def demo(*arguments):
    return cli.main(["demo", *SMALL, *arguments])


def printed_losses(printed):
    """{step: the losses of the engines, those that got so far}"""
    rows = re.findall(r"^ +(\d+)((?: +\d\.\d{4})+)$", printed, re.M)
    return {
        int(step): [float(loss) for loss in losses.split()]
        for step, losses in rows
    }


@pytest.mark.parametrize("cell, convention", [
    *((cell, []) for cell in CELLS), ("gru", ["--reset-before"]),
])
def test_the_main_job(cell, convention, tmp_path, capsys):
    import keras

    folder = tmp_path / "new" / "folder"
    arguments = ["--steps", "12", "--output", str(folder), "--cell", cell]
    assert demo(*arguments, *convention) == 0
    printed = capsys.readouterr().out
    assert "Python files" in printed
    assert re.search(r"12/12 +loss \d\.\d{4} +[\d,]+ characters/s", printed)
    assert re.search(r"speed-up +\d+\.\d\dx +of fused_rnn over Keras", printed)
    losses = printed_losses(printed)
    assert list(losses) == [1, 2, 4, 7, 9, 12]
    # Two trainings of the same weights on the same batches.
    for fused, stock in losses.values():
        assert fused == pytest.approx(stock, abs=1e-3)
    # The prompt, and forty characters more.
    sample, = re.findall(r"A sample of .*\n\n((?: {4}.*\n)+)", printed)
    assert len(sample) > 40
    assert "saved and loaded again, the same predictions" in printed
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    model = keras.models.load_model(folder / "model.keras")
    kind = {"gru": "GRU", "lstm": "LSTM", "rnn": "SimpleRNN"}[cell]
    assert type(model.layers[1]) is getattr(fused_rnn, kind)
    assert getattr(model.layers[1], "reset_after", False) == (
        cell == "gru" and not convention
    )
    assert model.predict(np.zeros((1, 5), "int32"), verbose=0).shape[:2] == (
        1, 5
    )


@pytest.mark.parametrize("cell", CELLS)
def test_curves_of_all_engines_coincide(cell, tmp_path, capsys):
    assert demo(
        "--cell", cell, "--engine", "all", "--steps", "10", "--numpy-steps",
        "5", "--output", str(tmp_path),
    ) == 0
    printed = capsys.readouterr().out
    assert "one-hot" in printed and "NumPy engine" in printed
    assert ("reset before the product" in printed) == (cell == "gru")
    losses = printed_losses(printed)
    # Why not to the last digit: docs/networks.md.
    for engines in losses.values():
        assert engines == pytest.approx([engines[0]] * len(engines), abs=1e-3)
    assert {step: len(engines) for step, engines in losses.items()} == {
        1: 3, 2: 3, 3: 3, 4: 3, 5: 3, 6: 2, 8: 2, 10: 2,
    }
    for other in ("Keras", "NumPy"):
        assert re.search(rf"speed-up +\S+x +of fused_rnn over {other}", printed)
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("cell", CELLS)
def test_what_numpy_trained_is_kept_as_a_keras_model(cell, tmp_path, capsys):
    import keras

    arguments = ["--cell", cell, "--steps", "9", "--output", str(tmp_path)]
    assert demo(*arguments, "--engine", "numpy") == 0
    numpy_losses = re.findall(r"loss (\S+)", capsys.readouterr().out)
    numpy = keras.models.load_model(tmp_path / "model.keras")
    # The same model without the NumPy engine.
    arguments += ["--embedding", "0", "--engine", "keras"]
    arguments += ["--reset-before"] if cell == "gru" else []
    assert demo(*arguments) == 0
    printed = capsys.readouterr().out
    assert "speed-up" not in printed
    losses = re.findall(r"loss (\S+)", printed)
    assert [float(loss) for loss in losses] == pytest.approx(
        [float(loss) for loss in numpy_losses], abs=1e-3
    )
    stock = keras.models.load_model(tmp_path / "model.keras")
    tokens = np.arange(20).reshape(2, 10)
    np.testing.assert_allclose(
        numpy.predict(tokens, verbose=0), stock.predict(tokens, verbose=0),
        rtol=0, atol=1e-3,
    )
    np.testing.assert_array_equal(
        numpy.layers[0].get_weights()[0], np.eye(numpy.layers[0].input_dim)
    )


@pytest.mark.parametrize("cell", CELLS)
def test_engines_start_from_the_same_weights(cell):
    from fused_rnn.cli import _engines

    description = _engines.Model(cell, 7, 0, 5, False, 1e-3)
    initial = description.build().get_weights()
    for engine in ("fused", "keras", "numpy"):
        trainer = _engines.trainer(engine, description, initial)
        for left, right in zip(trainer.model().get_weights(), initial):
            np.testing.assert_array_equal(left, right)


def test_it_learns(tmp_path, capsys):
    text = tmp_path / "text.py"
    text.write_text("abcdefgh\n" * 500)
    arguments = ["--steps", "80", "--learning-rate", "0.02", "--no-compare"]
    assert demo(
        *arguments, "--text", str(text), "--output", str(tmp_path)
    ) == 0
    printed = capsys.readouterr().out
    losses = [float(x) for x in re.findall(r"loss (\d\.\d{4})", printed)]
    assert losses[0] > 2 and losses[-1] < 0.5 * losses[0]
    assert "Keras" not in printed
    # Nine characters and the one that stands for the rest.
    assert "10 different ones" in printed


def test_without_matplotlib(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert demo("--steps", "1", "--no-compare", "--output", str(tmp_path)) == 0
    assert "pip install 'fused-rnn[demo]'" in capsys.readouterr().out
    assert not (tmp_path / "loss.png").exists()


def test_disagreement_is_an_error(tmp_path, capsys, monkeypatch):
    import keras

    monkeypatch.setattr(keras.Model, "set_weights", lambda *_: None)
    assert demo("--steps", "1", "--output", str(tmp_path)) == 1
    assert "the losses of the first step differ" in capsys.readouterr().err


@pytest.mark.parametrize("arguments, message", [
    (["--text", "/nowhere"], "there are no Python files in /nowhere"),
    (["--length", "30000"], "too few for sequences of 30000"),
    (["--output", "/dev/null/x"], "--output: expected a folder that can be"),
    # It is there, but no files can be made in it.
    (["--output", "/proc"], "written to, got /proc: "),
])
def test_errors_in_plain_words(arguments, message, tmp_path, capsys):
    assert demo("--output", str(tmp_path), *arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("fused-rnn: ") and message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("arguments, message", [
    (["--steps", "0"], "expected a whole number above 0, got '0'"),
    (["--units", "2.5"], "expected a whole number above 0, got '2.5'"),
    (["--temperature", "nan"], "expected a number above 0, got 'nan'"),
    (["--seed", "-1"], "expected a whole number from 0 to 4294967295"),
    (["--seed", str(2**32)], "expected a whole number from 0 to 4294967295"),
    (["--embedding", "-1"], "expected a whole number, 0 or more, got '-1'"),
    (["--engine", "numpy", "--embedding", "3"],
     "--embedding: expected 0 with the NumPy engine"),
    (["--cell", "lstm", "--reset-before"], "--cell lstm has no reset gate"),
    (["--frobnicate"], "unrecognized arguments"),
])
def test_wrong_flags(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        demo(*arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_an_unknown_instruction_set_is_said_in_one_line(tmp_path):
    printed = helpers.run_python(
        """
        import sys
        from fused_rnn import cli
        sys.stderr = sys.stdout
        print(cli.main(["demo", "--output", sys.argv[1]]))
        """,
        tmp_path, FUSED_RNN_ISA="mmx",
    )
    message, status = printed.splitlines()
    assert message.startswith("fused-rnn: FUSED_RNN_ISA='mmx' is not")
    assert "baseline" in message and status == "1"


def test_help_tells_defaults_as_they_are_typed(capsys):
    for command in cli.COMMANDS:
        with pytest.raises(SystemExit) as exit_:
            cli.main([command, "--help"])
        assert exit_.value.code == 0
        printed = capsys.readouterr().out
        assert not re.search(r"default:\s+(None|False|[(\[])", printed)
        if command == "bench":
            assert re.search(r"default:\s+after\)", printed)


def test_ctrl_c_keeps_what_was_trained(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "fused_rnn", "demo", *SMALL, "--steps",
         "1000000", "--output", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=helpers.heed_interrupts,
    )
    try:
        for line in process.stdout:
            if "1/1000000" in line:
                break
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert re.search(r"Interrupted after step \d+\. What was", printed)
    assert "Traceback" not in errors
    assert (tmp_path / "model.keras").exists()
    assert "saved and loaded again" in printed


def test_a_second_ctrl_c_does_not_wait():
    from fused_rnn.cli._training import Interrupt

    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert not interrupt.wanted
        signal.raise_signal(signal.SIGINT)
        assert interrupt.wanted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [20, 80, 200])
def test_bar_fits_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    progress = _terminal.Progress(50, stream)
    progress.INTERVAL = 0
    for step in range(1, 51):
        progress.update(step, "loss 1.2345      1,000 characters/s")
    progress.close()
    frames = stream.getvalue().split("\r\033[K")[1:]
    assert len(frames) == 50
    assert all(len(frame.rstrip("\n")) < columns for frame in frames)
    assert frames[-1].endswith("\n")
    if columns >= 80:
        assert "50/50" in frames[-1] and "#" * 10 in frames[-1]


def test_piped_progress_is_a_line_now_and_then():
    stream = io.StringIO()
    progress = _terminal.Progress(1000, stream)
    for step in range(1, 1001):
        progress.update(step, "loss")
    progress.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 11 and "\r" not in stream.getvalue()
    assert lines[0].split()[0] == "1/1000"
    assert lines[-1].split()[0] == "1000/1000"


def test_a_failed_import_is_not_kept_quiet(capfd):
    with _terminal.quiet_start():
        os.write(2, b"chatter\n")
    assert capfd.readouterr().err == ""
    with pytest.raises(ImportError):
        with _terminal.quiet_start():
            os.write(2, b"why it failed\n")
            raise ImportError
    assert capfd.readouterr().err == "why it failed\n"


def test_vocabulary():
    text = "aab\n" * 1000 + "\N{SNOWMAN}"
    vocabulary = _text.Vocabulary(text, share=1e-3)
    assert len(vocabulary) == 4
    tokens = vocabulary.encode("b\na\N{SNOWMAN}z\N{GRINNING FACE}")
    assert tokens.dtype == np.int32
    assert vocabulary.decode(tokens) == "b\na" + 3 * _text.RARE


def test_batches():
    tokens = np.arange(12, dtype=np.int32)
    first, second = (
        next(_text.batches(tokens, 500, 10, seed=seed)) for seed in (0, 0)
    )
    np.testing.assert_array_equal(first[0], second[0])
    x, y = first
    assert x.shape == y.shape == (500, 10)
    np.testing.assert_array_equal(y, x + 1)
    assert set(x[:, 0]) == {0, 1}  # every place where a sequence can begin
    with pytest.raises(_text.TextError, match="12 characters"):
        _text.batches(tokens, 1, 12, seed=0)


def test_sources_are_the_standard_library():
    files = _text.sources()
    assert pathlib.Path(os.__file__) in files
    assert not any("site-packages" in file.parts for file in files)
    text, count = _text.read(files, 10_000, seed=0)
    assert len(text) == 10_000 and count >= 1
    assert (text, count) == _text.read(files, 10_000, seed=0)
    assert text != _text.read(files, 10_000, seed=1)[0]
