"""Arguments of ``counterpoise status``."""

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "The last poll, the last round, and the outcomes of the last hour's moves."

EPILOG = """\
examples:
  counterpoise status --history ./history
  counterpoise status --history s3://bucket/history --json
  counterpoise status --fleet fleet.toml
      a line for each cluster of the file, polled concurrently

Everything is read from the history, so the balancer may run elsewhere, or not at all. With --fleet
the clusters are polled as well; one that does not respond has a line, too.
Exit status: 0, or 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``status``."""
    common.add_history(parser, "the balancer's history", required=False)
    common.add_fleet(parser)
    common.add_json(parser, "the status")
