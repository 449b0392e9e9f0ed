"""Results as plain text, a row a program."""

import textwrap

from fused_rnn.bench import harness, tables

# What sets a computation apart from another.
_FIELDS = ("threads", "shape", "mode", "convention")
_NOTE = """\
±: half the distance of the quartiles over the rounds. ×: how many times as long
as ours it takes, so above 1 we are faster. "fused_rnn" is the NumPy module, met
by what needs no framework; the op in a tf.function is met by what runs in
TensorFlow, and a framework of its own by both."""


def computations(record):
    """[(fields, results)] in the order of the record; bare products left out."""
    groups = {}
    for result in record["results"]:
        if result["name"] != "bare":
            key = tuple(
                tuple(value) if isinstance(value, list) else value
                for value in (result.get(field) for field in _FIELDS)
            )
            groups.setdefault(key, []).append(result)
    return [
        (dict(zip(_FIELDS, key)), results) for key, results in groups.items()
    ]


def is_ours(name):
    return any(name in side for side in tables.SIDES)


def speedups(results, result):
    """{program of ours: how many times as long as it the result takes}.

    Who runs without a framework is set against the NumPy module, who runs in
    TensorFlow against the op in a tf.function, frameworks of their own against
    both.
    """
    rounds = {
        other["name"]: other["rounds"] for other in results
        if other["status"] == "ok" and is_ours(other["name"])
    }
    found = {}
    for side, rivals in tables.SIDES.items():
        ours = next((name for name in side if name in rounds), None)
        if ours and result["name"] in rivals and result["status"] == "ok":
            gain = harness.ratio(result["rounds"], rounds[ours])
            if gain is not None:
                found[ours] = gain
    return found


def listing(record):
    """All that was measured, and where.

    Who failed everywhere for the same reason is said once, at the end.
    """
    groups = computations(record)
    everywhere = _failures_everywhere(groups) if len(groups) > 1 else {}
    parts = []
    for fields, results in groups:
        parts.append(
            f"(B,T,I,H) = {tables.sizes(fields['shape'])}, {fields['mode']},"
            f" {tables.CONVENTIONS[fields['convention']]},"
            f" threads: {fields['threads']}"
        )
        parts += [*_block([
            result for result in results if result["name"] not in everywhere
        ]), ""]
    if everywhere:
        parts += ["Not timed anywhere:", *(
            _name(name) + status for name, status in everywhere.items()
        ), ""]
    if any(result.get("rounds") for result in record["results"]):
        parts += [_NOTE, ""]
    return "\n".join([*parts, textwrap.fill(tables.where(record), 80)])


def _failures_everywhere(groups):
    """{program: why it was timed nowhere}."""
    statuses = {}
    for _, results in groups:
        for result in results:
            statuses.setdefault(result["name"], set()).add(result["status"])
    return {
        name: status for name, found in statuses.items()
        for status in found if len(found) == 1 and status != "ok"
    }


def _block(results):
    """A row a program: ours, who was timed, who was not."""
    order = list(tables.TITLES)
    results = sorted(results, key=lambda result: (
        result["status"] != "ok", order.index(result["name"])
        if result["name"] in order else len(order),
    ))
    gains = [speedups(results, result) for result in results]
    columns = [
        ours for side in tables.SIDES for ours in side
        if any(ours in found for found in gains)
    ]
    heads = [f"× {tables.TITLES[ours]}" for ours in columns]
    lines = []
    if any(result.get("rounds") for result in results):
        lines.append(" " * 43 + "ms" + " " * 9 + "  ".join(heads))
    for result, found in zip(results, gains):
        lines.append(_row(result, [
            _aligned(found.get(ours), len(head))
            for ours, head in zip(columns, heads)
        ]))
    return [line.rstrip() for line in lines]


def _row(result, cells):
    row = _name(result["name"])
    if result["status"] != "ok":
        return f"{row}not timed: {result['status']}"
    times = tables.time_and_spread(result["rounds"], 1e3)
    if not times:
        return f"{row}not timed: interrupted before its turn"
    whole, point, rest = times[0].partition(".")
    row += f"{whole:>8}{point}{rest:<7}"[:16].ljust(16)
    row += (f"± {times[1]}" if times[1:] else "").ljust(12)
    return row + "  ".join(cells)


def _name(name):
    return f"  {tables.TITLES.get(name, name):<26}"


def _aligned(gain, width):
    """A ratio whose point stands in the middle of the column."""
    if gain is None:
        return " " * width
    whole, point, rest = f"{gain:.{tables.places(gain)}f}".partition(".")
    return f"{whole:>{width - 4}}{point}{rest}".ljust(width)
