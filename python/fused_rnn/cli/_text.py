"""Text to learn from: Python sources, as numbers."""

from __future__ import annotations

import pathlib
import sysconfig

import numpy as np

# Stands for every character too rare to learn.
RARE = "\N{REPLACEMENT CHARACTER}"


class TextError(Exception):
    """There is nothing to learn from; the message says what to do."""


def sources(folder=None):
    """The Python files of a folder, of the standard library unless given.

    Raises:
      TextError: there is no such file.
    """
    where = pathlib.Path(folder or sysconfig.get_path("stdlib"))
    if where.is_file():
        return [where]
    installed = {"site-packages", "dist-packages"}
    files = sorted(
        path for path in where.rglob("*.py")
        if not installed & set(path.relative_to(where).parts)
    )
    if not files:
        raise TextError(
            f"there are no Python files in {where}: name a file or a folder of"
            " Python files with --text"
        )
    return files


def read(files, limit, seed):
    """Files in a random order, up to `limit` characters; and how many files."""
    order = np.random.default_rng(seed).permutation(len(files))
    parts, size = [], 0
    for i in order:
        # The standard library's own tests hold files in odd encodings.
        part = files[i].read_text(encoding="utf-8", errors="replace")
        parts.append(part)
        size += len(part)
        if size >= limit:
            break
    return "".join(parts)[:limit], len(parts)


class Vocabulary:
    """Characters as numbers: those that are not rare, and one for the rest.

    Args:
      text: what to learn the characters from.
      share: a character below this share of the text is rare.
    """

    def __init__(self, text, share=1e-5):
        points = _points(text)
        found, counts = np.unique(points, return_counts=True)
        frequent = found[counts >= max(1.0, share * len(points))]
        frequent = frequent[frequent != ord(RARE)]
        self._points = np.append(frequent, np.uint32(ord(RARE)))

    def __len__(self):
        return len(self._points)

    def encode(self, text):
        """[len(text)] int32."""
        points = _points(text)
        rare = len(self) - 1
        index = np.searchsorted(self._points[:-1], points)
        index = np.minimum(index, max(rare - 1, 0))
        known = self._points[index] == points
        return np.where(known, index, rare).astype(np.int32)

    def decode(self, tokens):
        """The text of these numbers."""
        return "".join(chr(self._points[token]) for token in tokens)


def _points(text):
    # Lone surrogates cannot be encoded, and errors="replace" makes none.
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def batches(tokens, batch, length, seed):
    """Endless pairs (characters, the characters after them), [batch, length].

    Raises:
      TextError: the text is shorter than length + 1.
    """
    last = len(tokens) - length - 1
    if last < 0:
        raise TextError(
            f"the text has {len(tokens)} characters, too few for sequences of"
            f" {length}: choose a smaller --length or another --text"
        )
    rng = np.random.default_rng(seed)

    def endless():
        while True:
            start = rng.integers(0, last + 1, (batch, 1))
            window = tokens[start + np.arange(length + 1)]
            yield window[:, :-1], window[:, 1:]

    return endless()
