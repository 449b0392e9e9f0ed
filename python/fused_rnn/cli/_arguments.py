"""Types of the commands' arguments, with messages that say what is expected."""

import argparse

from fused_rnn.bench import cases


def number(kind, expected, least=None):
    """A number above 0, or not below `least`; `expected` says so in words."""

    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        enough = value > 0 if least is None else value >= least
        if not (enough and value < float("inf")):
            raise argparse.ArgumentTypeError(
                f"expected {expected}, got {text!r}"
            )
        return value

    return parse


def shape(text):
    """Batch, steps, inputs and units."""
    try:
        return cases.parse_shape(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
