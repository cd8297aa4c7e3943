"""Arguments of ``counterpoise backtest``."""

from __future__ import annotations

import argparse
from pathlib import Path

from counterpoise.app.arguments.common import (
    add_json_argument,
    add_move_seconds_argument,
    add_span_arguments,
    add_spark_arguments,
    add_thrash_span_argument,
)
from counterpoise.app.conf import add_conf_arguments

EVERY = (
    "ThresholdShedder,OverloadShedder,UniformLoadShedder,AvgShedder,TransferShedder,Counterpoise"
)

DESCRIPTION = "Play strategies and settings on recorded or made-up load, and rank them."

EPILOG = """\
examples:
  counterpoise backtest ./history
      every strategy on what was recorded, ranked
  counterpoise backtest ./history --strategies ThresholdShedder/LeastLongTermMessageRate \\
          --grid loadBalancerBrokerThresholdShedderPercentage=5,10,20 --plot trade.png
      each strategy with each value; SHEDDER/PLACEMENT names both
  counterpoise backtest ./history --compare old.conf new.conf
      what will this change do to my cluster?
  counterpoise backtest ./history --compare pulsar-4.0 pulsar-next --conf broker.conf
      what will this upgrade do to it? What broker.conf sets itself stays as it is
  counterpoise backtest ./history --from 2026-11-16 --to 2026-11-23
      last week alone
  counterpoise backtest synthetic:rolling-restart,brokers=100,bundles=10000,hours=24
      load that is made up: diurnal, heavy-tailed, bursty, scale-out, rolling-restart, hot-bundle,
      heterogeneous, constant, giant-bundle, outliers, even-counts, system-topics

max/mean is the largest broker's bytes/s by the brokers' mean, averaged over time; the score is how
far that is above 1, and the load moved in an hour. A star marks what nothing beats in both.
Exit status: 0, or 2 for something to put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``backtest``."""
    parser.add_argument("source", metavar="HISTORY", help="a history's URI, or synthetic:KIND[,…]")
    parser.add_argument("--strategies", metavar="A,B/C", help=f"what is tried (default: {EVERY})")
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="NAME=V1,V2",
        help="try every value of a setting; may be repeated",
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        metavar=("NOW", "THEN"),
        help="two broker.conf files, or two versions' defaults (pulsar-4.0, pulsar-next; --conf "
        "and --set on top), as Pulsar's own leader would balance by them",
    )
    parser.add_argument(
        "--as-pulsar",
        action="store_true",
        help="place what is shed as Pulsar's own leader does, not as `balance`: "
        "loadBalancerLoadPlacementStrategy among the brokers with the fewest bundles of the "
        "namespace, the bundle's own included",
    )
    add_conf_arguments(parser)
    add_span_arguments(parser)
    parser.add_argument(
        "--spans", type=int, default=1, metavar="N", help="cut the time into so many plays"
    )
    parser.add_argument(
        "--step",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how far the play goes at a time (60)",
    )
    add_move_seconds_argument(parser)
    add_thrash_span_argument(parser, 0, "without this guard, as Pulsar's leader")
    parser.add_argument("--seed", type=int, default=1, help="of all that is left to chance")
    add_json_argument(parser, "the results")
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="write the results as a table: .parquet or .csv"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the trade-off")
    parser.add_argument(
        "--optimum",
        action="store_true",
        help="how far each strategy is from the best possible with as many moves, and with "
        "--plot where (needs the extra `optimum`)",
    )
    add_spark_arguments(
        parser, None, "Spark's master; without one little is played here, and more on local[*]"
    )
