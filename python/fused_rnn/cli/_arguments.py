"""Types of the commands' arguments, with messages that say what is expected,
and the help on them."""

import argparse

from fused_rnn.bench import cases


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Tells defaults, in the form in which one would type them."""

    def _get_help_string(self, action):
        if action.default is None or action.default is False:
            return action.help
        text = super()._get_help_string(action)
        if isinstance(action.default, (list, tuple)):
            typed = " ".join(map(str, action.default))
            text = text.replace("%(default)s", typed)
        return text


def number(kind, expected, least=None, most=None):
    """A number above 0, or not below `least`; `expected` says so in words."""

    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        enough = value > 0 if least is None else value >= least
        small = value < float("inf") if most is None else value <= most
        if not (enough and small):
            raise argparse.ArgumentTypeError(
                f"expected {expected}, got {text!r}"
            )
        return value

    return parse


COUNT = number(int, "a whole number above 0")
SIZE = number(float, "a number above 0")
SECONDS = number(float, "seconds above 0")
MINUTES = number(float, "minutes above 0")


def shape(text):
    """Batch, steps, inputs and units."""
    try:
        return cases.parse_shape(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
