"""README: its examples run, and what it names is there."""

import re

import pytest

from helpers import ROOT, run_python

TEXT = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_runs(example, tmp_path):
    pytest.importorskip("tensorflow")
    run_python(f"import os, sys\nos.chdir(sys.argv[1])\n{example}", tmp_path)


def test_paths_exist():
    paths = re.findall(r"\]\(([^)#:]+)\)", TEXT) + [
        path
        for path in re.findall(r"`([^`\n ]+)`", TEXT)
        if re.match(r"(csrc|python|tests|docs|benchmarks)/", path)
    ]
    assert len(paths) > 5
    for path in paths:
        assert list(ROOT.glob(path.rstrip("/"))), path


def test_names_exist():
    pytest.importorskip("tensorflow")
    import fused_rnn

    names = set(re.findall(r"`fused_rnn\.(\w+)`", TEXT))
    assert "GRUBlockCell" in names
    for name in names - {"weights", "reference", "numpy", "cuda"}:
        assert hasattr(fused_rnn, name), name
    from fused_rnn import reference, weights  # noqa: F401
