"""Records of what was timed: the turns, what they mean, and how it is kept.

The turns of one round follow each other within seconds, so that what disturbs
the machine disturbs everybody: times are compared within a round.
"""

import datetime
import json
import math
import os
import pathlib
import platform
import random
import statistics

from fused_rnn.bench.processes import WorkerFailed

SCHEMA = 1


class Entry:
    """What is timed: a computation that a worker has prepared under a key.

    rounds: the median of a call in each round, in seconds; None where the
    worker failed.
    """

    def __init__(self, worker, key, **about):
        self.worker = worker
        self.key = key
        self.about = about
        self.rounds = []
        self.calls = 0
        self.failure = None

    def run(self, seconds):
        if self.failure is None:
            try:
                reply = self.worker.ask(
                    "run", self.key, seconds, seconds=60 * seconds + 300
                )
                if "median" not in reply:
                    raise WorkerFailed(reply.get("error", str(reply)))
                self.rounds.append(reply["median"])
                self.calls += reply["calls"]
                return
            except WorkerFailed as failure:
                self.failure = str(failure)
        self.rounds.append(None)

    def record(self):
        """What a file of results says of it."""
        times = summary(self.rounds) or {}
        return {
            **self.about, "calls": self.calls,
            **{name: significant(value) for name, value in times.items()},
            "rounds": [significant(time) for time in self.rounds],
        }


def interleave(entries, pace):
    """Runs every entry once a round, each round in another order.

    The order is shuffled, so that nobody always follows the same neighbour.
    The pace says how many rounds there are and how long a turn is.
    """
    pace.timing(len(entries))
    for number in range(pace.rounds):
        order = list(entries)
        random.Random(number).shuffle(order)
        for entry in order:
            entry.run(pace.seconds)
            pace.turned()
        if pace.enough(number + 1):
            return


def summary(rounds):
    """Median and quartiles over the rounds that succeeded, or None."""
    times = sorted(value for value in rounds if value is not None)
    if not times:
        return None
    if len(times) == 1:
        return {"median": times[0], "low": times[0], "high": times[0]}
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def ratio(numerator, denominator):
    """The median over rounds of a quotient of times of the same round.

    None if they have no round in common.
    """
    quotients = [
        a / b for a, b in zip(numerator, denominator)
        if a is not None and b is not None
    ]
    return statistics.median(quotients) if quotients else None


def geometric_mean(values):
    """None of nothing."""
    values = list(values)
    if not values:
        return None
    return math.exp(statistics.fmean(math.log(value) for value in values))


def machine():
    """What the times depend on, without names of hosts or users."""
    model, flags = platform.machine(), []
    for line in _lines("/proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            model = value.strip()
        elif name.strip() == "flags":
            flags = value.split()
    known = (
        "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16",
        "avx512_fp16", "amx_tile",
    )
    caches = {}
    for index in sorted(
        pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")
    ):
        level, kind, size = (
            (index / name).read_text().strip()
            for name in ("level", "type", "size")
        )
        if kind != "Instruction":
            caches[f"L{level}"] = size
    memory = [line.split()[1] for line in _lines("/proc/meminfo")
              if line.startswith("MemTotal:")]
    return {
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "instruction sets": [flag for flag in known if flag in flags],
        "caches": caches,
        "memory GiB": round(int(memory[0]) / 2**20) if memory else None,
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
    }


def _lines(path):
    try:
        return pathlib.Path(path).read_text().splitlines()
    except OSError:
        return []


def start_record(**settings):
    """The part of a result file that says what was run, where and when."""
    return {
        "schema": SCHEMA, "started": _now(), "machine": machine(),
        "settings": settings, "versions": {}, "results": [],
        "interrupted": False,
    }


def finish_record(record):
    record["finished"] = _now()
    record["load average"] = round(os.getloadavg()[0], 2)


def _now():
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.isoformat(timespec="seconds")


def load(path):
    """The records of a file of results by section; none if there is no file."""
    path = pathlib.Path(path)
    return json.loads(path.read_text()) if path.exists() else {}


def save(path, section, record):
    """Puts a record into a file of results beside the sections it has."""
    path = pathlib.Path(path)
    records = dict(sorted({**load(path), section: record}.items()))
    # A reader never sees half a file.
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(records, indent=1) + "\n")
    temporary.replace(path)


def significant(value, digits=5):
    """A time or ratio with so many digits: results stay readable."""
    return None if value is None else float(f"{value:.{digits}g}")
