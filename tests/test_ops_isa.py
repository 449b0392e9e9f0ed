"""Each instruction set gives the values that the oracle tests call for."""

import pathlib

import pytest
from helpers import run_python

from fused_rnn import _library

ORACLE_TESTS = [
    str(pathlib.Path(__file__).with_name(name))
    for name in ("test_ops_cell.py", "test_block_lstm.py", "test_ops_rnn.py")
]

CALL = """
    import sys
    import tensorflow as tf, fused_rnn
    one = tf.ones([1, 1])
    def call():
        fused_rnn.gru_block_cell(one, one, tf.ones([2, 2]), tf.ones([2, 1]),
                                 tf.zeros([2]), tf.zeros([1]))
        fused_rnn.gru(tf.ones([1, 1, 1]), None, tf.ones([1, 3]),
                      tf.ones([1, 3]))
        fused_rnn.lstm(tf.ones([1, 1, 1]), None, None, tf.ones([1, 4]),
                       tf.ones([1, 4]))
        fused_rnn.simple_rnn(tf.ones([1, 1, 1]), None, one, one)
"""


# The last, the widest, is what this process tests already, or cannot run.
@pytest.mark.parametrize("isa", _library.build_info().isas[:-1])
def test_oracle_tests_with_each_instruction_set(isa):
    code = CALL + """
    try:
        call()
    except tf.errors.InvalidArgumentError as error:
        print("unsupported:", error)
        sys.exit()
    import pytest
    sys.exit(pytest.main(["-q", "-x", "-k", "test_oracle", *sys.argv[1:]]))
    """
    output = run_python(code, *ORACLE_TESTS, FUSED_RNN_ISA=isa)
    if "unsupported:" in output:
        pytest.skip(f"this processor does not run {isa}")
    assert " passed" in output


def test_unknown_instruction_set_is_refused():
    code = CALL + """
    try:
        call()
    except tf.errors.InvalidArgumentError as error:
        print(error)
    """
    output = run_python(code, FUSED_RNN_ISA="mmx")
    assert "mmx" in output and "baseline" in output
