"""The arrays that every worker computes from, and what must come out."""

import json
import pathlib
import sys

import numpy as np

from fused_rnn.bench import harness, processes, worker
from fused_rnn.bench.worker import element_type, storage

# The distance of 1 from the next number.
EPSILONS = {
    "float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}

# (B, T, I, H), from serving one row to training at the processor's limit.
SHAPES = (
    (1, 1, 128, 256),
    (256, 1, 128, 256),
    (1, 100, 40, 128),
    (16, 100, 128, 256),
    (32, 100, 256, 256),
    (1, 100, 256, 512),
    (32, 1000, 64, 64),
    (1, 50, 1024, 1024),
    (64, 50, 512, 512),
    (128, 25, 1024, 1024),
)
# What a cell's results may mean: of a GRU where the reset gate acts.
CONVENTIONS = {"gru": ("after", "before"), "lstm": ("lstm",), "rnn": ("rnn",)}
GATES = {"gru": 3, "lstm": 4, "rnn": 1}
MODES = ("inference", "training")


def parse_shape(text):
    """"32,100,256,256" -> (32, 100, 256, 256).

    Raises:
      ValueError: it is not four positive numbers.
    """
    try:
        sizes = tuple(int(size) for size in text.replace("x", ",").split(","))
    except ValueError:
        sizes = ()
    if len(sizes) != 4 or min(sizes) < 1:
        raise ValueError(
            f"a shape is B,T,I,H, four positive numbers, got {text!r}"
        )
    return sizes


class SequenceCase:
    """A cell over a sequence: arrays in a folder, results of the oracle.

    Values are such that the element type holds them exactly, and stored as
    storage() says. The recurrent weights halve the state's length in the mean,
    so that an early error fades instead of growing: a difference in the results
    is then one of meaning, not of rounding.
    """

    def __init__(self, folder, shape, *, cell="gru", valid_steps=None,
                 dtype="float32"):
        self.folder = pathlib.Path(folder)
        self.shape = batch, steps, inputs, units = shape
        self.cell = cell
        self.dtype = dtype
        columns = GATES[cell] * units
        rng = np.random.default_rng(sum(shape))

        def draw(*sizes, scale=1.0):
            values = scale * rng.standard_normal(sizes)
            return values.astype(element_type(dtype)).astype(storage(dtype))

        self.arrays = {
            "x": draw(batch, steps, inputs),
            "h0": draw(batch, units),
            "kernel": draw(inputs, columns, scale=inputs**-0.5),
            "recurrent_kernel": draw(units, columns, scale=0.5 * units**-0.5),
            **{f"bias_{convention}": draw(
                *((2, columns) if convention == "after" else (columns,))
            ) for convention in CONVENTIONS[cell]},
            "d_outputs": draw(batch, steps, units),
        }
        if cell == "lstm":
            self.arrays["c0"] = draw(batch, units)
        if valid_steps is not None:
            mask = np.zeros((batch, steps), bool)
            mask[:, :valid_steps] = True
            self.arrays["mask"] = mask
        write(self.folder, self.arrays)
        self._expected = {}

    def words(self, mode, convention):
        """Of the request "prepare", after its key, folder and results."""
        return (mode, convention, self.dtype, self.cell, *self.shape)

    def expected(self, mode, convention):
        """The oracle's results by name."""
        key = mode, convention
        if key not in self._expected:
            self._expected[key] = ask_oracle(
                self.folder, self.words(mode, convention)
            )
        return self._expected[key]

    def tolerance(self):
        """Of the error's norm, relative to the result's.

        Rounding errors of a sum grow like the root of its length when their
        signs are random; the longest sum is a row of inputs or, in a weight's
        gradient, all rows and steps. 16 covers the roundings of a step (gates,
        their activations in another library, the state) and their decay. Half
        types are stored so, and summed in float32.
        """
        batch, steps, inputs, units = self.shape
        longest = max(inputs + units, batch * steps)
        stored = EPSILONS[self.dtype]
        summed = min(stored, EPSILONS["float32"])
        return 16 * max(stored, summed * longest**0.5)


class CellCase:
    """One step of the block cell; (B, I, H)."""

    dtype = "float32"

    def __init__(self, folder, shape):
        self.folder = pathlib.Path(folder)
        self.shape = batch, inputs, units = shape
        rng = np.random.default_rng(sum(shape))
        rows = inputs + units

        def draw(*sizes, scale=1.0):
            return (scale * rng.standard_normal(sizes)).astype(np.float32)

        self.arrays = {
            "x": draw(batch, inputs),
            "h_prev": draw(batch, units),
            "w_ru": draw(rows, 2 * units, scale=rows**-0.5),
            "w_c": draw(rows, units, scale=rows**-0.5),
            "b_ru": draw(2 * units),
            "b_c": draw(units),
            "d_h": draw(batch, units),
        }
        write(self.folder, self.arrays)

    def words(self, mode, convention):
        batch, inputs, units = self.shape
        return (mode, convention, self.dtype, "gru", batch, 1, inputs, units)

    def expected(self, mode, convention):
        return ask_oracle(self.folder, self.words(mode, convention))

    def tolerance(self):
        """As for a sequence."""
        batch, inputs, units = self.shape
        return 16 * EPSILONS[self.dtype] * max(inputs + units, batch) ** 0.5


def write(folder, arrays):
    """Writes arrays for workers in any language: bytes, and their shapes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        array.tofile(folder / f"{name}.bin")
    shapes = {name: array.shape for name, array in arrays.items()}
    (folder / "shapes.json").write_text(json.dumps(shapes))


def ask_oracle(folder, words):
    """Results of fused_rnn.reference for the arrays of a folder, by name.

    In a process of its own: with more than one thread, NumPy's products wait
    for each other far longer than they compute when the machine is busy.
    """
    try:
        processes.call(
            [sys.executable, "-m", __name__, folder, *words]
        )
    except processes.WorkerFailed as failure:
        raise processes.WorkerFailed(f"not checked, the reference {failure}")
    with np.load(folder / "expected.npz") as results:
        return dict(results)


def _answer(folder, *words):
    """What the oracle's process does."""
    from fused_rnn import reference

    *about, batch, steps, inputs, units = words
    case = worker.Case(
        folder, *about, int(batch), int(steps), int(inputs), int(units)
    )
    if case.has("w_ru"):
        results = _chain(
            case, worker.CHAIN if case.mode.startswith("chained") else 1
        )
    else:
        arguments = case.arguments()
        mask = case.mask if case.has("mask") else None
        outputs, *states = case.function(reference)(*arguments, mask=mask)
        gradients = case.training and case.function(reference, "_grad")(
            *arguments, mask=mask, d_outputs=case.d_outputs
        )
        results = case.named(
            outputs, states,
            [gradients[name] for name in case.names] if gradients else (),
        )
    np.savez(case.folder / "expected.npz", **results)


def _chain(case, steps):
    """What so many steps of the block cell give, and their gradients' sums."""
    from fused_rnn import reference

    x, d_h = case.x, case.d_h
    weights = (case.w_ru, case.w_c, case.b_ru, case.b_c)
    states = [case.h_prev]
    for _ in range(steps):
        cell = reference.gru_block_cell(x, states[-1], *weights)
        states.append(cell.h)
    if not case.training:
        return cell._asdict()
    sums = {}
    for h in states[-2::-1]:
        gradients = reference.gru_block_cell_grad(
            x, h, *weights, d_r=0, d_u=0, d_c=0, d_h=d_h
        )
        d_h = gradients["h_prev"]
        for name in ("x", "w_ru", "w_c", "b_ru", "b_c"):
            sums[name] = sums.get(name, 0) + gradients[name]
    sums["h_prev"] = d_h
    return cell._asdict() | {f"d_{name}": sums[name] for name in sums}


def results(out, expected, dtype):
    """The results that a worker left, in the shapes of the expected ones.

    Raises:
      ValueError: a result is missing or has another size.
    """
    found = {}
    for name, want in expected.items():
        path = pathlib.Path(out) / f"{name}.bin"
        if not path.exists():
            raise ValueError(f"{name} is missing")
        got = np.fromfile(path, storage(dtype))
        if got.size != want.size:
            raise ValueError(f"{name} has {got.size} values, not {want.size}")
        found[name] = got.astype(np.float64).reshape(want.shape)
    return found


def relative_error(found, expected):
    """The largest among the results, of the norm."""
    worst = 0.0
    for name, want in expected.items():
        norm = np.linalg.norm(want)
        error = np.linalg.norm(found[name] - want)
        worst = max(worst, float(error / (norm if norm else 1.0)))
    # Not a number is no small error.
    return worst if np.isfinite(worst) else float("inf")


def errors_in_ulp(found, expected, dtype):
    """Largest and mean error of outputs and of gradients.

    In units in the last place of the exact result, and at least of its array's
    root mean square: a sum whose terms cancel is small, its error is not.

    Returns:
      {"forward": {"max", "mean"}}, and "gradients" if there are any.
    """
    errors = {}
    for name, want in expected.items():
        floor = np.sqrt(np.mean(np.square(want))) if want.size else 0.0
        _, exponent = np.frexp(np.maximum(np.abs(want), floor))
        unit = np.ldexp(EPSILONS[dtype], exponent - 1)
        kind = "gradients" if name.startswith("d_") else "forward"
        errors.setdefault(kind, []).append(
            (np.abs(found[name] - want) / unit).ravel()
        )
    joined = {kind: np.concatenate(parts) for kind, parts in errors.items()}
    return {
        kind: {"max": harness.significant(float(values.max()), 3),
               "mean": harness.significant(float(values.mean()), 3)}
        for kind, values in joined.items() if values.size
    }


if __name__ == "__main__":
    _answer(*sys.argv[1:])
