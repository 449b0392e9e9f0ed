"""What results say, as Markdown tables."""

import math

from fused_rnn.bench import harness

TITLES = {
    "bare": "bare products", "ours": "fused_rnn", "ours-stream": "fused_rnn stream",
    "ours-tf": "fused_rnn in tf.function", "onednn": "oneDNN",
    "onednn-plain": "oneDNN plain", "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO", "torch": "PyTorch", "jax": "JAX",
    "keras-jax": "Keras on JAX", "keras-torch": "Keras on PyTorch",
    "keras": "Keras", "keras-jit": "Keras XLA", "keras-unroll": "Keras unrolled",
    "tf-block": "TF block cell",
}
CONVENTIONS = {
    "after": "reset after", "before": "reset before", "lstm": "LSTM",
    "rnn": "simple RNN",
}
# Who is met by which side: what runs without a framework by the NumPy module,
# what runs in TensorFlow by the op in tf.function, the others by both.
_BOTH = ("torch", "jax", "keras-jax", "keras-torch")
SIDES = {
    ("ours", "ours-stream"): (
        "onednn", "onednn-plain", "onnxruntime", "openvino", *_BOTH
    ),
    ("ours-tf",): ("keras", "keras-jit", "keras-unroll", "tf-block", *_BOTH),
}


class Times:
    """The results of a record by name, shape, mode and convention."""

    def __init__(self, record):
        self._results = {}
        self.shapes, self.failures = [], []
        found = {result["convention"] for result in record["results"]}
        self.conventions = [name for name in CONVENTIONS if name in found]
        for result in record["results"]:
            shape = tuple(result["shape"])
            if shape not in self.shapes:
                self.shapes.append(shape)
            if result["status"] != "ok":
                self.failures.append(result)
            elif result.get("median") is not None:
                key = (result["name"], shape, result["mode"],
                       result["convention"])
                self._results[key] = result

    def rounds(self, name, shape, mode, convention):
        """Times of the rounds, or None if there are none."""
        result = self._results.get((name, shape, mode, convention))
        return result and result["rounds"]

    def median(self, *key):
        result = self._results.get(key)
        return result and result["median"]

    def best(self, names, shape, mode, convention):
        """Which of the names is fastest, or None."""
        timed = [
            (self.median(name, shape, mode, convention), name)
            for name in names
        ]
        return min((t for t in timed if t[0] is not None), default=(0, None))[1]

    def bare(self, shape, mode):
        """Rounds of the fastest way of the bare products, or None."""
        ways = [
            (result["median"], result["rounds"])
            for (name, *key, _), result in self._results.items()
            if name == "bare" and key == [shape, mode]
        ]
        return min(ways)[1] if ways else None


def number(value, digits=2):
    return "–" if value is None else f"{value:.{digits}f}"


def milliseconds(seconds):
    return "–" if seconds is None else digits(1e3 * seconds)


def microseconds(rounds):
    """Median of rounds and their spread."""
    return " ± ".join(time_and_spread(rounds, 1e6)) or "–"


def time_and_spread(rounds, scale):
    """The median of rounds to three digits, and half the distance of their
    quartiles to the same place; one round has no spread, none no time."""
    times = harness.summary(rounds or [])
    if times is None:
        return []
    median = scale * times["median"]
    found = [f"{median:.{places(median)}f}"]
    if sum(time is not None for time in rounds) > 1:
        spread = scale * (times["high"] - times["low"]) / 2
        found.append(f"{spread:.{places(median)}f}")
    return found


def places(value):
    """After the point, for three digits in all."""
    return max(0, 2 - math.floor(math.log10(value))) if value > 0 else 2


