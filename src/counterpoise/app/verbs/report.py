"""``counterpoise report``: a page about a week, or other days, of a history."""

import argparse
import sys
from datetime import UTC, date, datetime

from counterpoise.app.files import expect_writable, writing_file
from counterpoise.app.times import span_ms
from counterpoise.pipeline.report.page import page_of, summary_of
from counterpoise.pipeline.report.recorded_days import read_days
from counterpoise.pipeline.tables.location import open_location

PAGES = (".html", ".htm")


def run(args: argparse.Namespace) -> int:
    """Run ``report``: write an HTML page about the days in the gold tables; print a summary."""
    expect_writable("--html", args.html, PAGES)
    first_ms, last_ms = span_ms(args.first, args.last)
    first = _day(first_ms) if args.first else None
    # --to is exclusive: up to midnight means up to the day before.
    last = _day(last_ms - 1) if args.last else None
    shown = read_days(open_location(args.history), first, last)
    with writing_file(args.html):
        args.html.write_text(page_of(shown), encoding="utf-8")
    sys.stdout.write("\n".join([*summary_of(shown), f"The page is {args.html}."]) + "\n")
    return 0


def _day(at_ms: int) -> date:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()
