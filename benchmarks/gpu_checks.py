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
# What is checked -> function, gates, options.
CELLS = {
    "GRU, reset after": ("gru", 3, {"reset_after": True}),
    "GRU, reset before": ("gru", 3, {"reset_after": False}),
    "LSTM": ("lstm", 4, {}), "simple RNN": ("simple_rnn", 1, {}),
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


def check_case(place, mode, shape, cell, extras):
    """The largest error of any result, relative to that result's largest."""
    name, gates, options = CELLS[cell]
    batch, steps, inputs, units = shape
    rng = np.random.default_rng(batch + steps)

    def draw(*sizes, scale=1.0):
        return (scale * rng.standard_normal(sizes)).astype(type_of(mode))

    two = options.get("reset_after", False)
    states = {"h0": "d_state", "c0": "d_cell_state"}
    if name != "lstm":
        del states["c0"]
    values = {
        "x": draw(batch, steps, inputs),
        **{state: draw(batch, units) for state in states},
        "kernel": draw(inputs, gates * units, scale=inputs**-0.5),
        "recurrent_kernel": draw(units, gates * units, scale=units**-0.5),
        "bias": draw(*[2] * two, gates * units),
    }
    options = dict(options)
    if "mask" in extras:
        values["mask"] = rng.random((batch, steps)) < 0.7
        options.update(go_backwards=True, zero_output_for_mask=True)
    if "dropout" in extras:
        values["recurrent_dropout_mask"] = (
            (rng.random((gates, batch, units)) < 0.75) / 0.75
        ).astype(type_of(mode))
    incoming = {
        "d_outputs": draw(batch, steps, units),
        **{arriving: draw(batch, units) for arriving in states.values()},
    }
    ours = {**options, "tf32": mode == "tf32"}
    got = getattr(place, name)(**values, **ours, return_reserve=True)._asdict()
    got |= getattr(place, f"{name}_grad")(
        **values, **incoming, **ours, reserve=got.pop("reserve")
    )._asdict()
    want = _exact(name, values, incoming, options)
    errors = []
    for one, value in got.items():
        largest = max(1.0, np.max(np.abs(want[one]), initial=0.0))
        error = np.abs(value.astype(np.float64) - want[one])
        errors.append(float(np.max(error, initial=0.0) / largest))
    return np.max(errors)  # NaN if there is one


def _exact(name, values, incoming, options):
    """All results, by the float64 reference."""
    wide, d_wide = (
        {
            one: value if one == "mask" else value.astype(np.float64)
            for one, value in given.items()
        }
        for given in (values, incoming)
    )
    if name == "lstm":  # It says h and c.
        d_wide = {
            {"d_state": "d_h", "d_cell_state": "d_c"}.get(one, one): value
            for one, value in d_wide.items()
        }
    results = getattr(reference, name)(**wide, **options)
    exact = dict(zip(("outputs", "state", "cell_state"), results))
    return exact | getattr(reference, f"{name}_grad")(**wide, **d_wide, **options)


def check(place, modes=TOLERANCES):
    """Yields what was checked, each with its error and its tolerance."""
    for mode, shape, cell, extras in itertools.product(
        filter(type_of, modes), CHECKED, CELLS, EXTRAS
    ):
        result = {
            "mode": mode, "shape": shape, "cell": cell, "extras": extras,
            "tolerance": TOLERANCES[mode],
        }
        try:
            result["error"] = float(
                check_case(place, mode, shape, cell, extras)
            )
        except Exception as error:  # The others are worth a look all the same.
            result["error"] = float("inf")
            result["message"] = str(error)
        # Of NaN neither holds.
        result["ok"] = bool(result["error"] <= result["tolerance"])
        yield result
