"""Makes the tables of docs/performance.md from a file of results.

    python benchmarks/report.py docs/performance.json docs/performance.md

A table stands between a line `<!-- table: SECTION ARGUMENT... -->` and the
next `<!-- end -->`; everything else in the page is left as it is. No number
of a table is typed by hand.
"""

import argparse
import json
import pathlib
import re
import sys

import checkout  # noqa: F401
from fused_rnn.bench import tables


def cell(record):
    """The table of a run of cell.py."""
    import cell as benchmark

    return benchmark.page(record)


def scaling(record, subject):
    """One table of a run of scaling.py."""
    import scaling as benchmark

    return benchmark.page(record, subject)


def render(records, words):
    """The text of one table."""
    section, *arguments = words.split()
    record = records.get(section)
    if record is None:
        return "Not measured yet.\n"
    kind = section.split("-")[0]
    return {"rivals": tables.rivals, "cell": cell, "scaling": scaling}[kind](
        record, *arguments
    )


def fill(page, records):
    """The page with every table made anew.

    Raises:
      ValueError: a table has no end.
    """
    pattern = re.compile(
        r"(<!-- table: ([^\n]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL
    )
    opened, closed = page.count("<!-- table: "), page.count("<!-- end -->")
    if opened != closed:
        raise ValueError(f"the page has {opened} tables and {closed} ends")
    return pattern.sub(
        lambda match: f"{match[1]}\n{render(records, match[2])}\n{match[4]}",
        page,
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument(
        "--check", action="store_true",
        help="write nothing; exit with 1 if the page is not what it would be",
    )
    options = parser.parse_args(arguments)
    records = {}
    if options.results.exists():
        records = json.loads(options.results.read_text())
    page = options.page.read_text()
    made = fill(page, records)
    if options.check:
        return int(made != page)
    options.page.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
