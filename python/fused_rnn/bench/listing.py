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
            f" ± {tables.milliseconds(spread):<10}")
    row += ", ".join(
        f"{gain:.2f}x {tables.TITLES[ours]}"
        for ours, gain in speedups(results, result).items()
    )
    return row.rstrip()
