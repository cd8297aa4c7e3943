"""Arguments of ``counterpoise report``."""

import argparse
from pathlib import Path

from counterpoise.app.arguments import common

DESCRIPTION = "A week of a cluster's load balancing as one page, plots first."

EPILOG = """\
examples:
  counterpoise rollup ./history && counterpoise report ./history --html week.html
      the last seven days that were recorded
  counterpoise report s3://bucket/history --from 2026-11-01 --to 2026-11-30 --html november.html
      those days

The page shows how even the brokers were, the load of each, the moves and their effect, the busiest
bundles, rejected moves with their reasons, and gaps in the history. It is one file that needs no
network. It is made from the gold tables, so `counterpoise rollup` has to run before it.
Exit status: 0, or 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``report``."""
    parser.add_argument("history", metavar="HISTORY", help="the history's path or URI")
    parser.add_argument(
        "--html", type=Path, required=True, metavar="FILE", help="the page to write"
    )
    common.add_span(parser)
