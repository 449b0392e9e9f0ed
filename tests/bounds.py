"""Tolerances for the kernels' values, by probabilistic error analysis."""

import numpy as np

# Half of the distance from 1 to the next number: what one rounding errs by.
_UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
# Half of the smallest subnormal: what rounding errs by near zero.
_UNDERFLOW = {
    "float64": 2.0**-1075,
    "float32": 2.0**-150,
    "float16": 2.0**-25,
    "bfloat16": 2.0**-134,
}
# How many times its spread an error may be. Of errors like a normal
# distribution's one in 10^15 is larger.
_SPREADS = 8.0
# A rounding that is off by at most 1 is off by 1/sqrt(3) in the mean square.
_MEAN = 3.0**-0.5
# What a kernel's sigmoid and tanh err by, in roundings.
_FUNCTION_ROUNDINGS = 4.0


def unit_roundoff(dtype) -> float:
    return _UNIT_ROUNDOFF[str(dtype)]


def _compute(dtype) -> str:
    """The type that values stored as dtype are computed in."""
    return "float64" if dtype.name == "float64" else "float32"


class Bounded:
    """A value in float64 and how far a kernel's value may be from it.

    Each operation passes on the spread of its operands, to first order, and
    adds that of its own rounding, as if all errors were independent (Higham
    and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019: n
    roundings err like sqrt(n), not like n). So formulas written with these
    objects yield their own tolerance: norms times roundoff, with the constants
    that the formula has. The worst case would double at each step of a
    sequence and soon allow everything.
    """

    # NumPy's operators leave mixed expressions to the methods below.
    __array_ufunc__ = None

    def __init__(self, value, dtype, spread=0.0):
        self.value = np.asarray(value, np.float64)
        self.spread = np.broadcast_to(
            np.asarray(spread, np.float64), self.value.shape
        )
        self.dtype = np.dtype(dtype)
        self.roundoff = _UNIT_ROUNDOFF[_compute(self.dtype)] * _MEAN

    def _result(self, value, *spreads):
        rounding = self.roundoff * np.abs(value)
        squares = sum(np.square(spread) for spread in (rounding, *spreads))
        return Bounded(value, self.dtype, np.sqrt(squares))

    def _of(self, other):
        if isinstance(other, Bounded):
            return other
        return Bounded(other, self.dtype)

    def __add__(self, other):
        other = self._of(other)
        return self._result(self.value + other.value, self.spread, other.spread)

    __radd__ = __add__

    def __neg__(self):
        return Bounded(-self.value, self.dtype, self.spread)

    def __sub__(self, other):
        return self + -self._of(other)

    def __rsub__(self, other):
        return self._of(other) + -self

    def __mul__(self, other):
        other = self._of(other)
        return self._result(
            self.value * other.value, self.spread * other.value,
            self.value * other.spread,
        )

    __rmul__ = __mul__

    def __matmul__(self, other):
        other = self._of(other)
        # Each partial sum is rounded; none is larger than |a|·|b|.
        terms = self.value.shape[-1]
        sums = np.abs(self.value) @ np.abs(other.value)
        squares = (
            np.square(self.spread) @ np.square(other.value)
            + np.square(self.value) @ np.square(other.spread)
            + terms * np.square(self.roundoff * sums)
        )
        return Bounded(
            self.value @ other.value, self.dtype, np.sqrt(squares)
        )

    def __getitem__(self, index):
        return Bounded(self.value[index], self.dtype, self.spread[index])

    @property
    def T(self):
        return Bounded(self.value.T, self.dtype, self.spread.T)

    def sum(self):
        """Over the first axis."""
        ones = Bounded(np.ones((1, len(self.value))), self.dtype)
        return (ones @ self)[0]

    def sigmoid(self):
        value = 1.0 / (1.0 + np.exp(-self.value))
        return self._function(value, value * (1.0 - value))

    def tanh(self):
        value = np.tanh(self.value)
        return self._function(value, 1.0 - value * value)

    def _function(self, value, slope):
        return self._result(
            value, slope * self.spread,
            _FUNCTION_ROUNDINGS * self.roundoff * value,
        )

    def stored(self):
        """Rounded to the element type that the kernel stores."""
        name = self.dtype.name
        if name == _compute(self.dtype):
            return self
        rounding = _MEAN * (
            _UNIT_ROUNDOFF[name] * np.abs(self.value) + _UNDERFLOW[name]
        )
        return Bounded(
            self.value, self.dtype, np.hypot(self.spread, rounding)
        )

    @property
    def tolerance(self):
        """What each element may differ by; in float64 at most 1e-12 of the
        largest value, or of 1."""
        tolerance = _SPREADS * self.spread + _UNDERFLOW[self.dtype.name]
        if self.dtype == np.float64:
            largest = np.max(np.abs(self.value), initial=1.0)
            tolerance = np.minimum(tolerance, 1e-12 * largest)
        return tolerance

    def check(self, actual, expected, what=""):
        """Asserts that a kernel's values are near enough to the oracle's."""
        actual = np.asarray(actual)
        assert actual.shape == self.value.shape == expected.shape, what
        assert actual.dtype == self.dtype, what
        difference = np.abs(actual.astype(np.float64) - expected)
        outside = ~(difference <= self.tolerance)
        if outside.any():
            worst = np.unravel_index(
                np.argmax(np.where(outside, difference, 0.0)), difference.shape
            )
            raise AssertionError(
                f"{what}: {outside.sum()} of {outside.size} values differ by"
                f" more than they may; at {worst} {actual[worst]!r} instead of"
                f" {expected[worst]!r} +- {self.tolerance[worst]:.3g}"
            )


