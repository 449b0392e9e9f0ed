"""The CUDA kernels on this machine's GPU: checked, then timed beside cuDNN.

    python benchmarks/gpu.py --json gpu.json

needs torch with CUDA, which holds the memory, brings cuBLAS and cuDNN, and
times; no TensorFlow. First every kernel is compared with the float64 reference,
then forward and forward+backward are timed beside torch.nn.GRU. "graph" is the
same call replayed from a CUDA graph, which takes the host out of the time.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time

os.environ.setdefault("FUSED_RNN_NO_TENSORFLOW", "1")

import numpy as np  # noqa: E402
from device import Place, Torch  # noqa: E402

from fused_rnn import cuda, reference  # noqa: E402

BATCHES, UNITS, STEPS = (1, 16, 32, 64, 128), (128, 256, 512, 1024), (1, 50, 1000)
# name -> (NumPy's or torch's type, whether products may use TF32).
MODES = {
    "float32": ("float32", False), "tf32": ("float32", True),
    "float16": ("float16", False), "bfloat16": ("bfloat16", False),
}
# (B, T, I, H): one of everything, odd sizes, whole tiles, one step.
CHECKED = ((1, 1, 1, 1), (3, 5, 7, 17), (16, 9, 32, 64), (33, 1, 24, 40))
# Of the largest value. A hundred roundings, as sums of up to 100 products make;
# in the half types, which are summed in float32, four of what is stored: a
# gradient is made of outputs, gates and gate gradients that were.
TOLERANCES = {
    "float64": 100 * 2.0**-53, "float32": 100 * 2.0**-24,
    "float16": 4 * 2.0**-11, "bfloat16": 4 * 2.0**-8,
}


# ---- Checks.


def check_case(place, dtype, shape, *, reset_after, extras):
    """The largest error of any result, relative to that result's largest."""
    batch, steps, inputs, units = shape
    rng = np.random.default_rng(batch + steps)

    def draw(*sizes, scale=1.0):
        return (scale * rng.standard_normal(sizes)).astype(dtype)

    bias = (2, 3 * units) if reset_after else (3 * units,)
    values = {
        "x": draw(batch, steps, inputs), "h0": draw(batch, units),
        "kernel": draw(inputs, 3 * units, scale=inputs**-0.5),
        "recurrent_kernel": draw(units, 3 * units, scale=units**-0.5),
        "bias": draw(*bias),
    }
    if extras:
        values["mask"] = rng.random((batch, steps)) < 0.7
        values["recurrent_dropout_mask"] = (
            (rng.random((3, batch, units)) < 0.75) / 0.75
        ).astype(dtype)
    incoming = {
        "d_outputs": draw(batch, steps, units), "d_state": draw(batch, units)
    }
    options = {"reset_after": reset_after}
    if extras:
        options.update(go_backwards=True, zero_output_for_mask=True)
    outputs, state, reserve = place.gru(**values, **options, return_reserve=True)
    got = {"outputs": outputs, "state": state}
    got |= place.gru_grad(
        **values, **incoming, **options, reserve=reserve
    )._asdict()
    wide = {
        name: value if name == "mask" else value.astype(np.float64)
        for name, value in {**values, **incoming}.items()
    }
    d_wide = {name: wide.pop(name) for name in incoming}
    want = dict(zip(("outputs", "state"), reference.gru(**wide, **options)))
    want |= reference.gru_grad(**wide, **d_wide, **options)
    errors = {}
    for name, value in got.items():
        largest = max(1.0, np.max(np.abs(want[name]), initial=0.0))
        error = np.abs(value.astype(np.float64) - want[name])
        errors[name] = float(np.max(error, initial=0.0) / largest)
    return max(errors.values())


def check(place, dtypes=TOLERANCES):
    """A list of what was checked, each with its error and its tolerance."""
    results = []
    for dtype, shape, reset_after, extras in itertools.product(
        dtypes, CHECKED, (True, False), (False, True)
    ):
        if dtype == "bfloat16":
            import ml_dtypes

            kind = ml_dtypes.bfloat16
        else:
            kind = np.dtype(dtype)
        error = check_case(
            place, kind, shape, reset_after=reset_after, extras=extras
        )
        results.append({
            "dtype": dtype, "shape": shape, "reset_after": reset_after,
            "extras": extras, "error": error, "tolerance": TOLERANCES[dtype],
            "ok": bool(error <= TOLERANCES[dtype]),
        })
    return results


# ---- Times.


class View:
    """A tensor's address and shape, looked up once; bfloat16 as integers."""

    def __init__(self, torch, tensor):
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.view(torch.int16)
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


def median_time(torch, call, seconds):
    """Seconds of a call, by CUDA events around each."""
    call()
    torch.cuda.synchronize()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or (len(times) < 100 and time.perf_counter() < end):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) * 1e-3)
    return statistics.median(times)


