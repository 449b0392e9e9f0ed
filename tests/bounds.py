"""Error bounds of the kernels' values, by running error analysis."""

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
    "float64": 0.0,
    "float32": 2.0**-150,
    "float16": 2.0**-25,
    "bfloat16": 2.0**-134,
}


def unit_roundoff(dtype) -> float:
    return _UNIT_ROUNDOFF[np.dtype(dtype).name]


def as_compute(dtype) -> str:
    """The type that values stored as dtype are computed in."""
    name = np.dtype(dtype).name
    return "float64" if name == "float64" else "float32"


class Bounded:
    """A value in float64 with a bound on what a kernel's value may differ.

    Running error analysis (Higham, Accuracy and Stability of Numerical
    Algorithms, 3.3): each operation passes on the errors of its operands, to
    first order, and adds its own rounding; a product of matrices adds that of
    as many terms as it sums. Formulas written with these objects yield their
    own tolerance.
    """

    # NumPy's operators leave mixed expressions to the methods below.
    __array_ufunc__ = None

    def __init__(self, value, dtype, error=0.0):
        self.value = np.asarray(value, np.float64)
        self.error = np.broadcast_to(
            np.asarray(error, np.float64), self.value.shape
        )
        self.dtype = np.dtype(dtype)

    def _result(self, value, error, roundings=1):
        eps = _UNIT_ROUNDOFF[as_compute(self.dtype)]
        return Bounded(
            value, self.dtype, error + roundings * eps * np.abs(value)
        )

    def _of(self, other):
        return other if isinstance(other, Bounded) else Bounded(other, self.dtype)

    def __add__(self, other):
        other = self._of(other)
        return self._result(
            self.value + other.value, self.error + other.error
        )

    __radd__ = __add__

    def __neg__(self):
        return Bounded(-self.value, self.dtype, self.error)

    def __sub__(self, other):
        return self + -self._of(other)

    def __rsub__(self, other):
        return self._of(other) + -self

    def __mul__(self, other):
        other = self._of(other)
        error = (
            self.error * np.abs(other.value)
            + other.error * np.abs(self.value)
            + self.error * other.error
        )
        return self._result(self.value * other.value, error)

    __rmul__ = __mul__

    def __matmul__(self, other):
        other = self._of(other)
        a, b = np.abs(self.value), np.abs(other.value)
        eps = _UNIT_ROUNDOFF[as_compute(self.dtype)]
        terms = self.value.shape[-1]
        error = (
            self.error @ (b + other.error)
            + a @ other.error
            + terms * eps * (a @ b)
        )
        return Bounded(self.value @ other.value, self.dtype, error)

    def __getitem__(self, index):
        return Bounded(self.value[index], self.dtype, self.error[index])

    @property
    def T(self):
        return Bounded(self.value.T, self.dtype, self.error.T)

    def sum(self):
        """Over the first axis."""
        ones = Bounded(np.ones((1, len(self.value))), self.dtype)
        return (ones @ self)[0]

    def map(self, function, slope, roundings=4):
        """A function whose derivative is at most slope in magnitude."""
        return self._result(
            function(self.value), slope * self.error, roundings
        )

    def stored(self):
        """Rounded to the element type that the kernel stores."""
        name = self.dtype.name
        if name == as_compute(self.dtype):
            return self
        error = (
            self.error
            + _UNIT_ROUNDOFF[name] * (np.abs(self.value) + self.error)
            + _UNDERFLOW[name]
        )
        return Bounded(self.value, self.dtype, error)

    def check(self, actual, expected, what=""):
        """Asserts that a kernel's values lie within the bound of the oracle's.

        In float64 they also lie within 1e-12 of the largest value, or of 1.
        """
        actual = np.asarray(actual)
        assert actual.shape == self.value.shape == expected.shape, what
        assert actual.dtype == self.dtype, what
        error = self.error
        if self.dtype == np.float64:
            largest = np.max(np.abs(expected), initial=1.0)
            error = np.minimum(error, 1e-12 * largest)
        difference = np.abs(actual.astype(np.float64) - expected)
        outside = ~(difference <= error)
        if outside.any():
            worst = np.unravel_index(
                np.argmax(difference / np.maximum(error, 1e-300)),
                difference.shape,
            )
            raise AssertionError(
                f"{what}: {outside.sum()} of {outside.size} values differ by"
                f" more than their bound; at {worst} {actual[worst]!r} instead"
                f" of {expected[worst]!r}, bound {error[worst]:.3g}"
            )


def concatenate(parts, axis=-1) -> Bounded:
    return Bounded(
        np.concatenate([part.value for part in parts], axis),
        parts[0].dtype,
        np.concatenate([part.error for part in parts], axis),
    )


def sigmoid(a):
    return 1.0 / (1.0 + np.exp(-a))


def bounded_cell(dtype, x, h_prev, w_ru, w_c, b_ru, b_c):
    """r, u, c, h of the block cell, each with its bound."""
    x, h_prev, w_ru, w_c, b_ru, b_c = (
        Bounded(a, dtype) for a in (x, h_prev, w_ru, w_c, b_ru, b_c)
    )
    units = h_prev.value.shape[1]
    gates = concatenate([x, h_prev]) @ w_ru + b_ru
    # The slope of the logistic function is at most 1/4, that of tanh 1.
    r = gates[:, :units].map(sigmoid, 0.25)
    u = gates[:, units:].map(sigmoid, 0.25)
    c = (concatenate([x, r * h_prev]) @ w_c + b_c).map(np.tanh, 1.0)
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
