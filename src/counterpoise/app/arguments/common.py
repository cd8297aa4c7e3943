"""Arguments that several verbs share, each declared once."""

from __future__ import annotations

import argparse
from pathlib import Path

from counterpoise.app.numbers import count
from counterpoise.app.times import FROM_HELP, TO_HELP, seconds, some_time


def add_json_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """``--json``: ``what`` is written as JSON."""
    parser.add_argument("--json", action="store_true", help=f"{what} as JSON, for a script")


def add_history_argument(
    parser: argparse.ArgumentParser, what: str, *, required: bool = True
) -> None:
    """``--history``: ``what`` says whose it is and what for."""
    parser.add_argument("--history", required=required, metavar="URI", help=what)


def add_strategy_arguments(parser: argparse.ArgumentParser) -> None:
    """``--strategy`` and ``--placement``."""
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help="a shedder: short name, Java class, module:Class, or 'cluster' for the one that the "
        "cluster's own settings name (default: what --set or --conf say of "
        "loadBalancerLoadSheddingStrategy, else Counterpoise)",
    )
    add_placement_argument(parser)


def add_placement_argument(parser: argparse.ArgumentParser) -> None:
    """``--placement``."""
    parser.add_argument(
        "--placement",
        default="LeastUsage",
        metavar="NAME",
        help="where bundles go: LeastUsage (the default), one of Pulsar's, or module:Class",
    )


def add_interval_argument(parser: argparse.ArgumentParser, default_s: float = 5.0) -> None:
    """``--interval`` between two looks at a cluster."""
    parser.add_argument(
        "--interval",
        type=some_time,
        default=default_s,
        metavar="TIME",
        help=f"time between two looks at the cluster, such as 5s or 500ms ({default_s:g}s)",
    )


def add_thrash_span_argument(
    parser: argparse.ArgumentParser, default_s: float, note: str = "0: never"
) -> None:
    """``--thrash-span``."""
    default = f"{default_s / 3600:g}h" if default_s else "0"
    parser.add_argument(
        "--thrash-span",
        type=seconds,
        default=default_s,
        metavar="TIME",
        help="a bundle that came back within this time is left alone for as long "
        f"(default {default}; {note})",
    )


def add_at_once_argument(parser: argparse.ArgumentParser) -> None:
    """``--at-once``."""
    parser.add_argument(
        "--at-once", type=count, default=4, metavar="N", help="bundles that move side by side (4)"
    )


def add_move_seconds_argument(parser: argparse.ArgumentParser) -> None:
    """``--move-seconds``."""
    parser.add_argument(
        "--move-seconds", type=float, metavar="S", help="how long a move takes (default: as seen)"
    )


def add_span_arguments(parser: argparse.ArgumentParser) -> None:
    """``--from`` and ``--to``."""
    parser.add_argument("--from", dest="first", default="", metavar="TIME", help=FROM_HELP)
    parser.add_argument("--to", dest="last", default="", metavar="TIME", help=TO_HELP)


def add_metrics_argument(parser: argparse.ArgumentParser) -> None:
    """``--metrics``."""
    parser.add_argument(
        "--metrics", metavar="[HOST:]PORT", help="serve /metrics and /health (HOST: 127.0.0.1)"
    )


def add_notify_arguments(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """``--notify``, ``--notify-format`` and so on."""
    group = parser.add_argument_group("an operator is notified (findings, rounds, refusals, stops)")
    group.add_argument(
        "--notify",
        required=required,
        metavar="URL",
        help="a webhook; of Alertmanager the address alone",
    )
    group.add_argument(
        "--notify-format",
        choices=("json", "slack", "alertmanager"),
        default="json",
        help="what it expects (json)",
    )
    group.add_argument(
        "--notify-secret-file",
        type=Path,
        metavar="FILE",
        help="sign each body: X-Counterpoise-Signature: sha256=HMAC, in hexadecimal",
    )
    group.add_argument(
        "--notify-link", default="", metavar="URL", help="where to look: a console, a dashboard"
    )
    group.add_argument(
        "--notify-cluster", default="", metavar="NAME", help="the cluster's name in notices"
    )


def add_writer_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of verbs that write a history: ``--watchdog``, ``--metrics``, ``--retain-days``…"""
    add_metrics_argument(parser)
    parser.add_argument(
        "--watchdog", action="store_true", help="alert as `counterpoise watchdog` does"
    )
    parser.add_argument(
        "--retain-days",
        type=count,
        default=0,
        metavar="DAYS",
        help="how many days of history stay (default: all)",
    )
    parser.add_argument(
        "--time-travel-days",
        type=count,
        default=1,
        metavar="DAYS",
        help="how far back the history's tables can be read as they were (default: 1)",
    )
    add_wait_for_history_argument(parser)
    add_notify_arguments(parser)


def add_wait_for_history_argument(parser: argparse.ArgumentParser) -> None:
    """``--wait-for-history``."""
    parser.add_argument(
        "--wait-for-history",
        type=seconds,
        default=0.0,
        metavar="TIME",
        help="how long to wait for another writer to release the history (default 0)",
    )


def add_fleet_arguments(parser: argparse.ArgumentParser) -> None:
    """``--fleet`` and ``--within``."""
    parser.add_argument(
        "--fleet",
        metavar="FILE",
        help="several clusters side by side, each a [[cluster]] of this TOML file",
    )
    parser.add_argument(
        "--within",
        type=some_time,
        default=10.0,
        metavar="TIME",
        help="with --fleet: how long a cluster, or a history, may take to answer (10s)",
    )


def add_trail_arguments(parser: argparse.ArgumentParser) -> None:
    """``--history``, ``--who`` and ``--why`` of an operator's action."""
    add_history_argument(
        parser,
        "the balancer's history: what is done is kept there with who and why, heeds its pause, and "
        "counts in its hourly limits",
        required=False,
    )
    add_who_and_why_arguments(parser)


def add_who_and_why_arguments(parser: argparse.ArgumentParser) -> None:
    """``--who`` and ``--why``."""
    parser.add_argument("--who", default="", metavar="NAME", help="(this account)")
    parser.add_argument("--why", default="", metavar="TEXT", help="kept in the history")


def add_execute_argument(parser: argparse.ArgumentParser) -> None:
    """``--execute``."""
    parser.add_argument("--execute", action="store_true", help="move them (default: only say so)")


def add_save_argument(parser: argparse.ArgumentParser) -> None:
    """``--save``."""
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the plan as JSON")


def add_spark_arguments(
    parser: argparse.ArgumentParser,
    master: str | None = "local[*]",
    text: str = "Spark's master: local[*] (the default), spark://host:port, k8s://… or yarn",
) -> None:
    """``--master`` and ``--spark-conf``."""
    parser.add_argument("--master", default=master, metavar="URL", help=text)
    parser.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark's, such as spark.driver.memory=4g; may be repeated",
    )


def add_balance_option_argument(parser: argparse.ArgumentParser) -> None:
    """``--balance-option``, for verbs that start a balancer."""
    parser.add_argument(
        "--balance-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="an option of 'counterpoise balance' on Spark, such as --balance-option=--interval=1s",
    )


def add_log_level_argument(parser: argparse.ArgumentParser) -> None:
    """``--log-level`` of brokers."""
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="how much brokers log (default warning)",
    )
