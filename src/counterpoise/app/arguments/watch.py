"""Arguments of ``counterpoise watch``."""

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Poll a Pulsar cluster through its admin API, and record its load."

EPILOG = """\
examples:
  counterpoise watch --admin-url http://localhost:8080 --history ./history
      a poll every five seconds, recorded; a line whenever something changes
  counterpoise watch --admin-url http://localhost:8080 --history ./history --metrics 9109
      the same, with /metrics for Prometheus and /health

Nothing is decided and nothing moved; Spark is not needed. `counterpoise advise --history` makes a
plan from the history, `counterpoise backtest` replays strategies on it, and `counterpoise balance`
continues it.
Exit status: 0 when stopped, 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``watch``."""
    common.add_admin_url(parser)
    common.add_history(
        parser, "the history: a directory, s3://bucket/path, gs://, hdfs:// or abfs://"
    )
    common.add_interval(parser)
    common.flag(parser, "--once", "poll once, and end")
    common.add_writer(parser)
    common.add_client(parser)
