"""What benchmarks/gpu.py checks: the kernels against the float64 reference."""

import importlib.util
import itertools

import numpy as np

from fused_rnn import reference

# (B, T, I, H): one of everything, odd sizes, whole tiles, one step, several
# blocks each way.
CHECKED = (
    (1, 1, 1, 1), (3, 5, 7, 17), (16, 9, 32, 64), (33, 1, 24, 40),
    (40, 6, 96, 128),
)
# Of the largest value. A hundred roundings, as sums of up to a few hundred
# products make; where factors or what is stored is rounded to less, four of
# those: a gradient is made of outputs, gates and gate gradients that were.
TOLERANCES = {
    "float64": 100 * 2.0**-53, "float32": 100 * 2.0**-24, "tf32": 4 * 2.0**-11,
    "float16": 4 * 2.0**-11, "bfloat16": 4 * 2.0**-8,
}
# Kernels of one launch take a mask, but no recurrent dropout.
EXTRAS = ("plain", "mask", "mask and dropout")


def type_of(mode):
    """NumPy's type; None where NumPy has no such type here."""
    if mode == "bfloat16":
        if not importlib.util.find_spec("ml_dtypes"):
            return None
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype("float32" if mode == "tf32" else mode)


def check_case(place, mode, shape, *, reset_after, extras):
    """The largest error of any result, relative to that result's largest."""
    batch, steps, inputs, units = shape
    rng = np.random.default_rng(batch + steps)

    def draw(*sizes, scale=1.0):
        return (scale * rng.standard_normal(sizes)).astype(type_of(mode))

    bias = (2, 3 * units) if reset_after else (3 * units,)
    values = {
        "x": draw(batch, steps, inputs), "h0": draw(batch, units),
        "kernel": draw(inputs, 3 * units, scale=inputs**-0.5),
        "recurrent_kernel": draw(units, 3 * units, scale=units**-0.5),
        "bias": draw(*bias),
    }
    options = {"reset_after": reset_after}
    if "mask" in extras:
        values["mask"] = rng.random((batch, steps)) < 0.7
        options.update(go_backwards=True, zero_output_for_mask=True)
    if "dropout" in extras:
        values["recurrent_dropout_mask"] = (
            (rng.random((3, batch, units)) < 0.75) / 0.75
        ).astype(type_of(mode))
    incoming = {
        "d_outputs": draw(batch, steps, units), "d_state": draw(batch, units)
    }
    ours = {**options, "tf32": mode == "tf32"}
    outputs, state, reserve = place.gru(**values, **ours, return_reserve=True)
    got = {"outputs": outputs, "state": state}
    got |= place.gru_grad(
        **values, **incoming, **ours, reserve=reserve
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


def check(place, modes=TOLERANCES):
    """Yields what was checked, each with its error and its tolerance."""
    for mode, shape, reset_after, extras in itertools.product(
        filter(type_of, modes), CHECKED, (True, False), EXTRAS
    ):
        result = {
            "mode": mode, "shape": shape, "reset_after": reset_after,
            "extras": extras, "tolerance": TOLERANCES[mode],
        }
        try:
            result["error"] = check_case(
                place, mode, shape, reset_after=reset_after, extras=extras
            )
        except Exception as error:  # The others are worth a look all the same.
            result["error"] = float("inf")
            result["message"] = str(error)
        # Of NaN neither holds.
        result["ok"] = bool(result["error"] <= result["tolerance"])
        yield result
