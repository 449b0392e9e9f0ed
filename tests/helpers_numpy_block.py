"""The block cells as the tests of their functions call them."""

from dataclasses import dataclass, field

import numpy as np
from bounds import bounded_cell, bounded_cell_grad
from bounds_lstm_block import bounded_lstm_cell, bounded_lstm_cell_grad
from helpers import CELL_INPUTS, CELL_OUTPUTS, cell_arguments, draw

from fused_rnn import reference


@dataclass(frozen=True)
class BlockCell:
    name: str  # of the functions
    inputs: tuple
    outputs: tuple
    kept: tuple  # outputs that the gradient takes
    options: dict = field(default_factory=dict)
    forward_options: dict = field(default_factory=dict)

    def arguments(self, seed, batch, inputs, units, dtype):
        if self.name == "gru_block_cell":
            return cell_arguments(seed, batch, inputs, units, dtype)
        values = lstm_arguments(seed, batch, inputs, units, dtype)
        return self._away_from_the_clip(seed, values)

    def _away_from_the_clip(self, seed, values):
        """The same, but where rounding would decide what is cut off."""
        clip = self.options["cell_clip"]
        rng = np.random.default_rng(seed)
        cs_prev = values["cs_prev"]
        while clip > 0:
            outputs = reference.lstm_block_cell(**values, **{
                **self.options, **self.forward_options, "cell_clip": 0.0
            })
            # Half types round by a few thousandths.
            near = np.abs(np.abs(outputs.cs) - clip) < 0.01
            if not near.any():
                break
            cs_prev[near] = draw(rng, (near.sum(),), cs_prev.dtype)
        return values

    def incoming(self, seed, batch, units, dtype):
        """Gradients of all outputs."""
        rng = np.random.default_rng(seed)
        return {
            f"d_{name}": draw(rng, (batch, units), dtype)
            for name in self.outputs
        }

    def oracle(self, inputs, incoming):
        """Outputs and gradients by name, in float64."""
        options = {**self.options, **self.forward_options}
        outputs = getattr(reference, self.name)(**inputs, **options)
        return outputs._asdict(), getattr(reference, f"{self.name}_grad")(
            **inputs, **incoming, **options
        )

    def bounds(self, dtype, inputs, incoming):
        """Of the same."""
        if self.name == "gru_block_cell":
            outputs = bounded_cell(dtype, **inputs)
            gradients = bounded_cell_grad(dtype, **inputs, **incoming)
            return dict(zip(self.outputs, outputs)), gradients
        options = {**self.options, **self.forward_options}
        return (
            bounded_lstm_cell(dtype, **inputs, **options),
            bounded_lstm_cell_grad(dtype, **inputs, **incoming, **options),
        )

    def run(self, module, inputs, incoming):
        """All results of a module's functions that there are, by name."""
        outputs = getattr(module, self.name)(
            **inputs, **self.options, **self.forward_options
        )
        gradients = getattr(module, f"{self.name}_grad")(
            **inputs, **{name: getattr(outputs, name) for name in self.kept},
            **incoming, **self.options,
        )
        return {
            **outputs._asdict(),
            **{
                f"d_{name}": d for name, d in gradients._asdict().items()
                if d is not None
            },
        }


def lstm_arguments(seed, batch, inputs, units, dtype) -> dict:
    """The inputs of the LSTM block cell, in order."""
    rng = np.random.default_rng(seed)
    rows = inputs + units
    return {
        "x": draw(rng, (batch, inputs), dtype),
        "cs_prev": draw(rng, (batch, units), dtype),
        "h_prev": draw(rng, (batch, units), dtype),
        "w": draw(rng, (rows, 4 * units), dtype, max(rows, 1) ** -0.5),
        **{name: draw(rng, (units,), dtype) for name in ("wci", "wcf", "wco")},
        "b": draw(rng, (4 * units,), dtype),
    }


def _lstm(use_peephole, cell_clip):
    return BlockCell(
        "lstm_block_cell", LSTM_INPUTS, LSTM_OUTPUTS, LSTM_OUTPUTS[:-2],
        dict(use_peephole=use_peephole, cell_clip=cell_clip),
        dict(forget_bias=0.5),
    )


LSTM_INPUTS = ("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
LSTM_OUTPUTS = ("i", "cs", "f", "o", "ci", "co", "h")
BLOCK_CELLS = {
    "gru": BlockCell(
        "gru_block_cell", CELL_INPUTS, CELL_OUTPUTS, ("r", "u", "c")
    ),
    "lstm": _lstm(use_peephole=False, cell_clip=0.0),
    # A number that all element types have.
    "lstm_peephole_clip": _lstm(use_peephole=True, cell_clip=0.625),
}

