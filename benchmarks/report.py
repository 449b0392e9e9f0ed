"""Makes the tables of README.md and docs/ from a file of results.

    python benchmarks/report.py docs/performance.json \\
        docs/performance.md docs/numerics.md README.md \\
        --plot docs/performance.png

A table stands between a line `<!-- table: SECTION ARGUMENT... -->` and the
next `<!-- end -->`; everything else in the page is left as it is. No number
of a table is typed by hand. The plots are of the section that `fused-rnn bench`
adds to a file of results.
"""

import argparse
import pathlib
import re
import sys

import checkout  # noqa: F401
from fused_rnn.bench import harness, summary, tables


def cell(record):
    """The table of a run of cell.py."""
    import cell as benchmark

    return benchmark.page(record)


def scaling(record, subject):
    """One table of a run of scaling.py."""
    import scaling as benchmark

    return benchmark.page(record, subject)


def kernels(record, subject):
    """One table of a run of kernels.py."""
    import kernels as benchmark

    return benchmark.page(record, subject)


def rivals(record, subject):
    """The tables of one mode of a run of rivals.py, or the short one."""
    if subject == "summary":
        return summary.speed(record)
    return tables.rivals(record, subject)


def bench(record, subject):
    """What a run of `fused-rnn bench` says of the machine, or its plots."""
    if subject == "limits":
        return summary.limits(record)
    # main() draws the file.
    return f"![{subject}](performance.png)\n\n{tables.where(record)}\n"


KINDS = {
    "accuracy": summary.accuracy, "bench": bench, "cell": cell,
    "core": summary.core, "kernels": kernels, "rivals": rivals, "scaling": scaling,
}


def render(records, words):
    """The text of one table."""
    section, *arguments = words.split()
    record = records.get(section)
    if record is None:
        return "Not measured yet.\n"
    return KINDS[section.split("-")[0]](record, *arguments)


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
    parser.add_argument("pages", type=pathlib.Path, nargs="+")
    parser.add_argument(
        "--check", action="store_true",
        help="write nothing; exit with 1 if a page is not what it would be",
    )
    parser.add_argument("--plot", metavar="FILE.png", help="draw the plots too")
    options = parser.parse_args(arguments)
    records = harness.load(options.results)
    differ = False
    for path in options.pages:
        page = path.read_text()
        made = fill(page, records)
        differ |= made != page
        if not options.check:
            path.write_text(made)
    if options.plot and not options.check:
        if "bench" not in records:
            parser.error(f"{options.results} has no run of `fused-rnn bench`")
        from fused_rnn.bench import figures

        figures.draw(records["bench"], options.plot)
    return int(options.check and differ)


if __name__ == "__main__":
    sys.exit(main())
