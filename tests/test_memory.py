"""How much memory a call takes beside its arguments and results."""

import pytest
from helpers import run_python

# Prints what one call adds to the resident set at its peak, in bytes.
MEASURE = """
    import sys
    import numpy as np, tensorflow as tf, fused_rnn

    def status(name):
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return 1024 * int(line.split()[1])

    def peak_of(function, *arguments):
        function(*arguments)  # The first call allocates what stays.
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # Forgets the old peak.
        before = status("VmRSS")
        results = function(*arguments)
        return status("VmHWM") - before

    from helpers_rnn import CELLS, fused

    B, I, H = 32, 16, 256
    case = CELLS.get(sys.argv[1])

    def arguments(T):
        rng = np.random.default_rng(0)
        draw = lambda *shape: tf.constant(
            rng.standard_normal(shape).astype(np.float32) / 16)
        columns = case.gates * H
        return draw(B, T, I), draw(I, columns), draw(H, columns)

    def run(x, kernel, recurrent_kernel, **options):
        return fused(case)(
            x=x, kernel=kernel, recurrent_kernel=recurrent_kernel,
            **{state + "0": None for state in case.states}, **case.options,
            **options)
"""

TRAIN = MEASURE + """
    T = 512

    @tf.function
    def train(x, kernel, recurrent_kernel):
        weights = [kernel, recurrent_kernel]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            outputs = run(x, *weights).outputs
            loss = tf.reduce_sum(outputs * outputs)
        return tape.gradient(loss, weights)

    print(peak_of(train, *arguments(T)), 4 * B * T * H)
"""

INFER = MEASURE + """
    @tf.function
    def infer(x, kernel, recurrent_kernel):
        return run(x, kernel, recurrent_kernel, return_sequences=False).state

    print(peak_of(infer, *arguments(64)), peak_of(infer, *arguments(2048)))
"""

CELL = MEASURE + """
    B, I, H = map(int, sys.argv[2:])
    rng = np.random.default_rng(0)
    arguments = [
        tf.constant(rng.standard_normal(shape).astype(np.float32))
        for shape in [(B, I), (B, H), (I + H, 2 * H), (I + H, H), (2 * H,),
                      (H,)]]
    print(peak_of(tf.function(fused_rnn.gru_block_cell), *arguments),
          4 * B * 4 * H, 4 * B * (I + 3 * H))
"""

# Blocks of that size and more go back to the system as soon as they are free;
# with oneDNN, TensorFlow would keep them in a pool of its own.
ALLOCATOR = dict(MALLOC_MMAP_THRESHOLD_=65536, TF_ENABLE_ONEDNN_OPTS=0)
# Code paged in, stacks, and weights packed for the call (3 MB).
SLACK = 8 * 2**20


# How many sequences of units a training step holds: the reserve, which becomes
# the gate gradients in place (an LSTM's cell states beside it); of a simple RNN
# the gate gradients; outputs, and their gradient.
TRAINED = {"gru_after": 6, "gru_before": 6, "lstm": 7, "simple_rnn": 3}


@pytest.mark.parametrize("cell", TRAINED)
def test_training_takes_the_reserve_and_two_sequences(cell):
    peak, sequence = map(int, run_python(TRAIN, cell, **ALLOCATOR).split())
    sequences = TRAINED[cell]
    assert peak < sequences * sequence + SLACK, peak / sequence
    # The measurement itself sees that much.
    assert peak > (sequences - 1) * sequence, peak / sequence


@pytest.mark.parametrize("cell", TRAINED)
def test_inference_does_not_grow_with_the_steps(cell):
    few, many = map(int, run_python(INFER, cell, **ALLOCATOR).split())
    assert many < few + SLACK


def test_a_cell_takes_its_outputs_and_less_than_inputs_and_gates():
    for sizes in [(4096, 512, 512), (65536, 16, 64)]:
        peak, outputs, temporary = map(
            int, run_python(CELL, "block cell", *sizes, **ALLOCATOR).split()
        )
        assert outputs < peak < outputs + temporary + SLACK, sizes
