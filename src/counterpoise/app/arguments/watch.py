"""Arguments of ``counterpoise watch``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments import common

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
    common.add_admin_url(parser)
    common.add_history(
        parser, "where it is kept: a directory, s3://bucket/path, gs://, hdfs:// or abfs://"
    )
    common.add_interval(parser)
    common.flag(parser, "--once", "one look, and the end")
    common.add_writer(parser)
    common.add_timeout(parser)
    common.add_client(parser)
