"""Plots of a run of `fused-rnn bench`.

Readable in grey and without telling red from green: programs differ in marker
and line as well as in colour, cells of the heat map say their numbers, and a
legend lists lines from the top one down.
"""

import collections

import matplotlib
import numpy as np

matplotlib.use("Agg")  # No display is needed to write a file.

from matplotlib import colors, pyplot, ticker  # noqa: E402

from fused_rnn.bench import (  # noqa: E402
    cases, harness, limits, listing, tables,
)

# Okabe and Ito's colours, told apart by every kind of sight: one a library,
# and thick black and blue for ours.
_BLACK, _BLUE, _RED, _GREEN, _PINK, _ORANGE, _SKY = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
)
_STYLES = {
    name: {"color": colour, "marker": marker, "linestyle": line}
    for name, colour, marker, line in (
        ("ours", _BLACK, "o", "-"), ("ours-stream", _BLACK, "x", ":"),
        ("ours-tf", _BLUE, "D", "-"),
        ("onednn", _GREEN, "^", "--"), ("onednn-plain", _GREEN, "v", ":"),
        ("onnxruntime", _ORANGE, "P", "--"), ("openvino", _ORANGE, "X", ":"),
        ("torch", _PINK, "p", "--"), ("keras-torch", _PINK, "+", ":"),
        ("jax", _SKY, "<", "--"), ("keras-jax", _SKY, ">", ":"),
        ("keras", _RED, "s", "--"), ("keras-jit", _RED, "*", "-."),
        ("keras-unroll", _RED, "d", ":"), ("tf-block", _RED, "8", "-."),
    )
}
RIVAL = "keras"  # Whom the heat map is about.
# So large that a page's width shrinks no letter below what print needs.
_FONTS = {"font.size": 8, "axes.titlesize": 8.5, "figure.titlesize": 9}
_PANEL, _LEGEND = (3.7, 3.1), 1.7  # Inches.


def draw(record, path):
    """Writes everything that the record has enough for; whether anything."""
    with matplotlib.rc_context(_FONTS):
        figure = make(record)
        if figure is None:
            return False
        figure.savefig(path, dpi=160)
    pyplot.close(figure)
    return True


def make(record):
    """The figure, a column a mode and a row a kind of plot, or None."""
    modes = list(dict.fromkeys(result["mode"] for result in record["results"]))
    rows = []
    for kind in (heat_map, roofline, lengths, scaling):
        panels = [kind(record, mode) for mode in modes]
        if any(panels):
            rows.append(panels)
    varied = bool(rows)
    if not varied:
        # One shape, say, lets nothing vary.
        panels = [ranking(record, mode) for mode in modes]
        if not any(panels):
            return None
        rows.append(panels)
    widths = [_PANEL[0]] * len(modes) + [_LEGEND if varied else 0.01]
    figure, grid = pyplot.subplots(
        len(rows), len(widths), squeeze=False, layout="constrained",
        figsize=(sum(widths), _PANEL[1] * len(rows)), width_ratios=widths,
    )
    for (*line, beside), panels in zip(grid, rows):
        for axes, panel in zip(line, panels):
            if panel:
                panel(axes)
            else:
                axes.set_axis_off()
        _explain(line, beside)
    machine = record["machine"]["processor"]
    figure.suptitle(
        f"{machine}, {record['settings']['dtype']}, {record['started'][:10]}"
    )
    return figure


def _explain(line, beside):
    """What the colours of a row mean, beside it."""
    beside.set_axis_off()
    images = [image for axes in line for image in axes.images]
    if images:
        bar = beside.figure.colorbar(
            images[0], cax=beside.inset_axes([0.05, 0, 0.1, 1])
        )
        bar.ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        bar.ax.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g×"))
        bar.ax.yaxis.set_minor_locator(ticker.NullLocator())
    found = {}
    for axes in line:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            lines = getattr(handle, "lines", None)  # Of an error bar.
            heights = (lines[0] if lines else handle).get_ydata()
            found.setdefault(label, (heights[-1], handle))
    if found:
        # From the top one down, as the lines end.
        labels = sorted(found, key=lambda label: -found[label][0])
        beside.legend(
            [found[label][1] for label in labels], labels, loc="upper left",
            bbox_to_anchor=(-0.1, 1.02), frameon=False, handlelength=3.5,
        )


