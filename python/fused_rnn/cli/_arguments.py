"""Types of the commands' arguments, with messages that say what is expected."""

import argparse

from fused_rnn.bench import cases


def number(kind, expected):
    """A number above 0; `expected` says so in words."""

    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < float("inf"):
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
