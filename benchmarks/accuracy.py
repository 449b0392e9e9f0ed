"""How far from exact everybody's results are, in units in the last place.

    python benchmarks/accuracy.py --python rivals/bin/python --json results.json

Everybody computes once from the same float32 arrays; results are compared with
fused_rnn.reference in float64. Nothing is timed.
"""

import sys

import checkout  # noqa: F401
from fused_rnn.bench import cases, command, programs, summary

SHAPES = ((1, 1, 128, 256), (1, 100, 40, 128), (16, 100, 128, 256),
          (64, 50, 512, 512))


def main(arguments=None):
    parser = command.parser(__doc__.split("\n")[0])
    parser.add_argument("--shapes", "--shape", nargs="+",
                        type=cases.parse_shape, default=SHAPES,
                        metavar="B,T,I,H")
    programs.add_options(parser)
    options = command.parse(parser, arguments)
    if options.dtype == "float64":
        parser.error("the reference itself computes in float64")
    try:
        programs.settle(options)
        chosen = programs.select(options.only, options.without)
    except ValueError as error:
        parser.error(str(error))
    chosen.pop("bare", None)  # It computes products, no cell.

    def measure(record):
        with command.measuring(record) as (progress, folder):
            pace = command.pace_of(
                options, progress, programs.blocks(options, chosen)
            )
            programs.run(
                options, chosen, record, options.threads, pace, progress, folder
            )

    record = command.run(options, "accuracy", measure)
    print(summary.accuracy(record))
    return command.exit_code(record)


if __name__ == "__main__":
    sys.exit(main())