def concatenate(parts, axis=-1) -> Bounded:
    return Bounded(
        np.concatenate([part.value for part in parts], axis),
        parts[0].dtype,
        np.concatenate([part.spread for part in parts], axis),
    )


def stack(parts, axis=0) -> Bounded:
    return Bounded(
        np.stack([part.value for part in parts], axis), parts[0].dtype,
        np.stack([part.spread for part in parts], axis),
    )


def bounded_cell(dtype, x, h_prev, w_ru, w_c, b_ru, b_c):
    """r, u, c, h of the block cell, each with its bound."""
    x, h_prev, w_ru, w_c, b_ru, b_c = (
        Bounded(a, dtype) for a in (x, h_prev, w_ru, w_c, b_ru, b_c)
    )
    units = h_prev.value.shape[1]
    gates = (concatenate([x, h_prev]) @ w_ru + b_ru).sigmoid()
    r, u = gates[:, :units], gates[:, units:]
    c = (concatenate([x, r * h_prev]) @ w_c + b_c).tanh()
    h = u * h_prev + (1.0 - u) * c
    return r.stored(), u.stored(), c.stored(), h.stored()


def bounded_cell_grad(
    dtype, x, h_prev, w_ru, w_c, b_ru, b_c, d_r, d_u, d_c, d_h
):
    """The gradients that ``reference.gru_block_cell_grad`` names, bounded."""
    r, u, c, _ = bounded_cell(dtype, x, h_prev, w_ru, w_c, b_ru, b_c)
    x, h_prev, w_ru, w_c, d_r, d_u, d_c, d_h = (
        Bounded(a, dtype) for a in (x, h_prev, w_ru, w_c, d_r, d_u, d_c, d_h)
    )
    inputs = x.value.shape[1]
    u_bar = ((d_u + d_h * (h_prev - c)) * u * (1.0 - u)).stored()
    c_bar = ((d_c + d_h * (1.0 - u)) * (1.0 - c * c)).stored()
    d_x_hr = c_bar @ w_c.T
    d_hr = d_x_hr[:, inputs:]
    r_bar = ((d_r + d_hr * h_prev) * r * (1.0 - r)).stored()
    gates = concatenate([r_bar, u_bar])
    d_x_h = gates @ w_ru.T
    x_hr = concatenate([x, (h_prev * r).stored()])
    result = {
        "x": d_x_h[:, :inputs] + d_x_hr[:, :inputs],
        "h_prev": d_x_h[:, inputs:] + d_hr * r + d_h * u,
        "w_ru": concatenate([x, h_prev]).T @ gates,
        "w_c": x_hr.T @ c_bar,
        "b_ru": gates.sum(),
        "b_c": c_bar.sum(),
        "c_bar": c_bar,
        "r_bar_u_bar": gates,
    }
    return {name: value.stored() for name, value in result.items()}
