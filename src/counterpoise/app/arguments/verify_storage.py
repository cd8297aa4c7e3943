"""Arguments of ``counterpoise verify-storage``."""

import argparse

from counterpoise.app.arguments import common

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
    common.file(parser, "directory", "where messages are stored", "DIR")
    common.add_json(parser, "the report")
