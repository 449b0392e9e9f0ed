"""What holds for every test."""

import os

import pytest

# On a GPU, float32 products round their factors to TF32 unless told otherwise;
# the bounds of the tests are those of float32.
os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")


@pytest.fixture
def threads():
    """Changes how many threads the NumPy side has, and puts it back."""
    import fused_rnn.numpy as rnn

    before = rnn.get_num_threads()
    yield rnn.set_num_threads
    rnn.set_num_threads(before)


@pytest.fixture
def isas():
    """The instruction sets to select; puts back the one in use."""
    import fused_rnn.numpy as rnn

    before = rnn.active_isa()
    yield rnn.supported_isas()
    rnn.select_isa(before)
