"""Checks before the library of ops is loaded, loading, and `fused-rnn info`."""

import dataclasses
import json
import os
import pathlib

import pytest
from helpers import run_python

from fused_rnn import _library
from fused_rnn._version import __version__
from fused_rnn.cli import info

# ---- Checks before loading.

BUILT = _library.BuildInfo(__version__, "2.21.0", ("baseline",), False, "GNU")


def test_a_build_serves_every_patch_of_its_minor():
    for running in ("2.21.0", "2.21.3", "2.21.0-rc1"):
        _library.check(BUILT, running)


@pytest.mark.parametrize(
    "change, running, words",
    [
        ({}, "2.20.0", ["2.21.0", "2.20.0", "FUSED_RNN_TENSORFLOW=2.20"]),
        ({}, "2.3.0", ["2.21.0", "2.3.0", "pip install 'tensorflow"]),
        ({}, "2.22.0", ["2.22.0 is not supported", ">=2.19,<2.22'"]),
        ({"version": "0.0.1"}, "2.21.0", ["stale", "0.0.1", __version__]),
        ({"tensorflow": ""}, "2.21.0", ["FUSED_RNN_TENSORFLOW=none"]),
        (None, "2.21.0", ["was not built", "Build it again"]),
    ],
)
def test_a_build_that_does_not_fit_is_refused(
    monkeypatch, change, running, words
):
    monkeypatch.setattr(
        _library, "rebuild_command",
        lambda running: f"FUSED_RNN_TENSORFLOW={running[:4]} pip",
    )
    info = None if change is None else dataclasses.replace(BUILT, **change)
    with pytest.raises(ImportError) as raised:
        _library.check(info, running)
    for word in words:
        assert word in str(raised.value)


def test_the_note_of_the_build_is_read_back(tmp_path):
    assert _library.build_info(tmp_path) is None
    note = {**dataclasses.asdict(BUILT), "later": "ignored"}
    (tmp_path / "_build_info.json").write_text(json.dumps(note))
    assert _library.build_info(tmp_path) == BUILT


class Distribution:
    """What pip recorded of an installation."""

    def __init__(self, site, direct_url):
        self.site, self.direct_url = site, direct_url

    def locate_file(self, name):
        return self.site / name

    def read_text(self, name):
        return {"RECORD": "x", "direct_url.json": self.direct_url}.get(name)


@pytest.mark.parametrize(
    "record, command",
    [
        (
            {"url": "file:///a%20b", "dir_info": {"editable": True}},
            "--no-deps -e '/a b'",
        ),
        (
            {"url": "file:///src", "dir_info": {}},
            "--no-deps --force-reinstall /src",
        ),
        (None, "--no-cache-dir --no-binary fused-rnn fused-rnn"),
    ],
)
def test_the_remedy_repeats_how_it_was_installed(monkeypatch, record, command):
    site = pathlib.Path("/site")
    package = site / "fused_rnn"
    if record and record["dir_info"]:
        package = pathlib.Path("/a b/python/fused_rnn")
    monkeypatch.setattr(_library, "_FOLDER", package)
    monkeypatch.setattr(
        _library.importlib.metadata, "distribution",
        lambda name: Distribution(site, record and json.dumps(record)),
    )
    remedy = _library.rebuild_command("2.20.0")
    assert remedy.startswith("FUSED_RNN_TENSORFLOW=2.20 ")
    assert remedy.endswith(command)


def test_the_remedy_for_a_checkout_is_its_build(monkeypatch):
    monkeypatch.setattr(
        _library.importlib.metadata, "distribution",
        lambda name: Distribution(pathlib.Path("/elsewhere"), None),
    )
    monkeypatch.setattr(
        _library, "_FOLDER", pathlib.Path("/c/python/fused_rnn")
    )
    assert _library.rebuild_command("2.20.0").startswith("cmake -S /c -B")


# ---- Loading.


def test_loading_twice_gives_one_module():
    module = _library.load()
    assert module is _library.load()
    assert callable(module.fused_rnn_gru_block_cell)
    assert os.path.isfile(_library.library_path())


def test_a_library_that_does_not_load_is_explained(monkeypatch, tmp_path):
    broken = tmp_path / "_fused_rnn_tf.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(_library, "library_path", lambda: str(broken))
    with pytest.raises(ImportError, match="cannot load .*Build it again: "):
        _library.load.__wrapped__()


WITHOUT_TENSORFLOW = "import sys; sys.modules['tensorflow'] = None\n"


