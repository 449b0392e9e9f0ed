"""Threads and instruction sets."""

from __future__ import annotations

from fused_rnn import _core


def set_num_threads(threads: int) -> None:
    """How many threads the functions of this module use at most, together with
    the calling one. Initially as many as the process has processors. Calls in
    progress keep what they started with.

    Raises:
      ValueError: threads is below 1 or above 1024.
    """
    _core.set_num_threads(threads)


def get_num_threads() -> int:
    """How many threads the functions of this module use at most."""
    return _core.get_num_threads()


def supported_isas() -> list[str]:
    """The instruction sets that kernels were compiled for and that this
    processor has, narrowest first."""
    return _core.supported_isas()


def active_isa() -> str:
    """The instruction set in use: ``FUSED_RNN_ISA`` of the environment, else
    the widest that is supported."""
    return _core.active_isa()


def select_isa(name: str) -> None:
    """Changes the instruction set in use, for tests and benchmarks. Not while
    a kernel runs.

    Raises:
      ValueError: this processor has no such instruction set, or none was
        compiled; the message names the valid ones.
    """
    _core.select_isa(name)
