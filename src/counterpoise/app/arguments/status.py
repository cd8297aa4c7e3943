"""Arguments of ``counterpoise status``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "The last look, the last round, and what came of the last hour's moves."

EPILOG = """\
examples:
  counterpoise status --history ./history
  counterpoise status --history s3://bucket/history --json
  counterpoise status --fleet fleet.toml
      a line for each cluster of the file, asked all at once

Everything is read from the history, so it works wherever the balancer runs, and when it does not.
With --fleet the clusters are asked as well; one that does not answer is a line, too.
Exit status: 0, or 2 for something to put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``status``."""
    common.add_history(parser, "the balancer's history", required=False)
    common.add_fleet(parser)
    common.add_json(parser, "the status")
