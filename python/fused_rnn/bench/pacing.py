"""How long a run still takes, and how many rounds it has time for."""

import time

from fused_rnn.cli import _terminal

LEAST_ROUNDS = 3


class Pace:
    """Tells the time that is left, and gives each block of a run its share.

    A block is what is timed together: its jobs are prepared, then take turns.
    What is not known yet is taken to go as what was measured last.

    Args:
      progress: a Progress, which is told.
      jobs: how many each block has, in order.
      rounds, seconds: as many turns of a job, each so long.
      minutes: about as long as the run may take, or None. Each block then gets
        an equal share of what is left, and rounds end when it is spent, after
        LEAST_ROUNDS at the earliest.
      clock: seconds.
    """

    def __init__(self, progress, jobs, rounds, seconds, minutes=None,
                 clock=time.monotonic):
        self.rounds, self.seconds = rounds, seconds
        self._progress = progress
        self._clock = clock
        self._jobs = list(jobs)
        self._end = None if minutes is None else clock() + 60 * minutes
        self._prepare_seconds = 3.0  # To load a library, or to compile.
        self._turn_seconds = 1.1 * seconds
        self._timed_share = 1.0  # Of the jobs, not all can be timed.

    def begin(self, label):
        """The next block begins."""
        self._label = label
        self._left = [self._jobs.pop(0), 0]  # Jobs to prepare, turns.
        self._prepared = 0
        self._began = self._round_began = self._clock()
        if self._end is not None:
            share = (self._end - self._began) / (1 + len(self._jobs))
            self._block_end = self._began + share

    def preparing(self, name):
        self._tell(f"prepares {name}")

    def prepared(self):
        """One more job is, or has failed."""
        self._prepared += 1
        self._left[0] -= 1
        spent = self._clock() - self._began
        self._prepare_seconds = spent / self._prepared

    def timing(self, entries):
        """As many jobs can be timed; their rounds begin."""
        self._timed_share = entries / max(1, self._prepared)
        self._entries = entries
        self._left = [0, entries * self.rounds]
        self._turns_began = self._round_began = self._clock()

    def turned(self):
        """One more turn is over."""
        self._left[1] -= 1
        turns = self._entries * self.rounds - self._left[1]
        spent = self._clock() - self._turns_began
        self._turn_seconds = spent / turns
        self._tell("runs")

    def enough(self, rounds):
        """Whether so many rounds must do, since another would take too long."""
        if self._end is None:
            return False
        now = self._clock()
        last, self._round_began = now - self._round_began, now
        return rounds >= LEAST_ROUNDS and now + last > self._block_end

    def left(self):
        """Seconds until the run ends."""
        jobs, turns = self._left
        jobs += sum(self._jobs)
        turns += self.rounds * self._timed_share * (
            self._left[0] + sum(self._jobs)
        )
        left = jobs * self._prepare_seconds + turns * self._turn_seconds
        if self._end is not None:
            left = min(left, max(0.0, self._end - self._clock()))
        return left

    def _tell(self, text):
        label = f"{self._label}: " if self._label else ""
        self._progress.show(label + text, self.left())


class Progress:
    """A bar on a terminal; elsewhere a line for what is finished."""

    WIDTH = 20

    def __init__(self, stream, clock=time.monotonic):
        self._stream = stream
        self._clock = clock
        self._shown = self._stream.isatty()
        self._began = clock()

    def show(self, text, left=None):
        """left: seconds, if they are known."""
        if not self._shown:
            return
        part, words = 0.0, ""
        if left is not None:
            spent = self._clock() - self._began
            part = spent / max(spent + left, 1e-9)
            words = f" {_terminal.minutes(left)} left"
        _terminal.redraw(
            self._stream, f"{_terminal.bar(self.WIDTH, part)}{words}  {text}"
        )

    def finished(self, text):
        if not self._shown:
            spent = self._clock() - self._began
            self._stream.write(f"{spent:6.0f} s  {text}\n")
            self._stream.flush()

    def clear(self):
        if self._shown:
            _terminal.redraw(self._stream, "")
