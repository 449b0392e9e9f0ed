"""The loop that trains: one for every engine. It needs no TensorFlow."""

from __future__ import annotations

import dataclasses
import signal
import statistics
import time

from fused_rnn.cli._terminal import Progress


@dataclasses.dataclass
class Run:
    """What a training was like: loss and seconds of every step."""

    losses: list[float] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)

    def step_seconds(self):
        """The median step. The first one traces the graph: not counted."""
        return statistics.median(self.seconds[1:] or self.seconds)


class Interrupt:
    """Ctrl-C as a wish: `wanted` turns true, and the step is finished.

    A second Ctrl-C does not wait: it raises KeyboardInterrupt.
    """

    def __init__(self):
        self.wanted = False

    def __enter__(self):
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_):
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, *_):
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


def train(step, batches, steps, interrupt):
    """Trains for that many steps or until interrupted; returns a Run.

    Args:
      step: does one step with inputs and targets, returns the loss.
      batches: yields such pairs of arrays, a number for every character.
      steps: how many at most.
      interrupt: ends the training once its `wanted` is true.
    """
    run = Run()
    progress = Progress(steps)
    try:
        for _ in range(steps):
            inputs, targets = next(batches)
            start = time.perf_counter()
            loss = step(inputs, targets)
            run.seconds.append(time.perf_counter() - start)
            run.losses.append(loss)
            recent = run.seconds[1:][-20:] or run.seconds
            rate = inputs.size * len(recent) / sum(recent)
            progress.update(
                len(run.losses),
                f"loss {loss:.4f}  {rate:>9,.0f} characters/s",
            )
            if interrupt.wanted:
                break
    finally:
        progress.close()
    return run
