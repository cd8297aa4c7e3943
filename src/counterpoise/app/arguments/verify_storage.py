"""Arguments of ``counterpoise verify-storage``."""

from __future__ import annotations

import argparse
from pathlib import Path

from counterpoise.app.arguments.common import add_json_argument

DESCRIPTION = "Read every stored message below a directory and report what is damaged."

EPILOG = """\
examples:
  counterpoise verify-storage ./cluster/messages
      every ledger below that directory, one line each
  counterpoise verify-storage --json /backup/messages | jq '.logs[] | select(.sound | not)'

Exit status: 0 everything that was stored is there, 3 something is damaged or missing, 2 there is
no such directory. Nothing is changed. Run it on a copy or while no broker runs: beside a running
broker, an entry that is just being written may look unfinished.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``verify-storage``."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="where messages are stored")
    add_json_argument(parser, "the report")
