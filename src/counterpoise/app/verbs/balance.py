"""``counterpoise balance``: watch a cluster, decide what to move, move it with ``--execute``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from counterpoise.app.addresses import admin_urls, listen_address
from counterpoise.app.client import (
    add_admin_url_argument,
    add_client_arguments,
    client_argv,
    client_security,
)
from counterpoise.app.conf import add_conf_arguments, conf_argv, read_conf
from counterpoise.app.errors import UserError
from counterpoise.app.numbers import count
from counterpoise.app.output import say_with_time
from counterpoise.app.packages import needed_by
from counterpoise.app.signals import until_signal
from counterpoise.app.strategies import find_placement, find_shedder, strategy_from
from counterpoise.app.times import seconds, some_time
from counterpoise.app.verbs.balance_plan import add_plan_arguments, run_plan
from counterpoise.app.verbs.rules import RULES, add_rules, refuse_idle, rules_of, usual
from counterpoise.names.properties import Properties

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers
    from counterpoise.pipeline.runner import RunSettings

EXIT_STREAM_FAILED = 3
THRASH_SPAN_S = 3 * 3600.0

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
)
"""A plan says by itself who goes where."""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``balance`` and its options."""
    parser = subparsers.add_parser(
        "balance",
        help="watch a cluster and balance it, on Spark",
        description="Watch a Pulsar cluster through its admin API and balance its brokers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_admin_url_argument(parser)
    parser.add_argument(
        "--history",
        required=True,
        metavar="URI",
        help="where what was seen, decided and done is kept, and resumed from; made if need be: "
        "a directory, s3://bucket/path, gs://, hdfs:// or abfs://",
    )
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help="a shedder: short name, Java class or module:Class (default: what --conf says)",
    )
    parser.add_argument(
        "--placement",
        default="LeastUsage",
        metavar="NAME",
        help="where bundles go: LeastUsage (the default), one of Pulsar's, or module:Class",
    )
    add_client_arguments(parser)
    add_conf_arguments(parser)
    add_spark_arguments(parser)
    _add_shards(parser)
    _add_times(parser)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--execute", action="store_true", help="carry the decisions out")
    mode.add_argument("--dry-run", action="store_true", help="only say them (the default)")
    add_rules(parser)
    add_plan_arguments(parser)
    parser.add_argument("--once", action="store_true", help="one look, one round, and the end")
    parser.add_argument(
        "--metrics", metavar="[HOST:]PORT", help="serve /metrics and /health (HOST: 127.0.0.1)"
    )
    parser.add_argument(
        "--watchdog", action="store_true", help="alert as `counterpoise watchdog` does"
    )
    _add_history_arguments(parser)
    parser.set_defaults(
        idle_without_plan=usual(parser, _OF_PLANS),
        idle_with_plan=usual(parser, _NOT_OF_PLANS),
        idle_in_dry_run=usual(parser, RULES),
    )
    return parser


def _add_times(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        type=some_time,
        default=5.0,
        metavar="TIME",
        help="time between two looks at the cluster, such as 5s or 500ms (default 5s)",
    )
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
    parser.add_argument(
        "--thrash-span",
        type=seconds,
        default=THRASH_SPAN_S,
        metavar="TIME",
        help="a bundle that came back within this time is left alone for as long (default 3h; 0: "
        "never)",
    )


def add_spark_arguments(
    parser: argparse.ArgumentParser,
    master: str | None = "local[*]",
    text: str = "Spark's master: local[*] (the default), spark://host:port, k8s://… or yarn",
) -> None:
    """Where Spark runs, and with which settings of its own."""
    parser.add_argument("--master", default=master, metavar="URL", help=text)
    parser.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark's, such as spark.driver.memory=4g; may be repeated",
    )


def _add_shards(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shards",
        type=count,
        default=2,
        metavar="N",
        help="into how many parts the bundles are divided, each folded by a core (default 2; one "
        "for 50,000 bundles is plenty)",
    )


def _add_history_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--console",
        type=int,
        metavar="PORT",
        help="serve a web page about cluster and history, too (0: a free port)",
    )
    parser.add_argument(
        "--retain-days",
        type=count,
        default=0,
        metavar="DAYS",
        help="how many days of history stay (default: all)",
    )
    parser.add_argument(
        "--wait-for-history",
        type=seconds,
        default=0.0,
        metavar="TIME",
        help="how long to wait for another balancer to release the history (default 0)",
    )


