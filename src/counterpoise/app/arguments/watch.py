"""Arguments of ``counterpoise watch``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments.common import (
    add_history_argument,
    add_interval_argument,
    add_writer_arguments,
)
from counterpoise.app.client import add_admin_url_argument, add_client_arguments

DESCRIPTION = "Look at a Pulsar cluster through its admin API, and keep what is seen."

EPILOG = """\
examples:
  counterpoise watch --admin-url http://localhost:8080 --history ./history
      a look every five seconds, kept; a line whenever something changes
  counterpoise watch --admin-url http://localhost:8080 --history ./history --metrics 9109
      the same, with /metrics for Prometheus and /health

Nothing is decided and nothing moved; Spark is not needed. `counterpoise advise --history` makes a
plan of what was kept, `counterpoise backtest` plays strategies on it, and `counterpoise balance`
goes on from it.
Exit status: 0 when stopped, 2 for something to put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``watch``."""
    add_admin_url_argument(parser)
    add_history_argument(
        parser, "where it is kept: a directory, s3://bucket/path, gs://, hdfs:// or abfs://"
    )
    add_interval_argument(parser)
    parser.add_argument("--once", action="store_true", help="one look, and the end")
    add_writer_arguments(parser)
    add_client_arguments(parser)
