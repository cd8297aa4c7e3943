"""Arguments of ``counterpoise balance``."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.arguments.rules import RULES, add_rules, usual
from counterpoise.app.numbers import count
from counterpoise.app.times import seconds

DESCRIPTION = "Watch a Pulsar cluster through its admin API and balance its brokers."

EPILOG = """\
examples:
  counterpoise balance --admin-url http://localhost:8080 --history ./history
      a dry run: what would be moved, where to, and why; nothing is moved
  counterpoise balance --admin-url http://localhost:8080 --history ./history --execute
      the same, and bundles are moved; each new owner is verified
  counterpoise balance --admin-url http://localhost:8080 --history ./history --once
      one poll and one round
  counterpoise balance --admin-url http://localhost:8080 --history ./history --execute \\
          --plan plan.json
      only the moves of `counterpoise advise --save plan.json`, which you approve

The history is Parquet tables (reports, ownership, rounds, decisions, rejections, outcomes, memory),
by day. A balancer that is restarted on it, or on a copy, continues where the last one stopped.
Exit status: 0 when stopped, 2 for an error to correct, 3 when the stream failed.
"""

_OF_PLANS = ("valid_for", "partial")
"""Options that have an effect only with ``--plan``."""

_NOT_OF_PLANS = (
    "strategy",
    "placement",
    "master",
    "spark_conf",
    "shards",
    "interval",
    "decide_every",
    "grace_period",
    "thrash_span",
    "costly_span",
    "once",
    "metrics",
    "watchdog",
    "console",
    "retain_days",
    "time_travel_days",
)
"""Options without effect with ``--plan``, since a plan contains its own moves."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``balance``."""
    common.add_admin_url(parser)
    common.add_history(
        parser,
        "where what was seen, decided and done is kept, and resumed from; made if need be: "
        "a directory, s3://bucket/path, gs://, hdfs:// or abfs://",
    )
    common.add_strategy(parser)
    common.add_client(parser)
    common.add_conf(parser)
    common.add_spark(parser)
    _add_shards(parser)
    _add_times(parser)
    mode = parser.add_mutually_exclusive_group()
    common.flag(mode, "--execute", "carry the decisions out")
    common.flag(mode, "--dry-run", "only print the moves (the default)")
    add_rules(parser)
    _add_plan_arguments(parser)
    common.flag(parser, "--once", "poll once, make one round, and end")
    common.add_writer(parser)
    parser.add_argument(
        "--console",
        type=int,
        metavar="PORT",
        help="also serve a web page about the cluster and the history (0: a free port)",
    )
    parser.set_defaults(
        idle_without_plan=usual(parser, _OF_PLANS),
        idle_with_plan=usual(parser, _NOT_OF_PLANS),
        idle_in_dry_run=usual(parser, RULES),
    )


def _add_times(parser: argparse.ArgumentParser) -> None:
    common.add_interval(parser)
    parser.add_argument(
        "--decide-every",
        type=seconds,
        metavar="TIME",
        help="time between two rounds (default: loadBalancerSheddingIntervalMinutes)",
    )
    parser.add_argument(
        "--grace-period",
        type=seconds,
        metavar="TIME",
        help=(
            "for how long a moved bundle is not moved again (default: "
            "loadBalancerSheddingGracePeriodMinutes)"
        ),
    )
    common.add_thrash_span(parser, 3 * 3600)
    common.add_costly_span(parser)


def _add_shards(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shards",
        type=count,
        default=2,
        metavar="N",
        help="into how many parts the bundles are divided, each folded by a core (default 2; one "
        "for 50,000 bundles is plenty)",
    )


def _add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    plan = parser.add_argument_group("an approved plan")
    common.file(
        plan,
        "--plan",
        "carry out this plan of `advise --save` (without --execute: only check it against the "
        "cluster), and end; status 1 if some steps were not carried out",
    )
    plan.add_argument(
        "--valid-for",
        type=seconds,
        default=3600.0,
        metavar="TIME",
        help="how old the plan's loads may be (default 1h)",
    )
    common.flag(
        plan, "--partial", "carry out the steps that still fit the cluster, even if others do not"
    )
