"""The short tables: speed for the README, and accuracy."""

from fused_rnn.bench import harness, tables

# What is said of results that are not of the usual convention.
_UNUSUAL = {"before": " (reset before)"}
_MODES = ("inference", "training")


def gains(record):
    """[(side, rival, shape, mode, convention, times as fast we are)]."""
    times = tables.Times(record)
    found = []
    for side in tables.SIDES:
        for mode in _MODES:
            for convention in times.conventions:
                for shape in times.shapes:
                    _, each = tables.speedups(
                        times, side, shape, mode, convention
                    )
                    found += [
                        (side, rival, shape, mode, convention, gain)
                        for rival, gain in each.items()
                    ]
    return found


def speed(record):
    """A row a rival: geometric mean, least and most; then every loss."""
    found = gains(record)
    rows = []
    for side, rivals in tables.SIDES.items():
        for rival in rivals:
            cells = []
            for mode in _MODES:
                cells += _gain_cells([
                    (gain, shape, convention)
                    for its_side, name, shape, its_mode, convention, gain
                    in found if (its_side, name, its_mode) == (side, rival, mode)
                ])
            if set(cells) != {"–"}:
                rows.append([tables.TITLES[side[0]], tables.TITLES[rival],
                             *cells])
    heads = ["ours", "times as fast as"]
    for mode in _MODES:
        heads += [f"{mode}: mean", "least at (B,T,I,H)", "most at (B,T,I,H)"]
    losses = [
        f"- {tables.TITLES[side[0]]} against {tables.TITLES[rival]},"
        f" {mode}{_UNUSUAL.get(convention, '')} at {tables.sizes(shape)}:"
        f" {tables.number(gain, 3)}"
        for side, rival, shape, mode, convention, gain in sorted(
            found, key=lambda item: item[-1]
        ) if gain < 1
    ]
    parts = [tables.table(heads, rows)]
    if losses:
        parts.append("Losses, each a case where the other is faster:")
        parts.append("\n".join(losses))
    elif found:
        parts.append("No losses.")
    parts += [tables.failures(tables.Times(record)), tables.where(record)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _gain_cells(values):
    if not values:
        return ["–"] * 3
    least, most = min(values), max(values)
    return [
        tables.number(harness.geometric_mean(gain for gain, *_ in values)),
        *(f"{tables.number(gain)} at {tables.sizes(shape)}"
          f"{_UNUSUAL.get(convention, '')}"
          for gain, shape, convention in (least, most)),
    ]


def accuracy(record):
    """A row a program: largest and mean error in ulp over all shapes."""
    rows = []
    for convention, title in tables.CONVENTIONS.items():
        for name in tables.TITLES:
            results = [
                result for result in record["results"]
                if (result["name"], result["convention"]) == (name, convention)
                and "ulp" in result
            ]
            cells = []
            for kind in ("forward", "gradients"):
                errors = [
                    result["ulp"][kind] for result in results
                    if kind in result["ulp"]
                ]
                cells += [
                    tables.digits(max(error["max"] for error in errors)),
                    # Shapes count alike, however many values they have.
                    tables.digits(
                        sum(error["mean"] for error in errors) / len(errors)
                    ),
                ] if errors else ["–", "–"]
            if results:
                rows.append([title, tables.TITLES[name], *cells])
    heads = ["", "", "forward: most", "mean", "gradients: most", "mean"]
    times = tables.Times(record)
    shapes = ", ".join(tables.sizes(shape) for shape in times.shapes)
    parts = [
        tables.table(heads, rows), tables.failures(times, what="Not measured"),
        f"Shapes (B,T,I,H): {shapes}.", tables.where(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def core(record):
    """A row a kernel and size: its time and the limit that it meets."""
    rows = []
    for result in record["results"]:
        depth = result["depth"]
        size = f"{result['rows']} × {result['columns']}"
        compute, reading = result["compute seconds"], result["read seconds"]
        limit = max(compute, reading)
        rows.append([
            result["kernel"].replace("_", " "),
            f"{size}, depth {depth}" if depth else size,
            tables.digits(1e9 * result["seconds"]),
            f"{tables.digits(1e9 * limit)}"
            f" ({'products' if compute >= reading else 'reading'})",
            f"{100 * limit / result['seconds']:.0f} %",
        ])
    heads = ["kernel", "rows × units or columns", "ns", "limit, ns", "reached"]
    limits = (
        f"Limits: {tables.digits(1e-9 * record['operations'])} GFLOP/s, and the"
        " bandwidth at each kernel's own bytes, both on one thread."
    )
    return "\n\n".join(
        [tables.table(heads, rows), limits, tables.where(record)]
    ) + "\n"


def limits(record):
    """What the probe found: operations a second, and bytes by working set."""
    found = record["limits"]
    if not found:
        return "The NumPy module, which holds the probe, was not built.\n"
    rows = [["products, GFLOP/s"] + [
        tables.digits(1e-9 * each["operations"]) for each in found
    ]]
    for index, (size, _) in enumerate(found[0]["bytes"]):
        rows.append([f"reads of {size // 1024} KiB a thread, GB/s"] + [
            tables.digits(1e-9 * each["bytes"][index][1]) for each in found
        ])
    heads = [""] + [f"threads: {each['threads']}" for each in found]
    return f"{tables.table(heads, rows)}\n\n{tables.where(record)}\n"
