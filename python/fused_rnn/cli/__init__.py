"""The command `fused-rnn`, also `python -m fused_rnn`.

Each command is a module here with a function `add_parser(subparsers)`, which
adds the command's parser and sets its default `run`: a function from the
parsed arguments to the exit status.
"""

from __future__ import annotations

import argparse
import importlib
import sys

COMMANDS = ("info", "demo", "bench", "profile")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    # Not the caller's argv[0], which is a path under `python -m`.
    result = argparse.ArgumentParser(
        prog="fused-rnn", description="Fused recurrent layers for TensorFlow."
    )
    subparsers = result.add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    for name in COMMANDS:
        module = importlib.import_module(f"fused_rnn.cli.{name}")
        module.add_parser(subparsers)
    return result


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    from fused_rnn._library import LibraryError

    try:
        arguments = parser().parse_args(argv)
        return arguments.run(arguments) or 0
    except KeyboardInterrupt:
        return 130
    except LibraryError as error:
        print(f"fused-rnn: {error}", file=sys.stderr)
        return 1
