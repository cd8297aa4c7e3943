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
from counterpoise.app.numbers import factor, named_count, named_factor, surplus

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
  counterpoise backtest ./history --brokers +2 --load x1.5
      what if two brokers more had to carry half as much again?
  counterpoise backtest ./history --usage-at-most 70
      how many brokers does this load need?
  counterpoise backtest synthetic:rolling-restart,brokers=100,bundles=10000,hours=24
      load that is made up: diurnal, heavy-tailed, bursty, scale-out, rolling-restart, hot-bundle,
      heterogeneous, constant, giant-bundle, dominated, outliers, even-counts,
      system-topics

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
    _add_change_arguments(parser)
    parser.add_argument(
        "--spans", type=int, default=1, metavar="N", help="cut the time into so many plays"
    )
    parser.add_argument(
        "--step",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how far a play of made-up load goes at a time (60); a recording is played by 5 s",
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


def _add_change_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what if the cluster were another one")
    group.add_argument(
        "--brokers", type=surplus, default=0, metavar="+N", help="so many brokers more"
    )
    group.add_argument(
        "--without", action="append", default=[], metavar="BROKER", help="without a broker"
    )
    group.add_argument(
        "--load",
        type=factor,
        default=1.0,
        metavar="xF",
        help="every bundle carries F times as much",
    )
    group.add_argument(
        "--capacity",
        action="append",
        default=[],
        type=named_factor,
        metavar="BROKER=F",
        help="a broker is F times as large: 0.5 is half",
    )
    group.add_argument(
        "--bundles",
        action="append",
        default=[],
        type=named_count,
        metavar="TENANT/NS=N",
        help="a namespace is made of N bundles; its topics are taken to be equally busy",
    )
    group.add_argument(
        "--usage-at-most",
        type=float,
        metavar="PERCENT",
        help="how many brokers it takes, until the fullest one uses no more of its processor and "
        "network for 95 %% of the time; by the first strategy",
    )
