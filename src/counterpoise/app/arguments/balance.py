"""Arguments of ``counterpoise balance``."""

from __future__ import annotations

import argparse
from pathlib import Path

from counterpoise.app.arguments.common import (
    add_history_argument,
    add_interval_argument,
    add_spark_arguments,
    add_strategy_arguments,
    add_thrash_span_argument,
    add_writer_arguments,
)
from counterpoise.app.arguments.rules import RULES, add_rules, usual
from counterpoise.app.client import (
    add_admin_url_argument,
    add_client_arguments,
)
from counterpoise.app.conf import add_conf_arguments
from counterpoise.app.numbers import count
from counterpoise.app.times import seconds

DESCRIPTION = "Watch a Pulsar cluster through its admin API and balance its brokers."

EPILOG = """\
examples:
  counterpoise balance --admin-url http://localhost:8080 --history ./history
      a dry run: what would be moved, where to, and why; nothing is touched
  counterpoise balance --admin-url http://localhost:8080 --history ./history --execute
      the same, and the bundles are moved; each new owner is checked
  counterpoise balance --admin-url http://localhost:8080 --history ./history --once
      one look, one answer
  counterpoise balance --admin-url http://localhost:8080 --history ./history --execute \\
          --plan plan.json
      what `counterpoise advise --save plan.json` proposed and you approve, and nothing else

The history is Parquet tables (reports, ownership, rounds, decisions, rejections, outcomes, memory),
by day; a balancer that is started again on it, or on a copy, goes on where the last one stopped.
Exit status: 0 when stopped, 2 for something to put right, 3 when the stream failed.
"""

_OF_PLANS = ("valid_for", "partial")

_NOT_OF_PLANS = (
    *("strategy", "placement", "master", "spark_conf", "shards", "interval", "decide_every"),
    *("grace_period", "thrash_span", "once", "metrics", "watchdog", "console", "retain_days"),
    "time_travel_days",
)
"""A plan says by itself who goes where."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``balance``."""
    add_admin_url_argument(parser)
    add_history_argument(
        parser,
        "where what was seen, decided and done is kept, and resumed from; made if need be: "
        "a directory, s3://bucket/path, gs://, hdfs:// or abfs://",
    )
    add_strategy_arguments(parser)
    add_client_arguments(parser)
    add_conf_arguments(parser)
    add_spark_arguments(parser)
    _add_shards(parser)
    _add_times(parser)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--execute", action="store_true", help="carry the decisions out")
    mode.add_argument("--dry-run", action="store_true", help="only say them (the default)")
    add_rules(parser)
    _add_plan_arguments(parser)
    parser.add_argument("--once", action="store_true", help="one look, one round, and the end")
    add_writer_arguments(parser)
    parser.add_argument(
        "--console",
        type=int,
        metavar="PORT",
        help="serve a web page about cluster and history, too (0: a free port)",
    )
    parser.set_defaults(
        idle_without_plan=usual(parser, _OF_PLANS),
        idle_with_plan=usual(parser, _NOT_OF_PLANS),
        idle_in_dry_run=usual(parser, RULES),
    )


def _add_times(parser: argparse.ArgumentParser) -> None:
    add_interval_argument(parser)
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
        help="how long a moved bundle stays (default: loadBalancerSheddingGracePeriodMinutes)",
    )
    add_thrash_span_argument(parser, 3 * 3600)


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
    plan.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="carry out this plan of `advise --save` (without --execute: hold it against the "
        "cluster only), and end; status 1 when some of it was left",
    )
    plan.add_argument(
        "--valid-for",
        type=seconds,
        default=3600.0,
        metavar="TIME",
        help="how old the loads may be that the plan rests on (default 1h)",
    )
    plan.add_argument(
        "--partial",
        action="store_true",
        help="carry out the steps that still fit the world, even if others do not",
    )
