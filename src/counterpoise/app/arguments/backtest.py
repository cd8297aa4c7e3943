"""Arguments of ``counterpoise backtest``."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.numbers import factor, named_count, named_factor, surplus

EVERY = (
    "ThresholdShedder,OverloadShedder,UniformLoadShedder,AvgShedder,TransferShedder,Counterpoise"
)

DESCRIPTION = "Replay recorded or synthetic load under strategies and settings, and rank them."

EPILOG = """\
examples:
  counterpoise backtest ./history
      every strategy on the recorded load, ranked
  counterpoise backtest ./history --strategies ThresholdShedder/LeastLongTermMessageRate \\
          --grid loadBalancerBrokerThresholdShedderPercentage=5,10,20 --plot trade.png
      each strategy with each value; SHEDDER/PLACEMENT names both
  counterpoise backtest ./history --compare old.conf new.conf
      the effect of this change on the cluster
  counterpoise backtest ./history --compare pulsar-4.0 pulsar-next --conf broker.conf
      the effect of this upgrade; settings in broker.conf stay as they are
  counterpoise backtest ./history --from 2026-11-16 --to 2026-11-23
      last week alone
  counterpoise backtest ./history --brokers +2 --load x1.5
      two brokers more, and half as much load again
  counterpoise backtest ./history --usage-at-most 70
      how many brokers this load needs
  counterpoise backtest synthetic:rolling-restart,brokers=100,bundles=10000,hours=24
      synthetic load: diurnal, heavy-tailed, bursty, scale-out, rolling-restart, hot-bundle,
      heterogeneous, constant, giant-bundle, dominated, outliers, even-counts,
      system-topics

max/mean is the largest broker's bytes/s ÷ the brokers' mean, averaged over time. The score is what
exceeds 1 of it, plus the load moved in an hour. A star marks results that no other beats in both.
Exit status: 0, or 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``backtest``."""
    parser.add_argument("source", metavar="HISTORY", help="a history's URI, or synthetic:KIND[,…]")
    parser.add_argument("--strategies", metavar="A,B/C", help=f"what is tried (default: {EVERY})")
    common.repeated(parser, "--grid", "NAME=V1,V2", "try every value of a setting; may be repeated")
    parser.add_argument(
        "--compare",
        nargs=2,
        metavar=("NOW", "THEN"),
        help="two broker.conf files, or two versions' defaults (pulsar-4.0, pulsar-next; --conf "
        "and --set on top), as Pulsar's own leader would balance by them",
    )
    common.flag(
        parser,
        "--as-pulsar",
        "place what is shed as Pulsar's own leader does, not as `balance`: "
        "loadBalancerLoadPlacementStrategy among the brokers with the fewest bundles of the "
        "namespace, the bundle's own included",
    )
    common.add_conf(parser)
    common.add_span(parser)
    _add_change_arguments(parser)
    parser.add_argument(
        "--spans", type=int, default=1, metavar="N", help="split the time into so many replays"
    )
    parser.add_argument(
        "--step",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="step of a synthetic load in seconds (60); a recording is replayed in steps of 5 s",
    )
    common.add_move_seconds(parser)
    common.add_thrash_span(parser, 0, "no such guard, as in Pulsar's leader")
    parser.add_argument("--seed", type=int, default=1, help="seed of all random choices")
    common.add_json(parser, "the results")
    common.file(parser, "--save", "write the results as a table: .parquet or .csv")
    common.file(parser, "--plot", "draw the trade-off")
    common.flag(
        parser,
        "--optimum",
        "compare each strategy with the best possible result for as many moves, in the plot as "
        "well (needs the extra `optimum`)",
    )
    common.add_spark(
        parser,
        None,
        ("Spark's master; without it, small backtests run in this process, and others on local[*]"),
    )


def _add_change_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("changes of the cluster")
    group.add_argument(
        "--brokers", type=surplus, default=0, metavar="+N", help="so many brokers more"
    )
    common.repeated(group, "--without", "BROKER", "without a broker")
    group.add_argument(
        "--load",
        type=factor,
        default=1.0,
        metavar="xF",
        help="multiply the load of every bundle by F",
    )
    common.repeated(
        group,
        "--capacity",
        "BROKER=F",
        ("multiply a broker's capacity by F: 0.5 is half"),
        named_factor,
    )
    common.repeated(
        group,
        "--bundles",
        "TENANT/NS=N",
        "give a namespace N bundles; topics whose load was not recorded are assumed equally busy",
        named_count,
    )
    group.add_argument(
        "--usage-at-most",
        type=float,
        metavar="PERCENT",
        help="how many brokers it takes, until the fullest one uses no more of its processor and "
        "network for 95 %% of the time; by the first strategy",
    )
