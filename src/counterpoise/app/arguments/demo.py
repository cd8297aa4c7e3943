"""Arguments of ``counterpoise demo``."""

import argparse
from pathlib import Path

from counterpoise.app.arguments import common

DESCRIPTION = "Start a cluster, load it unevenly, and watch its balancer even it out."

EPILOG = """\
Three brokers and ZooKeeper start as processes of their own; the official client publishes to many
topics, most of the load to one broker; the leader's balancer, a Spark application, sees it and
moves bundles. At the end every message is counted.

Exit status: 0 when the imbalance has fallen by half and no message was lost, else 1; 2 for
an error to correct first.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``demo``."""
    common.number(parser, "--brokers", "N", int, 3, "how many")
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="longest time in seconds, from the balancer's first round (default 120)",
    )
    parser.add_argument(
        "--picture",
        type=Path,
        default=Path("counterpoise-demo.png"),
        metavar="FILE",
        help="the file for the plot of the load (default counterpoise-demo.png)",
    )
