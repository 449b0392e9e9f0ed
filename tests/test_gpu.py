"""The ops and layers on a GPU, if TensorFlow has one.

There TensorFlow places an op on the GPU whenever it has a kernel for it, so
that the suites named here run on it as they are.
"""

import os
import subprocess
import sys

import pytest
import tensorflow as tf
from helpers import PACKAGES, ROOT
from tensorflow.python.framework import kernels

import fused_rnn
from fused_rnn import _library

SUITES = [
    "test_ops_cell.py", "test_ops_rnn.py", "test_gradients_cell.py",
    "test_gradients_rnn.py", "test_rnn_against_keras.py", "test_keras_cell.py",
    "test_keras_equality.py", "test_keras_layers.py", "test_keras_rnn.py",
]
OPS = [
    f"FusedRNN>{name}{suffix}"
    for names, suffixes in (
        (("GRU", "LSTM", "SimpleRNN"), ("", "Grad", "InputGrad", "WeightGrad")),
        (("GRUBlockCell",), ("", "Grad", "WeightGrad")),
    )
    for name in names
    for suffix in suffixes
]


@pytest.fixture
def gpu():
    if not _library.build_info().cuda:
        pytest.skip("this build has no GPU kernels")
    if not tf.config.list_physical_devices("GPU"):
        pytest.skip("TensorFlow has no GPU here")


@pytest.mark.parametrize("op", [*OPS, "GRUBlockCell", "GRUBlockCellGrad"])
def test_kernels_of_devices(op):
    """A build with GPU kernels offers them for the types of the CPU's."""
    fused_rnn.gru  # noqa: B018  loads the ops
    types = {"CPU": set(), "GPU": set()}
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        if op in OPS or kernel.priority == 1:
            types[kernel.device_type] |= {
                kind
                for constraint in kernel.constraint
                for kind in constraint.allowed_values.list.type
            }
    assert len(types["CPU"]) == (4 if op in OPS else 1)
    expected = types["CPU"] if _library.build_info().cuda else set()
    assert types["GPU"] == expected


def test_suites_are_there():
    """Where there is no GPU none of them is run from here."""
    assert all((ROOT / "tests" / suite).is_file() for suite in SUITES)


@pytest.mark.gpu
def test_ops_run_on_the_gpu(gpu):
    tf.config.set_soft_device_placement(False)
    with tf.device("GPU:0"):
        outputs, state = fused_rnn.gru(
            tf.ones([2, 3, 4]), None, tf.ones([4, 9]), tf.ones([3, 9])
        )
        h = tf.raw_ops.GRUBlockCell(
            x=tf.ones([2, 3]), h_prev=tf.ones([2, 4]), w_ru=tf.ones([7, 8]),
            w_c=tf.ones([7, 4]), b_ru=tf.ones([8]), b_c=tf.ones([4]),
        ).h
    assert all("GPU" in tensor.device for tensor in (outputs, state, h))


@pytest.mark.gpu
@pytest.mark.parametrize("persistent", ["0", "1"])
@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite, persistent, gpu):
    """Step by step, and with all steps in one launch where a call allows it."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(ROOT / "tests" / suite)],
        env={
            **os.environ, "FUSED_RNN_CUDA_PERSISTENT": persistent,
            "PYTHONPATH": PACKAGES,
        },
        cwd=ROOT, capture_output=True, text=True,
    )
    assert result.returncode == 0, result.stdout[-10000:]