def test_without_tensorflow_the_rest_works():
    run_python(WITHOUT_TENSORFLOW + """if True:
        import numpy as np
        import fused_rnn
        import fused_rnn.numpy
        assert fused_rnn.__version__
        try:
            fused_rnn.gru_block_cell
        except ImportError as error:
            assert "pip install 'tensorflow" in str(error), error
        else:
            raise AssertionError("no error")
        try:
            fused_rnn.no_such_name
        except AttributeError as error:
            assert "no_such_name" in str(error)
    """)


def test_tensorflow_is_left_alone_when_told_so():
    run_python(
        """
        import sys
        import fused_rnn
        assert "tensorflow" not in sys.modules
        assert "gru_block_cell" in dir(fused_rnn)
        fused_rnn.gru_block_cell  # Loads it after all.
        assert "tensorflow" in sys.modules
        """,
        FUSED_RNN_NO_TENSORFLOW=1,
    )


def test_importing_the_package_registers_the_ops():
    run_python("""
        import fused_rnn
        import tensorflow as tf
        from tensorflow.python.framework import op_def_registry
        assert op_def_registry.get("FusedRNN>GRUBlockCell") is not None
        assert tf.__version__.startswith("2.")
    """)


@pytest.mark.parametrize(
    "argv, orig_argv, own",
    [
        (["/env/bin/fused-rnn", "info"], ["python", "/env/bin/fused-rnn"], True),
        (["-m", "info"], ["python", "-m", "fused_rnn", "info"], True),
        (["-m", "x"], ["python", "-W", "error", "-m", "fused_rnn", "x"], True),
        (["-m"], ["python", "-m", "other"], False),
        (["other.py"], ["python", "other.py", "-m", "fused_rnn"], False),
        (["-c"], ["python", "-c", "import fused_rnn"], False),
        ([""], ["python"], False),
    ],
)
def test_only_our_own_commands_load_what_they_need_later(argv, orig_argv, own):
    assert _library._is_own_command(argv, orig_argv) is own


# ---- `fused-rnn info`.


def run_info(*arguments, before="", **environment):
    """The command's exit status and output."""
    printed = run_python(
        before
        + "import sys; from fused_rnn.cli import main;"
        f" status = main(['info', *{list(arguments)!r}]);"
        " print('status', status)",
        **environment,
    )
    lines = printed.splitlines()
    return int(lines[-1].split()[1]), "\n".join(lines[:-1])


def test_info_says_what_was_built_and_what_runs():
    import tensorflow as tf

    status, printed = run_info("--json")
    facts = json.loads(printed)
    assert status == 0 and "error" not in facts
    built = _library.build_info()
    assert facts["fused_rnn"] == __version__
    assert facts["TensorFlow"] == tf.__version__
    assert facts["built for TensorFlow"] == built.tensorflow
    assert facts["ops"] == "loaded"
    assert facts["CUDA"] == (built.cuda or "not built")
    assert ("GPU" in facts) == bool(built.cuda)
    assert facts["instruction sets compiled"] == ", ".join(built.isas)
    supported = facts["instruction sets supported"].split(", ")
    assert facts["instruction set in use"] == os.environ.get(
        "FUSED_RNN_ISA", supported[-1]
    )
    assert facts["threads of TensorFlow"] >= 1
    assert facts["threads of fused_rnn.numpy"] >= 1


def test_info_works_without_tensorflow():
    status, printed = run_info(before=WITHOUT_TENSORFLOW)
    assert status == 0
    assert "not installed" in printed and "instruction set in use" in printed


def test_info_honours_the_wish_to_leave_tensorflow_alone():
    status, printed = run_info(FUSED_RNN_NO_TENSORFLOW=1)
    assert status == 0 and "left alone" in printed


def test_info_explains_an_unknown_instruction_set():
    status, printed = run_info(FUSED_RNN_ISA="mmx", FUSED_RNN_NO_TENSORFLOW=1)
    assert status == 1
    assert "mmx" in printed and "baseline" in printed.split("error")[1]


def test_info_explains_what_does_not_fit(monkeypatch, capsys):
    def refuse():
        raise _library.LibraryError("built for another; mend it so")

    monkeypatch.setattr(_library, "load", refuse)
    assert info.run(type("Arguments", (), {"json": False})) == 1
    assert "built for another; mend it so" in capsys.readouterr().out


def test_the_commands_end_with_one_line_instead_of_a_traceback(
    monkeypatch, capsys
):
    from fused_rnn import cli

    def refuse(_):
        raise _library.LibraryError("mend it so")

    monkeypatch.setattr(info, "run", refuse)
    assert cli.main(["info"]) == 1
    assert capsys.readouterr().err == "fused-rnn: mend it so\n"