def ours(torch, batch, units, steps, dtype, tf32):
    """(forward, forward and backward) of fused_rnn on time-major tensors."""
    kind = getattr(torch, dtype)

    def tensor(*shape, scale=1.0):
        values = torch.randn(shape, device="cuda") * scale
        return View(torch, values.to(kind))

    scale = units**-0.5
    common = {
        "x": tensor(steps, batch, units), "h0": tensor(batch, units),
        "kernel": tensor(units, 3 * units, scale=scale),
        "recurrent_kernel": tensor(units, 3 * units, scale=scale),
        "bias": tensor(2, 3 * units), "dtype": dtype, "tf32": tf32,
        "time_major": True,
    }
    outputs = tensor(steps, batch, units)
    forward = {**common, "outputs": outputs, "state": tensor(batch, units)}
    training = {**forward, "reserve": tensor(steps, batch, 4 * units)}
    backward = {
        **common, "outputs": outputs, "reserve": training["reserve"],
        "d_gates": tensor(steps, batch, 4 * units),
        "d_outputs": tensor(steps, batch, units),
        "d_x": tensor(steps, batch, units), "d_h0": tensor(batch, units),
        "d_kernel": tensor(units, 3 * units),
        "d_recurrent_kernel": tensor(units, 3 * units),
        "d_bias": tensor(2, 3 * units),
    }
    size = max(cuda.gru(**training), cuda.gru_grad(**backward))
    space = View(torch, torch.empty(size, dtype=torch.uint8, device="cuda"))

    def stream():
        return torch.cuda.current_stream().cuda_stream

    def run_forward():
        cuda.gru(**forward, workspace=space, stream=stream())

    def run_both():
        cuda.gru(**training, workspace=space, stream=stream())
        cuda.gru_grad(**backward, workspace=space, stream=stream())

    return run_forward, run_both


def cudnn(torch, batch, units, steps, dtype, tf32):
    """The same of torch.nn.GRU."""
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    kind = getattr(torch, dtype)
    layer = torch.nn.GRU(units, units).to("cuda", kind)
    x = torch.randn((steps, batch, units), device="cuda").to(kind)
    x.requires_grad_()
    d_outputs = torch.randn_like(x)

    def run_forward():
        with torch.no_grad():
            layer(x)

    def run_both():
        layer(x)[0].backward(d_outputs)

    return run_forward, run_both


def captured(torch, call):
    """The call as a CUDA graph."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def limits(torch):
    """What this GPU reaches: bytes a second of a copy, FLOP/s of products."""
    source = torch.empty(1 << 28, device="cuda")
    target = torch.empty_like(source)
    copy = median_time(torch, lambda: target.copy_(source), 0.2)
    found = {"bandwidth": 2 * source.nbytes / copy}
    for mode, (dtype, tf32) in MODES.items():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        n = 4096
        a = torch.randn((n, n), device="cuda").to(getattr(torch, dtype))
        found[mode] = 2 * n**3 / median_time(torch, lambda a=a: a @ a, 0.2)
    return found


def measure(torch, seconds, log):
    """A list of times; `seconds` for each of them."""
    rows = []
    for steps, units, batch, mode in itertools.product(
        STEPS, UNITS, BATCHES, MODES
    ):
        dtype, tf32 = MODES[mode]
        size = torch.empty((), dtype=getattr(torch, dtype)).element_size()
        mine = ours(torch, batch, units, steps, dtype, tf32)
        theirs = cudnn(torch, batch, units, steps, dtype, tf32)
        # Weights, inputs and outputs, each once.
        least = size * (6 * units**2 + 2 * steps * batch * units)
        for direction, times in (("forward", 1), ("forward+backward", 3)):
            index = 0 if times == 1 else 1
            row = {
                "direction": direction, "mode": mode, "batch": batch,
                "units": units, "steps": steps,
                "fused_rnn": median_time(torch, mine[index], seconds),
                "graph": median_time(
                    torch, captured(torch, mine[index]), seconds
                ),
                "cudnn": median_time(torch, theirs[index], seconds),
            }
            flop = times * 12 * steps * batch * units**2
            row["flop/s"] = flop / row["fused_rnn"]
            row["bytes/s"] = times * least / row["fused_rnn"]
            rows.append(row)
            log(row)
    return rows


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="results are put there")
    # 480 rows of three times each, of 0.03 s or three calls: two to three
    # minutes.
    parser.add_argument("--seconds", type=float, default=0.03,
                        help="of each measurement, at least three calls")
    options = parser.parse_args(arguments)
    import torch

    if not torch.cuda.is_available() or not cuda.available():
        print(f"no GPU kernels can run: {cuda.describe()}", file=sys.stderr)
        return 1
    torch.zeros(1, device="cuda") @ torch.zeros(1, device="cuda")  # cuBLAS
    record = {"machine": cuda.describe(), "torch": torch.__version__}
    print(record["machine"])
    record["checks"] = check(Place(Torch()))
    wrong = [one for one in record["checks"] if not one["ok"]]
    print(f"{len(record['checks'])} checks, {len(wrong)} failed", *wrong,
          sep="\n")
    record["limits"] = limits(torch)
    print({name: f"{value:.3g}" for name, value in record["limits"].items()})
    print(f"{'':34}{'fused_rnn':>10}{'graph':>10}{'cuDNN':>10}{'ratio':>7}"
          f"{'TFLOP/s':>9}{'GB/s':>7}")

    def log(row):
        shape = f"T{row['steps']} H{row['units']} B{row['batch']}"
        times = "".join(
            f"{row[name] * 1e6:9.0f}u" for name in ("fused_rnn", "graph", "cudnn")
        )
        direction = "both" if "+" in row["direction"] else "forward"
        print(f"{direction:9}{row['mode']:9}{shape:16}{times}"
              f"{row['cudnn'] / row['fused_rnn']:7.2f}"
              f"{row['flop/s'] / 1e12:9.1f}{row['bytes/s'] / 1e9:7.0f}",
              flush=True)

    record["times"] = measure(torch, options.seconds, log)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
