"""The plots of `fused-rnn bench`."""

import pytest

pytest.importorskip("matplotlib")

from fused_rnn.bench import cases, figures, tables  # noqa: E402
from fused_rnn.cli import bench  # noqa: E402
from helpers_bench import record_of, steady  # noqa: E402


def grid(*names):
    return [
        steady(name, shape, mode, (index + 1) * 1e-5 * shape[1], threads)
        for threads in (1, 2) for shape in bench.SHAPES
        for mode in cases.MODES for index, name in enumerate(names)
    ]


def legends(figure):
    return [
        [text.get_text() for text in axes.get_legend().get_texts()]
        for axes in figure.axes if axes.get_legend()
    ]


def test_plots_have_their_axes(tmp_path):
    record = record_of(*grid("ours-tf", "keras", "torch"))
    figure = figures.make(record)
    panels = [axes for axes in figure.axes if axes.get_title()]
    labels = [(axes.get_xlabel(), axes.get_ylabel()) for axes in panels]
    for expected in (
        ("units H", "batch B"), ("units H", "µs a step"), ("steps T", "ms"),
        ("threads", "times as fast as one thread"),
    ):
        assert labels.count(expected) == len(cases.MODES), expected
    heat, _, step, *_ = panels
    assert [text.get_text() for text in heat.texts] == ["2.00×"] * 9
    steps, lengths, _ = legends(figure)
    # From the top line down: the slowest first.
    assert lengths == ["PyTorch", "Keras", "fused_rnn in tf.function"]
    assert sorted(steps) == sorted([*lengths, "limit of this machine"])
    times = step.lines[0].get_ydata()
    assert times == pytest.approx([10, 10, 10])
    path = tmp_path / "plot.png"
    assert figures.draw(record, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_programs_are_told_apart_without_colours():
    names = [name for name in tables.TITLES if name != "bare"]
    figure = figures.make(record_of(*grid(*names)))
    step = figure.axes[3]
    assert step.get_ylabel() == "µs a step"
    lines = [
        line for line in step.lines if line.get_label() in
        tables.TITLES.values()
    ]
    styles = {(line.get_marker(), line.get_linestyle()) for line in lines}
    assert len(styles) == len(lines) == len(names)


def test_losses_are_said_in_the_heat_map():
    shapes = [(batch, 50, 64, 64) for batch in (1, 16)]
    figure = figures.make(record_of(
        steady("ours-tf", shapes[0], "inference", 1.0),
        steady("keras", shapes[0], "inference", 0.5),
        steady("ours-tf", shapes[1], "inference", 1.0),
        steady("keras", shapes[1], "inference", 12.34),
    ))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == ["0.500×\nslower", "12.3×"]


def test_plots_of_what_there_is(tmp_path):
    path = tmp_path / "plot.png"
    assert not figures.draw(record_of(), path)
    assert not path.exists()
    one = steady("keras", (1, 2, 3, 4), "inference", 1.0)
    two = steady("keras", (1, 8, 3, 4), "inference", 2.0)
    figure = figures.make(record_of(one, two))
    assert [axes.get_xlabel() for axes in figure.axes] == ["steps T", ""]


def test_one_shape_is_drawn_as_a_ranking():
    """Nothing varies, so there is no line to be drawn."""
    shape = (16, 50, 64, 64)
    axes = figures.make(record_of(
        steady("ours-tf", shape, "inference", 0.001),
        steady("keras", shape, "inference", 0.004),
    )).axes[0]
    assert axes.get_xlabel() == "ms" and "T = 50" in axes.get_title()
    dots = [line.get_xdata()[0] for line in axes.lines]
    assert dots == pytest.approx([4, 1])  # From below, the fastest on top.
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["Keras", "fused_rnn in tf.function"]
    assert [text.get_text() for text in axes.texts] == ["4.00", "1.00"]
