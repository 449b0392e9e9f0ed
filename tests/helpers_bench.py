"""Records of runs of the bench that never ran."""

from fused_rnn.bench import harness

LIMITS = {
    "threads": 2, "instruction set": "avx512", "operations": 1e11,
    "bytes": [[1 << 15, 4e11], [1 << 20, 1e11], [1 << 27, 1e10]],
}


def result(name, shape, mode, convention, *rounds, **about):
    return {
        "name": name, "shape": list(shape), "mode": mode,
        "convention": convention, "status": "ok", "calls": 1,
        **harness.summary(rounds), "rounds": list(rounds), **about,
    }


def steady(name, shape, mode, seconds, threads=2, convention="after"):
    """What took the same time in both rounds."""
    return result(name, shape, mode, convention, seconds, seconds,
                  threads=threads)


def record_of(*results, **about):
    record = harness.start_record(
        threads=2, rounds=2, budget=0.1, dtype="float32"
    )
    return {**record, "results": list(results), "limits": [LIMITS],
            "versions": {"ours": {"fused_rnn": "0"}}, **about}
