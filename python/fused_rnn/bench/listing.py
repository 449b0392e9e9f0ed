"""Results as plain text, a row a program."""

from fused_rnn.bench import harness, tables

# What sets a computation apart from another.
_FIELDS = ("threads", "shape", "mode", "convention")


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


def our_rounds(results, name):
    """Rounds of the program of ours that a rival is set against, or None.

    Who computes inside TensorFlow, or could, is set against our op in
    TensorFlow, the others against the NumPy module.
    """
    found = {
        result["name"]: result["rounds"] for result in results
        if result["status"] == "ok"
    }
    for side, rivals in reversed(tables.SIDES.items()):
        for ours in side:
            if name in rivals and ours in found:
                return found[ours]
    return None


def is_ours(name):
    return any(name in side for side in tables.SIDES)


def speedup(results, result):
    """How many times as long as ours it takes, or None."""
    if result["status"] != "ok" or is_ours(result["name"]):
        return None
    ours = our_rounds(results, result["name"])
    return ours and harness.ratio(result["rounds"], ours)


def listing(record):
    """All that was measured, and where."""
    parts = []
    for fields, results in computations(record):
        parts.append(
            f"(B,T,I,H) = {tables.sizes(fields['shape'])}, {fields['mode']},"
            f" {tables.CONVENTIONS[fields['convention']]},"
            f" threads: {fields['threads']}"
        )
        parts += [_row(results, result) for result in results] + [""]
    return "\n".join([*parts, tables.where(record)])


def _row(results, result):
    row = f"  {tables.TITLES.get(result['name'], result['name']):<26}"
    if result["status"] != "ok":
        return f"{row}not timed: {result['status']}"
    times = harness.summary(result["rounds"])
    if times is None:  # Interrupted before its turn.
        return f"{row}not timed"
    spread = (times["high"] - times["low"]) / 2
    row += (f"{tables.milliseconds(times['median']):>10} ms"
            f" ± {tables.milliseconds(spread):<8}")
    gain = speedup(results, result)
    if gain is not None:
        row += f" {gain:7.2f}x the time of fused_rnn"
    return row.rstrip()
