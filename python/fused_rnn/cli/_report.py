"""What the demo says of its trainings: a table of losses, one of times, a plot.

Everywhere `runs` is a dict of `_training.Run` by the engine's name. The first
is the one that the others are compared with.
"""

from __future__ import annotations

import itertools

# Two float32 trainings from the same weights start with losses that differ by
# rounding only: some 1e-6 of a loss of 4 to 5. Later steps magnify that.
FIRST_LOSS_TOLERANCE = 1e-4

_LINES = ("-", "--", ":")


def disagreement(runs):
    """A sentence if the engines' first losses are not the same, or None."""
    (first, run), *others = runs.items()
    for name, other in others:
        difference = abs(run.losses[0] - other.losses[0])
        if not difference <= FIRST_LOSS_TOLERANCE:
            return (
                f"the losses of the first step differ by {difference:.1e}"
                f" between {first} and {name}, more than rounding explains"
            )
    return None


def print_losses(runs):
    """Prints the losses side by side."""
    print("\nLoss     step" + "".join(f"  {name:>10}" for name in runs))
    for step in _shown({len(run.losses) for run in runs.values()}):
        losses = (
            f"{run.losses[step - 1]:.4f}" if step <= len(run.losses) else ""
            for run in runs.values()
        )
        row = "".join(f"  {loss:>10}" for loss in losses)
        print(f"     {step:>8}{row}".rstrip())
    (first, run), *others = runs.items()
    for name, other in others:
        differences = [abs(a - b) for a, b in zip(run.losses, other.losses)]
        largest = max(differences)
        print(f"       largest difference {largest:.1e} between {first} and"
              f" {name}, at step {differences.index(largest) + 1} of"
              f" {len(differences)}")


def _shown(lengths):
    """The first step, and the fifths of each run."""
    fifths = {max(1, n * i // 5) for n in lengths for i in range(1, 6)}
    return sorted({1, *fifths})


def print_times(runs, characters):
    """Prints what a step of that many characters takes."""
    print("\nTime                 a step   characters/s")
    for name, run in runs.items():
        seconds = run.step_seconds()
        print(f"       {name:<10}{1e3 * seconds:>7.1f} ms  "
              f"{characters / seconds:>13,.0f}")
    (first, _), *others = runs.items()
    for name, _ in others:
        print(f"       speed-up  {_speed_up(runs, name):>7.2f}x   of {first}"
              f" over {name}")
    print("       (median of the steps after the first)")


def _speed_up(runs, name):
    """How many times as fast as that one the first is."""
    first = next(iter(runs.values()))
    return runs[name].step_seconds() / first.step_seconds()


def plot(runs, characters, path):
    """Draws loss over steps and over time, and the speeds of several engines.

    Returns:
      What to say of it: the path, or why nothing was drawn.
    """
    try:
        import matplotlib
    except ImportError:
        return ("not drawn, matplotlib is not installed: "
                "pip install 'fused-rnn[demo]'")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = 3 if len(runs) > 1 else 2
    figure, axes = pyplot.subplots(
        1, panels, figsize=(5 * panels, 4), layout="constrained"
    )
    for (name, run), style in zip(runs.items(), _LINES):
        axes[0].plot(range(1, len(run.losses) + 1), run.losses, style,
                     label=name)
        # The first step traces the graph; it would shift the whole curve.
        elapsed = itertools.accumulate([run.step_seconds(), *run.seconds[1:]])
        axes[1].plot(list(elapsed), run.losses, style, label=name)
    axes[0].set(xlabel="step", ylabel="loss, nats a character")
    # So the curves are the same one, a speed-up apart.
    axes[1].set(xlabel="seconds", xscale="log", ylim=axes[0].get_ylim())
    for axis in axes[:2]:
        axis.grid(alpha=0.3)
        axis.legend()
    if len(runs) > 1:
        _draw_speeds(axes[2], runs, characters)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path


def _draw_speeds(axis, runs, characters):
    speeds = [characters / run.step_seconds() for run in runs.values()]
    colours = [f"C{i}" for i in range(len(runs))]  # those of the curves
    first = next(iter(runs))
    labels = [f"{speed:,.0f}" for speed in speeds]
    for i, name in enumerate(runs):
        if name != first:
            labels[i] += f"\n{first} is {_speed_up(runs, name):.1f}x"
    axis.bar_label(axis.bar(list(runs), speeds, color=colours), labels)
    axis.set(ylabel="characters a second")
    axis.margins(y=0.15)
