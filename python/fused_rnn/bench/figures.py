"""Plots of a run of `fused-rnn bench`.

Readable in grey and without telling red from green: programs differ in marker
and line as well as in colour, and cells of the heat map say their numbers.
"""

import collections
import itertools

import matplotlib
import numpy as np

matplotlib.use("Agg")  # No display is needed to write a file.

from matplotlib import colors, pyplot, ticker  # noqa: E402

from fused_rnn.bench import harness, limits, listing, tables  # noqa: E402

# Okabe and Ito's colours, told apart by every kind of sight.
_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00",
            "#56B4E9")
_MARKERS = "osD^vPX*<>"
_LINES = ("-", "--", "-.", ":")
_STYLES = dict(zip(
    (name for name in tables.TITLES if name != "bare"),
    ({"color": colour, "marker": marker, "linestyle": line}
     for colour, marker, line in zip(
         itertools.cycle(_COLOURS), itertools.cycle(_MARKERS),
         itertools.cycle(_LINES))),
))
RIVAL = "keras"  # Whom the heat map is about.


def draw(record, path):
    """Writes everything that the record has enough for; whether anything."""
    figure = make(record)
    if figure is None:
        return False
    figure.savefig(path, dpi=150)
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
    if not rows:
        # One shape, say, lets nothing vary.
        panels = [bars(record, mode) for mode in modes]
        if not any(panels):
            return None
        rows.append(panels)
    figure, grid = pyplot.subplots(
        len(rows), len(modes), squeeze=False, layout="constrained",
        figsize=(6.2 * len(modes), 4.2 * len(rows)),
    )
    for line, panels in zip(grid, rows):
        for axes, panel in zip(line, panels):
            if panel:
                panel(axes)
            else:
                axes.set_axis_off()
    machine = record["machine"]["processor"]
    figure.suptitle(
        f"{machine}, {record['settings']['dtype']}, {record['started'][:10]}",
        fontsize="medium",
    )
    return figure


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
    chosen, convention, threads = _select(record, mode)
    gains = {}
    shapes = _largest(chosen, lambda s: s[1], lambda s: (s[3], s[0]))
    for shape in shapes:
        for result in chosen[shape]:
            if result["name"] == RIVAL:
                found = listing.speedups(chosen[shape], result)
                if found:
                    gains.setdefault((shape[3], shape[0]), *found.values())
    if len(gains) < 2:
        return None

    def panel(axes):
        units, batches = (sorted({key[i] for key in gains}) for i in (0, 1))
        values = [
            [gains.get((unit, batch), float("nan")) for unit in units]
            for batch in batches
        ]
        least, most = min(gains.values()), max(gains.values())
        norm = colors.LogNorm(min(least, 1), max(most, 1.01))
        image = axes.imshow(
            values, norm=norm, cmap="cividis", origin="lower", aspect="auto"
        )
        for (unit, batch), gain in gains.items():
            dark = norm(gain) < 0.5
            axes.text(
                units.index(unit), batches.index(batch),
                f"{tables.number(gain)}×" + ("\nslower" if gain < 1 else ""),
                ha="center", va="center", color="white" if dark else "black",
            )
        axes.set_xticks(range(len(units)), units)
        axes.set_yticks(range(len(batches)), batches)
        axes.set(
            xlabel="units H", ylabel="batch B",
            title=f"Times as fast as Keras: {mode}, {convention},\n"
            f"T = {shapes[0][1]}, threads: {threads}",
        )
        bar = axes.figure.colorbar(
            image, cax=axes.inset_axes([1.03, 0, 0.05, 1])
        )
        bar.ax.yaxis.set_major_formatter(ticker.ScalarFormatter())
        bar.ax.yaxis.set_minor_formatter(ticker.NullFormatter())

    return panel


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

    def panel(axes):
        _lines(axes, chosen, shapes, lambda s: s[3], lambda s: 1e6 / s[1])
        if measured:
            known = [shape[3] for shape in shapes]
            # Between the shapes too, since it has bends where a cache ends.
            units = np.geomspace(known[0], known[-1], 50)
            least = [
                1e6 * limits.step_seconds(
                    measured[0], shapes[0][0], inputs, unit,
                    mode == "training", itemsize,
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
        _legend(axes)

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
        _legend(axes)

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
        axes.plot(numbers, numbers, color="0.6", label="threads")
        axes.set_xticks(numbers)
        axes.set(
            xlabel="threads", ylabel="times as fast as one thread",
            title=f"Threads: {mode}, {convention},\nmean, least and most of"
            " all shapes",
        )
        axes.grid(alpha=0.3)
        _legend(axes)

    return panel


def bars(record, mode):
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
        drawn = axes.barh(
            [tables.TITLES[result["name"]] for result in timed],
            [1e3 * result["median"] for result in timed],
            color=[_COLOURS[1] if listing.is_ours(result["name"]) else "#bbbbbb"
                   for result in timed],
        )
        axes.bar_label(drawn, fmt="%.3g", padding=3)
        axes.margins(x=0.15)
        batch, steps, inputs, units = shape
        axes.set(
            xlabel="ms",
            title=f"A sequence: {mode}, {convention},\nB = {batch},"
            f" T = {steps}, I = {inputs}, H = {units}, threads: {threads}",
        )

    return panel


def _legend(axes):
    """Beside the plot: a dozen names would hide the lines."""
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="x-small",
                handlelength=3)