def digits(value):
    """Three of them, never as a power of ten."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def sizes(shape):
    return f"({', '.join(str(size) for size in shape)})"


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def where(record):
    """The line under a table: machine, date, settings, versions."""
    machine = record["machine"]
    versions = {}
    for found in record["versions"].values():
        versions.update(found)
    parts = [
        f"{machine['processor']}, {machine['processors']} processors"
        f" ({', '.join(machine['instruction sets']) or 'no known vectors'};"
        f" {', '.join(f'{k} {v}' for k, v in machine['caches'].items())})",
        record["started"][:10],
        ", ".join(_settings(record)),
        ", ".join(f"{name} {value}" for name, value in sorted(versions.items())),
    ]
    text = "Measured on " + "; ".join(part for part in parts if part) + "."
    return text + (" Interrupted." if record["interrupted"] else "")


def _settings(record):
    """What was asked for, and how many rounds it came to."""
    settings = dict(record["settings"])
    threads = settings.pop("threads", None)
    if threads is not None:
        numbers = threads if isinstance(threads, list) else [threads]
        yield (f"{' and '.join(map(str, numbers))}"
               f" thread{'s' if numbers != [1] else ''}")
    rounds, budget = (settings.pop(name, 0) for name in ("rounds", "budget"))
    if rounds:
        done = {len(result["rounds"]) for result in record["results"]
                if result.get("rounds")} or {rounds}
        least, most = min(done), max(done)
        yield (f"{least}{f' to {most}' if most > least else ''}"
               f" round{'s' if most > 1 else ''} of {budget} s each")
    yield from (f"{name} {value}" if name != "dtype" else value
                for name, value in settings.items() if name != "minutes")


def speedups(times, side, shape, mode, convention):
    """(side's name, {rival: how many times faster than it we are})."""
    us = times.best(side, shape, mode, convention)
    if us is None:
        return None, {}
    our_rounds = times.rounds(us, shape, mode, convention)
    found = {}
    for rival in SIDES[side]:
        rounds = times.rounds(rival, shape, mode, convention)
        quotient = rounds and harness.ratio(rounds, our_rounds)
        if quotient is not None:
            found[rival] = quotient
    return us, found


def rivals(record, mode):
    """Tables of one mode of a run of rivals.py."""
    times = Times(record)
    parts = [_standing(times, mode, side) for side in SIDES]
    parts += [_units(times, mode, each) for each in times.conventions]
    parts += [_means(times, mode), _losses(times, mode), failures(times, mode)]
    parts.append(where(record))
    return "\n\n".join(part for part in parts if part) + "\n"


def _standing(times, mode, side):
    """We and the best rival of each shape."""
    heads = [f"{TITLES[side[0]]}: (B,T,I,H)", "bare ms"]
    for convention in times.conventions:
        heads += [CONVENTIONS[convention], "best rival", "times faster"]
    rows = []
    for shape in times.shapes:
        bare = times.bare(shape, mode)
        median = bare and harness.summary(bare)["median"]
        row = [sizes(shape), milliseconds(median)]
        for convention in times.conventions:
            us, found = speedups(times, side, shape, mode, convention)
            rival = min(found, key=found.get, default=None)
            row += [
                _unit(times, us, shape, mode, convention),
                "–" if rival is None else
                f"{TITLES[rival]}"
                f" {_unit(times, rival, shape, mode, convention)}",
                number(found.get(rival)),
            ]
        rows.append(row)
    return table(heads, rows)


def _unit(times, name, shape, mode, convention):
    """A time in units of the bare products; in ms where they are missing."""
    rounds = name and times.rounds(name, shape, mode, convention)
    if not rounds:
        return "–"
    bare = times.bare(shape, mode)
    if not bare:
        return f"{milliseconds(harness.summary(rounds)['median'])} ms"
    return number(harness.ratio(rounds, bare))


def _units(times, mode, convention):
    """Everybody's times of one convention."""
    names = [
        name for name in TITLES if name != "bare" and any(
            times.rounds(name, shape, mode, convention)
            for shape in times.shapes
        )
    ]
    if not names:
        return ""
    rows = [
        [sizes(shape)] + [
            _unit(times, name, shape, mode, convention) for name in names
        ]
        for shape in times.shapes
    ]
    heads = [f"{CONVENTIONS[convention]}: (B,T,I,H)",
             *(TITLES[name] for name in names)]
    return table(heads, rows)


def _means(times, mode):
    """Geometric means of the speed-ups."""
    rows = []
    for side in SIDES:
        best, each = {}, {}
        for convention in times.conventions:
            for shape in times.shapes:
                _, found = speedups(times, side, shape, mode, convention)
                if found:
                    best.setdefault(convention, []).append(min(found.values()))
                for rival, value in found.items():
                    each.setdefault(rival, []).append((value, shape))
        us = TITLES[side[0]]
        for convention, values in best.items():
            rows.append(_mean_row(
                us, f"the best of each shape, {CONVENTIONS[convention]}", values
            ))
        if len(best) > 1:
            rows.append(_mean_row(
                us, "the best of each shape", sum(best.values(), [])
            ))
        for rival, values in each.items():
            rows.append(_mean_row(us, TITLES[rival], [v for v, _ in values]))
            longer = [v for v, shape in values if shape[1] > 1]
            if len(longer) not in (0, len(values)):
                rows.append(_mean_row(us, f"{TITLES[rival]}, T > 1", longer))
    heads = ["", "times faster than", "geometric mean", "least", "most", "of"]
    return table(heads, rows) if rows else ""


def _mean_row(us, rival, values):
    return [us, rival, number(harness.geometric_mean(values)),
            number(min(values)), number(max(values)), str(len(values))]


def _losses(times, mode):
    """Every shape on which a rival is faster."""
    lines, compared = [], 0
    for side in SIDES:
        for convention in times.conventions:
            for shape in times.shapes:
                us, found = speedups(times, side, shape, mode, convention)
                compared += len(found)
                lines += [
                    f"- {sizes(shape)} {CONVENTIONS[convention]}:"
                    f" {TITLES[us]} against {TITLES[rival]}, {number(value)}×"
                    for rival, value in found.items() if value < 1
                ]
    if not compared:
        return ""
    return "Losses:\n\n" + "\n".join(lines) if lines else "No losses."


def failures(times, mode=None, what="Not timed"):
    """Who was not timed in a mode or any, and why; a reason is said once."""
    reasons = {}
    for result in times.failures:
        if mode in (None, result["mode"]):
            key = TITLES.get(result["name"], result["name"]), result["status"]
            reasons.setdefault(key, []).append(tuple(result["shape"]))
    lines = []
    for (name, status), shapes in reasons.items():
        shapes = list(dict.fromkeys(shapes))
        on = ("" if len(shapes) == len(times.shapes)
              else " on " + ", ".join(sizes(shape) for shape in shapes))
        lines.append(f"- {name}{on}: {status}")
    return f"{what}:\n\n" + "\n".join(lines) if lines else ""