def _select(record, mode, threads=None):
    """{shape: results} of one mode, one convention and the most threads."""
    found = [
        (fields, results) for fields, results in listing.computations(record)
        if fields["mode"] == mode
    ]
    if not found:
        return {}, None, None
    convention = found[0][0]["convention"]
    threads = threads or max(fields["threads"] for fields, _ in found)
    chosen = {
        fields["shape"]: results for fields, results in found
        if fields["convention"] == convention and fields["threads"] == threads
    }
    return chosen, tables.CONVENTIONS[convention], threads


def _largest(shapes, fixed, varied):
    """The shapes that share what `fixed` gives and differ most in `varied`."""
    groups = collections.defaultdict(list)
    for shape in shapes:
        groups[fixed(shape)].append(shape)
    best = max(
        groups.values(), key=lambda group: len(set(map(varied, group))),
        default=[],
    )
    return sorted(best, key=varied)


def heat_map(record, mode):
    """Speed-up over Keras, units across and batch up; None without a grid."""
    gains, shapes, convention, threads = _gains(record, mode)
    if len(gains) < 2:
        return None
    everywhere = [
        gain for other in dict.fromkeys(r["mode"] for r in record["results"])
        for gain in _gains(record, other)[0].values()
    ]

    def panel(axes):
        units, batches = (sorted({key[i] for key in gains}) for i in (0, 1))
        values = [
            [gains.get((unit, batch), float("nan")) for unit in units]
            for batch in batches
        ]
        # The same colours in all modes.
        norm = colors.LogNorm(min(1, *everywhere), max(1.01, *everywhere))
        axes.imshow(
            values, norm=norm, cmap="cividis", origin="lower", aspect="auto"
        )
        for (unit, batch), gain in gains.items():
            dark = norm(gain) < 0.5
            axes.text(
                units.index(unit), batches.index(batch),
                f"{gain:.{tables.places(gain)}f}×"
                + ("\nslower" if gain < 1 else ""),
                ha="center", va="center", color="white" if dark else "black",
            )
        axes.set_xticks(range(len(units)), units)
        axes.set_yticks(range(len(batches)), batches)
        axes.set(
            xlabel="units H", ylabel="batch B",
            title=f"Times as fast as Keras: {mode}, {convention},\n"
            f"T = {shapes[0][1]}, threads: {threads}",
        )

    return panel


def _gains(record, mode):
    """({(units, batch): times as fast as Keras}, shapes, convention, threads)"""
    chosen, convention, threads = _select(record, mode)
    gains = {}
    shapes = _largest(chosen, lambda s: s[1], lambda s: (s[3], s[0]))
    for shape in shapes:
        for result in chosen[shape]:
            if result["name"] == RIVAL:
                found = listing.speedups(chosen[shape], result)
                if found:
                    gains.setdefault((shape[3], shape[0]), *found.values())
    return gains, shapes, convention, threads


def _lines(axes, chosen, shapes, across, scale):
    """A line a program: median times over a size of the shapes."""
    names = [
        name for name in _STYLES
        if any(result["name"] == name for s in shapes for result in chosen[s])
    ]
    for name in names:
        points = [
            (across(shape), scale(shape) * result["median"])
            for shape in shapes for result in chosen[shape]
            if result["name"] == name and result.get("median") is not None
        ]
        if points:
            ours = listing.is_ours(name)
            axes.plot(
                *zip(*points), label=tables.TITLES[name], **_STYLES[name],
                linewidth=2.2 if ours else 1.2, markersize=6 if ours else 4,
            )
    axes.set(xscale="log", yscale="log")
    ticks = [across(shape) for shape in shapes]
    axes.set_xticks(ticks, ticks)
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.grid(alpha=0.3)


def roofline(record, mode):
    """Time a step over units, and what the machine needs at the least."""
    chosen, convention, threads = _select(record, mode)
    shapes = _largest(chosen, lambda s: s[:2], lambda s: s[3])
    if len({shape[3] for shape in shapes}) < 2:
        return None
    measured = [
        found for found in record.get("limits", [])
        if found["threads"] == threads
    ]
    itemsize = 8 if record["settings"]["dtype"] == "float64" else 4
    gates = cases.GATES[record["settings"].get("cell", "gru")]

    def panel(axes):
        _lines(axes, chosen, shapes, lambda s: s[3], lambda s: 1e6 / s[1])
        if measured:
            known = [shape[3] for shape in shapes]
            # Between the shapes too, since it has bends where a cache ends.
            units = np.geomspace(known[0], known[-1], 50)
            least = [
                1e6 * limits.step_seconds(
                    measured[0], shapes[0][0], inputs, unit,
                    mode == "training", itemsize, gates,
                ) for unit, inputs in zip(
                    units, np.interp(units, known, [s[2] for s in shapes])
                )
            ]
            axes.plot(units, least, color="0.35", linewidth=3, alpha=0.8,
                      label="limit of this machine")
            axes.fill_between(units, least, min(least) / 2, color="0.85",
                              hatch="//", edgecolor="0.6", linewidth=0)
            axes.set_ylim(bottom=min(least) / 2)
        batch, steps = shapes[0][:2]
        axes.set(
            xlabel="units H", ylabel="µs a step",
            title=f"A step: {mode}, {convention},\nB = {batch}, T = {steps},"
            f" threads: {threads}",
        )

    return panel


