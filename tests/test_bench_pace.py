"""How long a run of the bench takes: what it tells, and when it ends."""

import io

import pytest

from fused_rnn.bench import harness, pacing


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Told:
    """A Progress that keeps what it is told last."""

    def show(self, text, left=None):
        self.text, self.left = text, left


def test_the_bar_tells_the_time_that_is_left():
    clock, stream = Clock(), Terminal()
    progress = pacing.Progress(stream, clock)
    clock.now += 30
    progress.show("runs", 90)
    progress.finished("nothing on a terminal")
    progress.clear()
    assert stream.getvalue() == (
        "\r\x1b[K[#####...............] 1:30 left  runs\r\x1b[K"
    )
    pipe = io.StringIO()
    progress = pacing.Progress(pipe, clock)
    progress.show("nothing in a pipe", 5)
    clock.now += 7
    progress.finished("a shape")
    assert pipe.getvalue() == "     7 s  a shape\n"


def test_what_is_left_follows_from_what_was_measured():
    clock, told = Clock(), Told()
    pace = pacing.Pace(told, [2, 2], 10, 1.0, clock=clock)
    pace.begin("shape")
    for _ in range(2):
        pace.preparing("Keras")
        clock.now += 5
        pace.prepared()
    assert told.text == "shape: prepares Keras"
    # One of the two can be timed, with a turn of 2 seconds.
    pace.timing(1)
    for _ in range(4):
        clock.now += 2
        pace.turned()
    # Six turns here, ten in the next block, whose two jobs are to be prepared.
    assert told.left == pytest.approx(6 * 2 + 2 * 5 + 10 * 2)
    assert told.text == "shape: runs"
    for _ in range(6):
        clock.now += 2
        pace.turned()
    pace.begin("next")
    assert pace.left() == pytest.approx(2 * 5 + 10 * 2)


class Timed:
    """An entry whose turns move the clock."""

    def __init__(self, clock, seconds):
        self.clock, self.seconds, self.turns = clock, seconds, 0

    def run(self, budget):
        self.clock.now += self.seconds
        self.turns += 1


def run_blocks(minutes, rounds=11, turn=10.0, blocks=4):
    """The turns of an entry in each block, and the seconds of all of them."""
    clock = Clock()
    pace = pacing.Pace(Told(), [2] * blocks, rounds, 1.0, minutes, clock)
    turns = []
    for _ in range(blocks):
        pace.begin("")
        for _ in range(2):
            clock.now += 5
            pace.prepared()
        entries = [Timed(clock, turn) for _ in range(2)]
        harness.interleave(entries, pace)
        assert entries[0].turns == entries[1].turns
        turns.append(entries[0].turns)
    return turns, clock.now - Clock.now


def test_minutes_bound_the_rounds():
    assert run_blocks(None) == ([11] * 4, 4 * (10 + 11 * 20))
    turns, spent = run_blocks(8)
    assert turns == [5, 5, 6, 6] and spent == 480
    # However little time there is, medians need a few rounds.
    assert run_blocks(0.1)[0] == [pacing.LEAST_ROUNDS] * 4
    # There are no more rounds than were asked for.
    assert run_blocks(60)[0] == [11] * 4
    assert run_blocks(60, rounds=2)[0] == [2] * 4


def test_what_one_block_leaves_is_shared_by_the_others():
    clock = Clock()
    pace = pacing.Pace(Told(), [1, 1], 100, 1.0, 1, clock)
    pace.begin("")
    clock.now += 3
    pace.prepared()
    quick = [Timed(clock, 0.01)]
    harness.interleave(quick, pace)
    assert quick[0].turns == 100  # 4 of its 30 seconds.
    pace.begin("")
    pace.prepared()
    slow = [Timed(clock, 6.9)]
    harness.interleave(slow, pace)
    assert slow[0].turns == 8  # All 56 seconds that are left.
    assert pace.left() < 1
