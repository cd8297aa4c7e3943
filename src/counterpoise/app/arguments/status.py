"""Arguments of ``counterpoise status``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments.common import (
    add_fleet_arguments,
    add_history_argument,
    add_json_argument,
)

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
    add_history_argument(parser, "the balancer's history", required=False)
    add_fleet_arguments(parser)
    add_json_argument(parser, "the status")
