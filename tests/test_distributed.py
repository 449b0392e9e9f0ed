"""docs/distributed.md: its program, on two workers and on one."""

import contextlib
import os
import re
import socket
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("tensorflow")
import keras  # noqa: E402

import helpers_keras  # noqa: E402
from helpers import PACKAGES, ROOT  # noqa: E402

STEPS, INPUTS, UNITS, UPDATES = 10, 4, 16, 12


def free_addresses(count):
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.socket()) for _ in range(count)
        ]
        for s in sockets:
            s.bind(("localhost", 0))
        return [f"localhost:{s.getsockname()[1]}" for s in sockets]


def start(folder, environment, addresses, worker):
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, folder.parent / "train.py", ",".join(addresses),
         str(worker)],
        cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )


def weights(name, file):
    model = keras.Sequential([
        keras.Input((None, INPUTS)),
        getattr(keras.layers, name)(UNITS),
        keras.layers.Dense(1),
    ])
    model.load_weights(file)
    return model.get_weights()


@pytest.mark.parametrize("name", helpers_keras.LAYERS)
def test_two_workers_train_as_one(name, tmp_path, monkeypatch):
    text = (ROOT / "docs" / "distributed.md").read_text()
    program, = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert program.count("fused_rnn.GRU") == 1
    (tmp_path / "train.py").write_text(
        program.replace("fused_rnn.GRU", f"fused_rnn.{name}")
    )
    monkeypatch.setenv("PYTHONPATH", PACKAGES, prepend=os.pathsep)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    *pair, alone = free_addresses(3)
    workers = [
        start(tmp_path / "two", environment, pair, 0),
        start(tmp_path / "two", environment, pair, 1),
        start(tmp_path / "one", environment, [alone], 0),
    ]
    try:
        printed = [worker.communicate(timeout=300) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, (out, errors) in zip(workers, printed):
        assert worker.returncode == 0, out + errors
    losses = [
        [float(v) for v in re.findall(r"loss (\S+)", out)]
        for out, _ in printed
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 3 and losses[0][2] < losses[0][0]
    first, second, one = (
        weights(name, tmp_path / file) for file in (
            "two/worker0.weights.h5", "two/worker1.weights.h5",
            "one/worker0.weights.h5",
        )
    )
    for a, b, c in zip(first, second, one, strict=True):
        np.testing.assert_array_equal(a, b)
        helpers_keras.assert_close(
            a, c, "float32", INPUTS + UNITS, STEPS * UPDATES
        )
