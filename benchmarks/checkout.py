"""Lets a program of this folder find the package of its checkout."""

import importlib.util
import os
import pathlib
import sys

if importlib.util.find_spec("fused_rnn") is None:  # A build in place.
    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "python"))
if "fused_rnn" not in sys.modules:
    # The workers load TensorFlow; who stops and starts them need not.
    os.environ.setdefault("FUSED_RNN_NO_TENSORFLOW", "1")
