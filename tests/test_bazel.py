"""The build with Bazel, where there is one: BUILD must not rot."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import native
import pytest

ROOT = native.ROOT
STUBS = ("rules_cc", "rules_java", "remote_coverage_tools")


@pytest.mark.skipif(not shutil.which("bazel"), reason="bazel is not installed")
def test_bazel_builds_a_package_that_loads(tmp_path):
    cache = tmp_path / "cache"
    bazel = ["bazel", f"--output_user_root={cache}", "--max_idle_secs=60"]
    flags = [
        "--spawn_strategy=local",
        f"--symlink_prefix={tmp_path}/bazel-",
        # Bazel 4's own tools ask for these, and would fetch them.
        *(f"--override_repository={s}={ROOT}/bazel/stubs/{s}" for s in STUBS),
    ]
    environment = {**os.environ, "FUSED_RNN_PYTHON": sys.executable}
    try:
        native.output(
            [*bazel, "build", *flags, "//:all"], cwd=ROOT, env=environment
        )
    finally:
        subprocess.run(
            [*bazel, "shutdown"], cwd=ROOT, env=environment, timeout=60,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )

    # A package of this checkout's modules and what Bazel built.
    package = tmp_path / "site/fused_rnn"
    built = pathlib.Path(tmp_path, "bazel-bin/python/fused_rnn")
    shutil.copytree(
        ROOT / "python/fused_rnn", package,
        ignore=shutil.ignore_patterns("*.so", "_build_info.json"),
    )
    for name in ("_core.so", "_fused_rnn_tf.so", "_build_info.json"):
        shutil.copy(built / name, package / name)
    facts = json.loads(
        subprocess.run(
            [sys.executable, "-m", "fused_rnn", "info", "--json"],
            env={**os.environ, "PYTHONPATH": str(package.parent)},
            cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=300,
        ).stdout
    )
    assert facts["folder"] == str(package)
    assert facts["compiler"] == "Bazel"
    assert facts["ops"] == "loaded"
    assert "error" not in facts
