"""``counterpoise watch``: keep a cluster's history, and say what changes."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from counterpoise.app.addresses import admin_urls, listen_address
from counterpoise.app.client import add_admin_url_argument, add_client_arguments, client_security
from counterpoise.app.errors import UserError
from counterpoise.app.numbers import count
from counterpoise.app.output import say_with_time
from counterpoise.app.packages import needed_by
from counterpoise.app.signals import until_signal
from counterpoise.app.times import seconds, some_time

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers

EPILOG = """\
examples:
  counterpoise watch --admin-url http://localhost:8080 --history ./history
      a look every five seconds, kept; a line whenever something changes
  counterpoise watch --admin-url http://localhost:8080 --history ./history --metrics 9109
      the same, with /metrics for Prometheus and /health

Nothing is decided and nothing moved; Spark is not needed. `counterpoise advise --history` makes a
plan of what was kept, `counterpoise backtest` plays strategies on it, and `counterpoise balance`
goes on from it.
Exit status: 0 when stopped, 2 for something to put right.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``watch`` and its options."""
    parser = subparsers.add_parser(
        "watch",
        help="keep a cluster's history",
        description="Look at a Pulsar cluster through its admin API, and keep what is seen.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_admin_url_argument(parser)
    parser.add_argument(
        "--history",
        required=True,
        metavar="URI",
        help="where it is kept: a directory, s3://bucket/path, gs://, hdfs:// or abfs://",
    )
    parser.add_argument(
        "--interval", type=some_time, default=5.0, metavar="TIME", help="between two looks (5s)"
    )
    parser.add_argument("--once", action="store_true", help="one look, and the end")
    parser.add_argument(
        "--metrics", metavar="[HOST:]PORT", help="serve /metrics and /health (HOST: 127.0.0.1)"
    )
    parser.add_argument(
        "--watchdog", action="store_true", help="alert as `counterpoise watchdog` does"
    )
    parser.add_argument(
        "--retain-days", type=count, default=0, metavar="DAYS", help="how many days stay (all)"
    )
    parser.add_argument(
        "--wait-for-history",
        type=seconds,
        default=0.0,
        metavar="TIME",
        help="how long to wait for another writer to release the history (default 0)",
    )
    add_client_arguments(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Watch until SIGTERM or Ctrl-C."""
    with needed_by("a history"):
        from counterpoise.pipeline.history.faults import HistoryFaultError
        from counterpoise.pipeline.history.keeping import KeepingOptions
        from counterpoise.pipeline.history.lease import HistoryInUseError, LeaseOptions
        from counterpoise.pipeline.history.outage import through_outages
        from counterpoise.pipeline.watch.serve import CannotListenError
        from counterpoise.pipeline.watch.watcher import (
            ClusterWatcher,
            NothingSeenError,
            WatchSettings,
        )
    settings = WatchSettings(
        addresses=admin_urls(args.admin_url),
        history=args.history,
        security=client_security(args),
        poll_every_s=args.interval,
        once=args.once,
        metrics=listen_address(args.metrics),
        watchdog=args.watchdog,
        keeping=KeepingOptions(retain_days=args.retain_days),
        lease=LeaseOptions(wait_s=args.wait_for_history),
    )
    try:
        first = ClusterWatcher(settings, say_with_time)
        patient = replace(settings, lease=settings.lease.after_an_outage())
        say_with_time(f"watching {args.admin_url}; nothing is touched")
        run = partial(
            through_outages,
            first,
            lambda: ClusterWatcher(patient, say_with_time),
            tell=say_with_time,
        )
        asyncio.run(until_signal(run))
    except (
        HistoryInUseError, HistoryFaultError, NothingSeenError, CannotListenError, ValueError
    ) as error:  # fmt: skip
        raise UserError(str(error)) from None
    say_with_time("stopped")
    return 0
