"""What the commands write on a terminal, or into a pipe."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time


@contextlib.contextmanager
def quiet_start():
    """Holds back what libraries log to stderr while they are imported.

    Part of TensorFlow's start-up log ignores TF_CPP_MIN_LOG_LEVEL. Should the
    import fail, everything held back is written out.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # no stderr to hold back
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            held.seek(0)
            os.write(2, held.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


class Progress:
    """A bar that redraws itself on a terminal; a line now and then in a pipe.

    Args:
      total: the number of steps.
      stream: where to write; sys.stdout unless given.
    """

    # Redrawing more often costs time and shows nothing more.
    INTERVAL = 0.1
    LINES = 10  # in a pipe

    def __init__(self, total, stream=None):
        self._total = total
        self._stream = stream or sys.stdout
        self._terminal = self._stream.isatty()
        self._start = self._drawn = time.monotonic()

    def update(self, step, text):
        """Shows that `step` steps are done, and the text beside."""
        now = time.monotonic()
        last = step == self._total
        if self._terminal:
            if last or step == 1 or now - self._drawn >= self.INTERVAL:
                self._drawn = now
                self._draw(step, text, now - self._start)
        elif last or step == 1 or self._is_mark(step):
            count = f"{step:>{len(str(self._total))}}/{self._total}"
            seconds = minutes(now - self._start)
            print(f"  {count}  {text}  {seconds}", file=self._stream,
                  flush=True)

    def close(self):
        """Ends the line of the bar."""
        if self._terminal:
            print(file=self._stream, flush=True)

    def _is_mark(self, step):
        marks = min(self.LINES, self._total)
        return step * marks // self._total > (step - 1) * marks // self._total

    def _draw(self, step, text, seconds):
        count = f"{step:>{len(str(self._total))}}/{self._total}"
        right = f" {count}  {text}  {minutes(seconds)}"
        columns = shutil.get_terminal_size().columns
        width = min(30, columns - len(right) - 5)
        drawn = bar(width, step / self._total) if width >= 5 else ""
        redraw(self._stream, f"  {drawn}{right}")


def bar(width, part):
    """A bar of which that part is full."""
    full = int(width * part)
    return "[" + "#" * full + "." * (width - full) + "]"


def redraw(stream, line):
    """Writes the line over the one that the cursor is in."""
    line = line[: shutil.get_terminal_size().columns - 1]
    print(f"\r\033[K{line}", end="", file=stream, flush=True)


def minutes(seconds):
    """Seconds as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