def lengths(record, mode):
    """Time over steps."""
    chosen, convention, threads = _select(record, mode)
    shapes = _largest(chosen, lambda s: (s[0], *s[2:]), lambda s: s[1])
    if len({shape[1] for shape in shapes}) < 2:
        return None

    def panel(axes):
        _lines(axes, chosen, shapes, lambda s: s[1], lambda s: 1e3)
        batch, _, inputs, units = shapes[0]
        axes.set(
            xlabel="steps T", ylabel="ms",
            title=f"A sequence: {mode}, {convention},\nB = {batch},"
            f" I = {inputs}, H = {units}, threads: {threads}",
        )

    return panel


def scaling(record, mode):
    """How many times as fast as one thread each number of threads is."""
    numbers = sorted({
        result["threads"] for result in record["results"]
        if result.get("threads")
    })
    if len(numbers) < 2 or numbers[0] != 1:
        return None
    by_threads = {n: _select(record, mode, n)[0] for n in numbers}
    convention = _select(record, mode)[1]
    points = {}
    for number, chosen in by_threads.items():
        for shape, results in chosen.items():
            for result in results:
                if result["name"] in ("ours-tf", RIVAL) and result.get("median"):
                    points.setdefault((result["name"], shape), {})[number] = (
                        result["median"])
    curves = {}
    for (name, _), times in points.items():
        for number in numbers:
            if 1 in times and number in times:
                curves.setdefault(name, {}).setdefault(number, []).append(
                    times[1] / times[number]
                )
    if not curves:
        return None

    def panel(axes):
        for offset, (name, gains) in enumerate(curves.items()):
            means = [harness.geometric_mean(values) for values in gains.values()]
            least = [mean - min(v) for mean, v in zip(means, gains.values())]
            most = [max(v) - mean for mean, v in zip(means, gains.values())]
            # Beside each other: bars of the same height would hide.
            x = [number + 0.02 * offset for number in gains]
            axes.errorbar(x, means, yerr=[least, most], capsize=4,
                          label=tables.TITLES[name], **_STYLES[name])
        axes.plot(numbers, numbers, color="0.6", label="as many as threads")
        axes.set_xticks(numbers)
        axes.set(
            xlabel="threads", ylabel="times as fast as one thread",
            title=f"Threads: {mode}, {convention},\nmean, least and most of"
            " all shapes",
        )
        axes.grid(alpha=0.3)

    return panel


def ranking(record, mode):
    """What everybody takes for the first shape, the fastest on top."""
    chosen, convention, threads = _select(record, mode)
    shape = next(iter(chosen), None)
    timed = sorted(
        (result for result in chosen.get(shape, ()) if result.get("median")),
        key=lambda result: -result["median"],
    )
    if not timed:
        return None

    def panel(axes):
        # Dots: a bar has no length where times differ a thousandfold.
        times = [1e3 * result["median"] for result in timed]
        for height, (result, time) in enumerate(zip(timed, times)):
            ours = listing.is_ours(result["name"])
            axes.plot(time, height, marker="D" if ours else "o",
                      color=_BLUE if ours else "0.45")
            axes.annotate(
                f"{time:.{tables.places(time)}f}", (time, height),
                xytext=(6, 0), textcoords="offset points", va="center",
                weight="bold" if ours else "normal",
            )
        axes.set_yticks(
            range(len(timed)),
            [tables.TITLES[result["name"]] for result in timed],
        )
        axes.grid(alpha=0.3)
        batch, steps, inputs, units = shape
        axes.set(
            xlabel="ms", xscale="log",
            xlim=(min(times) / 1.5, max(times) * 4),
            title=f"A sequence: {mode}, {convention},\nB = {batch},"
            f" T = {steps}, I = {inputs}, H = {units}, threads: {threads}",
        )

    return panel
