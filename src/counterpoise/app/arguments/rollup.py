"""Arguments of ``counterpoise rollup``."""

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Roll a history up into its gold tables, day by day, on Spark."

EPILOG = """\
examples:
  counterpoise rollup ./history
      every day that has changed since; once an hour from cron is often enough
  counterpoise rollup s3://bucket/history --master spark://host:7077
      on a cluster, whose executors need no counterpoise

Gold tables are Delta tables beside the others, partitioned by day: gold_bundle_hours,
gold_bundle_days, gold_namespace_hours, gold_namespace_days, gold_broker_hours, gold_broker_days,
gold_imbalance, gold_hot_bundles, gold_moves, gold_rejections, gold_gaps, gold_bundle_features.
A day is replaced whole, in one commit for each table, so a run that was cut off is simply run
again. A day stays when the history no longer has it. A balancer may run meanwhile.
Exit status: 0, or 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rollup``."""
    parser.add_argument("history", metavar="HISTORY", help="the history's path or URI")
    common.flag(parser, "--again", "also replace days that have not changed")
    common.add_spark(parser, "local[*]", "Spark's master (local[*])")
