"""A recurrence of fused_rnn against every other that a user could pick.

    python benchmarks/rivals.py --python rivals/bin/python --json results.json

Each library computes in a process of its own, only when its turn comes, the
same forward pass or forward pass with all gradients from the same arrays.
What it computes is compared with fused_rnn.reference first; who computes
something else is not timed. Times are medians of interleaved rounds; the unit
of the tables is the time of the bare matrix products, by MKL.
"""

import sys

import checkout  # noqa: F401
from fused_rnn.bench import cases, command, programs, tables


def parse(arguments):
    parser = command.parser(__doc__.split("\n")[0], rounds=11, budget=0.1)
    add = parser.add_argument
    add("--shapes", "--shape", nargs="+", type=cases.parse_shape,
        default=cases.SHAPES, metavar="B,T,I,H")
    programs.add_options(parser)
    options = command.parse(parser, arguments)
    try:
        programs.settle(options)
        return options, programs.select(options.only, options.without)
    except ValueError as error:
        parser.error(str(error))


def main(arguments=None):
    options, chosen = parse(arguments)

    def measure(record):
        with command.measuring(record) as (progress, folder):
            pace = command.pace_of(
                options, progress, programs.blocks(options, chosen)
            )
            programs.run(
                options, chosen, record, options.threads, pace, progress, folder
            )

    record = command.run(options, f"rivals-{options.threads}", measure)
    for mode in options.modes:
        print(tables.rivals(record, mode))
    return command.exit_code(record)


if __name__ == "__main__":
    sys.exit(main())
