"""What benchmarks/gpu.py times: fused_rnn and torch.nn.GRU on a GPU."""

import statistics
import time

# name -> (the type of all arrays, whether products may use TF32).
MODES = {
    "float32": ("float32", False), "tf32": ("float32", True),
    "float16": ("float16", False), "bfloat16": ("bfloat16", False),
}
# Elements of a copy, and rows of a square product, that show a GPU's limits.
COPIED, SIDE = 1 << 28, 4096


class View:
    """A tensor's address and shape, looked up once; bfloat16 as integers."""

    def __init__(self, torch, tensor):
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.view(torch.int16)
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


def usable(torch):
    """Whether the device still works; some errors stay until the process ends."""
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return True
    except RuntimeError:
        return False


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
    from fused_rnn import cuda

    kind = getattr(torch, dtype)

    def tensor(*shape, scale=1.0):
        values = torch.randn(shape, device="cuda") * scale
        return View(torch, values.to(kind))

    def result(*shape):
        return View(torch, torch.empty(shape, dtype=kind, device="cuda"))

    scale = units**-0.5
    common = {
        "x": tensor(steps, batch, units), "h0": tensor(batch, units),
        "kernel": tensor(units, 3 * units, scale=scale),
        "recurrent_kernel": tensor(units, 3 * units, scale=scale),
        "bias": tensor(2, 3 * units), "dtype": dtype, "tf32": tf32,
        "time_major": True,
    }
    outputs = result(steps, batch, units)
    forward = {**common, "outputs": outputs, "state": result(batch, units)}
    training = {**forward, "reserve": result(steps, batch, 4 * units)}
    backward = {
        **common, "outputs": outputs, "reserve": training["reserve"],
        "d_gates": result(steps, batch, 4 * units),
        "d_outputs": tensor(steps, batch, units),
        "d_x": result(steps, batch, units), "d_h0": result(batch, units),
        "d_kernel": result(units, 3 * units),
        "d_recurrent_kernel": result(units, 3 * units),
        "d_bias": result(2, 3 * units),
    }
    size = max(cuda.gru(**training), cuda.gru_grad(**backward))
    space = View(torch, torch.empty((size,), dtype=torch.uint8, device="cuda"))

    def stream():
        return torch.cuda.current_stream().cuda_stream

    def run_forward():
        cuda.gru(**forward, workspace=space, stream=stream())

    def run_both():
        cuda.gru(**training, workspace=space, stream=stream())
        cuda.gru_grad(**backward, workspace=space, stream=stream())

    return run_forward, run_both


def allow_tf32(torch, allowed):
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = allowed


def cudnn(torch, batch, units, steps, dtype, tf32):
    """The same of torch.nn.GRU."""
    allow_tf32(torch, tf32)
    kind = getattr(torch, dtype)
    layer = torch.nn.GRU(units, units).to("cuda", kind)
    # One that keeps nothing for a gradient.
    inference = torch.nn.GRU(units, units).to("cuda", kind).eval()
    x = torch.randn((steps, batch, units), device="cuda").to(kind)
    h0 = torch.randn((1, batch, units), device="cuda").to(kind)
    d_outputs = torch.randn((steps, batch, units), device="cuda").to(kind)
    wanted = [x.requires_grad_(), h0.requires_grad_(), *layer.parameters()]

    def run_forward():
        with torch.no_grad():
            inference(x, h0)

    def run_both():
        torch.autograd.grad(layer(x, h0)[0], wanted, d_outputs)

    return run_forward, run_both


def captured(torch, call):
    """The call as a CUDA graph, to be replayed."""
    # Not torch.cuda.graph(), which collects garbage each time.
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        graph.capture_begin()
        try:
            call()
        finally:
            graph.capture_end()
    return graph.replay


def limits(torch):
    """What this GPU reaches: bytes a second of a copy, FLOP/s of products."""
    source = torch.empty((COPIED,), dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    copy = median_time(torch, lambda: target.copy_(source), 0.2)
    found = {"bandwidth": 2 * source.nbytes / copy}
    for mode, (dtype, tf32) in MODES.items():
        allow_tf32(torch, tf32)
        a = torch.randn((SIDE, SIDE), device="cuda").to(getattr(torch, dtype))
        spent = median_time(torch, lambda a=a: a @ a, 0.2)
        found[mode] = 2 * SIDE**3 / spent
    return found


def measure_shape(torch, mode, batch, units, steps, *, limits, seconds):
    """Two rows: the times of a forward pass and of one with its gradient."""
    dtype, tf32 = MODES[mode]
    errors, calls = {}, {}

    def attempt(name, function, *arguments):
        try:
            return function(*arguments)
        except Exception as error:  # Out of memory, not supported, ...
            errors[name] = str(error).strip().splitlines()[0]
            return None

    for name, make in (("fused_rnn", ours), ("cudnn", cudnn)):
        calls[name] = attempt(
            name, make, torch, batch, units, steps, dtype, tf32
        )
    size = torch.empty((1,), dtype=getattr(torch, dtype)).element_size()
    # Weights, inputs and outputs, each once.
    least = size * (6 * units**2 + 2 * steps * batch * units)
    for index, (direction, times) in enumerate(
        (("forward", 1), ("forward+backward", 3))
    ):
        row = {
            "direction": direction, "mode": mode, "batch": batch,
            "units": units, "steps": steps, "errors": errors,
        }
        for name in ("fused_rnn", "cudnn"):
            if calls[name] and name not in errors:
                row[name] = attempt(
                    name, median_time, torch, calls[name][index], seconds
                )
        if row.get("fused_rnn"):
            replay = attempt("graph", captured, torch, calls["fused_rnn"][index])
            if replay:
                row["graph"] = attempt(
                    "graph", median_time, torch, replay, seconds
                )
            row["flop/s"] = times * 12 * steps * batch * units**2
            row["flop/s"] /= row["fused_rnn"]
            row["bytes/s"] = times * least / row["fused_rnn"]
            row["of flop/s"] = row["flop/s"] / limits[mode]
            row["of bytes/s"] = row["bytes/s"] / limits["bandwidth"]
        yield row
        errors = {}