def run(args: argparse.Namespace) -> int:
    """Balance until SIGTERM or Ctrl-C, or carry out a plan."""
    if not args.execute:
        refuse_idle(args, args.idle_in_dry_run, "without --execute: nothing is moved")
    if args.plan:
        refuse_idle(args, args.idle_with_plan, "of a --plan")
        with needed_by("a plan"):
            return run_plan(args, rules_of(args))
    refuse_idle(args, args.idle_without_plan, "without --plan")

    def own(conf: Properties) -> tuple[type, type]:
        return find_shedder(args.strategy, conf).options, find_placement(args.placement).options

    with needed_by("the balancer"):
        from counterpoise.pipeline.history.faults import HistoryFaultError
        from counterpoise.pipeline.history.lease import HistoryInUseError
        from counterpoise.pipeline.history.outage import through_outages
        from counterpoise.pipeline.history.store import open_store
        from counterpoise.pipeline.runner import SparkBalancer
        from counterpoise.pipeline.stream.running import StreamFailedError
        from counterpoise.pipeline.stream.session import SessionError
        from counterpoise.pipeline.stream.trouble import sentence_of
        from counterpoise.pipeline.watch.serve import CannotListenError
        from counterpoise.pipeline.watch.watcher import NothingSeenError

    settings, strategy = (
        _settings(args),
        strategy_from(
            read_conf(args.conf, args.settings, own),
            shedder=args.strategy,
            placement=args.placement,
            decide_every_s=args.decide_every,
            grace_s=args.grace_period,
            thrash_span_s=args.thrash_span,
        ),
    )

    mode = "moves bundles" if settings.executor.execute else "dry run, nothing is touched"
    if args.settings:
        from counterpoise.app.settings.table import of_brokers_alone  # which imports every room

        for sentence in of_brokers_alone(args.settings, own(Properties())):
            say_with_time(sentence)
    say_with_time(f"balancing {args.admin_url} by {strategy.shedder.name} ({mode})")
    try:
        say_with_time(f"history in {open_store(settings.history).address}")
    except ValueError as error:
        raise UserError(str(error)) from None
    try:
        with _console(args):
            first = SparkBalancer(settings, strategy, say_with_time)
            patient = replace(settings, lease=settings.lease.after_an_outage())
            again = partial(SparkBalancer, patient, strategy, say_with_time)
            asyncio.run(until_signal(partial(through_outages, first, again, tell=say_with_time)))
    except (HistoryInUseError, NothingSeenError, CannotListenError) as error:
        raise UserError(str(error)) from None
    except (HistoryFaultError, SessionError) as error:
        raise UserError(f"{error} (details: {written(error)})") from None
    except StreamFailedError as error:
        sys.stderr.write(
            f"counterpoise: the stream ended by itself: {sentence_of(str(error))} (details: "
            f"{written(error)}); start again, and it goes on where it stopped\n"
        )
        return EXIT_STREAM_FAILED
    say_with_time("stopped")
    return 0


@contextlib.contextmanager
def _console(args: argparse.Namespace) -> Iterator[None]:
    """The console beside the balancer, if one was asked for."""
    if args.console is None:
        yield
        return
    from counterpoise.app.console_process import ConsoleProcess

    more = ["--history", args.history, *client_argv(args), *conf_argv(args)]
    console = ConsoleProcess(admin_urls(args.admin_url), port=args.console, more=more)
    say_with_time(f"console at {console.url}")
    try:
        yield
    finally:
        console.stop()


def _settings(args: argparse.Namespace) -> RunSettings:
    from counterpoise.pipeline.executor import ExecutorOptions
    from counterpoise.pipeline.history.keeping import KeepingOptions
    from counterpoise.pipeline.history.lease import LeaseOptions
    from counterpoise.pipeline.runner import RunSettings

    return RunSettings(
        addresses=admin_urls(args.admin_url),
        history=args.history,
        security=client_security(args),
        master=args.master,
        spark_conf=tuple(spark_setting(text) for text in args.spark_conf),
        shards=args.shards,
        poll_every_s=args.interval,
        executor=ExecutorOptions(execute=args.execute),
        once=args.once,
        metrics=listen_address(args.metrics),
        watchdog=args.watchdog,
        rules=rules_of(args),
        lease=LeaseOptions(wait_s=args.wait_for_history),
        keeping=KeepingOptions(retain_days=args.retain_days),
    )


def spark_setting(text: str) -> tuple[str, str]:
    """One of ``--spark-conf``; raises :class:`UserError`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"--spark-conf {text}: expected NAME=VALUE")
    return name.strip(), value.strip()


def written(error: BaseException) -> str:
    """The file that has an error's whole traceback."""
    handle, name = tempfile.mkstemp(prefix="counterpoise-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.writelines(traceback.format_exception(error))
    return name
