"""``counterpoise watchdog``: what is wrong with a cluster although it answers."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import aiohttp

from counterpoise.app.addresses import admin_urls, listen_address
from counterpoise.app.client import add_admin_url_argument, add_client_arguments, client_security
from counterpoise.app.errors import UserError
from counterpoise.app.output import say_with_time
from counterpoise.app.packages import needed_by
from counterpoise.app.signals import until_signal
from counterpoise.app.times import seconds, some_time
from counterpoise.security.client import http_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from counterpoise.app.main import Subparsers
    from counterpoise.pipeline.watch.metrics import Metrics
    from counterpoise.pipeline.watchdog.watchdog import Watchdog

EXIT_FOUND = 1

EPILOG = """\
examples:
  counterpoise watchdog --admin-url http://localhost:8080
      looks for half a minute, says what was wrong all the time, and ends with status 1 if anything
  counterpoise watchdog --admin-url http://localhost:8080 --follow --metrics 9110
      goes on looking; an alert for each thing that begins to be wrong, a line when it is over
  counterpoise watchdog --admin-url http://localhost:8080 --remedy \\
          --service-url pulsar://localhost:6650
      reads the bundle state channel, too (extensible load manager), and does what is safe: looks
      up a bundle that no broker owns, unloads one that its owner does not serve

It finds: no leader, several, one that does not shed; a bundle that two brokers own, that none
owns though it carried load, that its recorded owner does not serve, that is stuck in between.
It never repairs two owners: which broker to stop is for a person to decide.
Exit status: 0 nothing is wrong (or --follow was stopped), 1 something is, 2 something to put right.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``watchdog`` and its options."""
    parser = subparsers.add_parser(
        "watchdog",
        help="what is wrong with a cluster, and what would help",
        description="Look for bundles and leaders that are stuck although brokers answer.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_admin_url_argument(parser)
    parser.add_argument(
        "--service-url", metavar="URL", help="pulsar://…, to read the bundle state channel"
    )
    parser.add_argument(
        "--interval", type=some_time, default=5.0, metavar="TIME", help="between two looks (5s)"
    )
    parser.add_argument(
        "--patience",
        type=seconds,
        default=30.0,
        metavar="TIME",
        help="how long something has to look wrong (30s)",
    )
    parser.add_argument("--follow", action="store_true", help="go on until stopped")
    parser.add_argument(
        "--remedy", action="store_true", help="look up and unload where that is safe"
    )
    parser.add_argument("--json", action="store_true", help="what is wrong at the end, as JSON")
    parser.add_argument(
        "--metrics", metavar="[HOST:]PORT", help="serve /metrics and /health (HOST: 127.0.0.1)"
    )
    add_client_arguments(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Look for as long as it takes."""
    with needed_by("the watchdog"):
        from counterpoise.pipeline.watch.serve import CannotListenError
    found: list[int] = []

    async def look(stop: asyncio.Event) -> None:
        found.append(await _look(args, stop))

    try:
        asyncio.run(until_signal(look))
    except CannotListenError as error:
        raise UserError(str(error)) from None
    return found[0] if found else 0


async def _look(args: argparse.Namespace, stop: asyncio.Event) -> int:
    from counterpoise.pipeline.clock import wall_clock_ms
    from counterpoise.pipeline.collect.collector import Collector
    from counterpoise.pipeline.collect.told import trouble
    from counterpoise.pipeline.watch.changes import Changes
    from counterpoise.pipeline.watch.metrics import Metrics
    from counterpoise.pipeline.watch.serve import serving

    addresses = admin_urls(args.admin_url)
    say = (lambda _: None) if args.json else say_with_time
    metrics = Metrics(wall_clock_ms, args.interval)
    changes = Changes(lambda _: None)
    first = None
    async with (
        serving(metrics, listen_address(args.metrics)),
        http_session(client_security(args)) as session,
        _watchdog(args, session, addresses, say, metrics) as watchdog,
    ):
        collector = Collector(session, addresses, wall_clock_ms)
        while not stop.is_set():
            rows = await collector.poll()
            if (reason := trouble(rows)) and not args.follow:
                raise UserError(reason)
            await watchdog.take(rows)
            changes.take(rows)
            metrics.polled(rows, changes)
            looked = int(rows["poll_id"][0])
            first = looked if first is None else first
            # By when the looks began: one that takes long, as a broker hangs, is one look still.
            if not args.follow and looked - first >= args.patience * 1000:
                break
            try:
                await asyncio.wait_for(stop.wait(), args.interval)
            except TimeoutError:
                continue
    return _report(args, watchdog, say)


def _report(args: argparse.Namespace, watchdog: Watchdog, say: Callable[[str], None]) -> int:
    from counterpoise.load.fields import to_json

    if args.json:
        sys.stdout.write(json.dumps([to_json(each) for each in watchdog.findings], indent=2) + "\n")
    elif not watchdog.findings:
        say("nothing is wrong")
    return EXIT_FOUND if watchdog.findings and not args.follow else 0


@asynccontextmanager
async def _watchdog(
    args: argparse.Namespace,
    session: aiohttp.ClientSession,
    addresses: tuple[str, ...],
    say: Callable[[str], None],
    metrics: Metrics,
) -> AsyncIterator[Watchdog]:
    from counterpoise.decide.watchdog.observation import WatchdogOptions
    from counterpoise.pipeline.bundle_lookup import BundleLookup
    from counterpoise.pipeline.collect.admin import Admin, AdminOptions
    from counterpoise.pipeline.collect.where import web_address
    from counterpoise.pipeline.watchdog.look import Looker
    from counterpoise.pipeline.watchdog.watchdog import Watchdog

    channel = None
    if args.service_url:
        with needed_by("reading the bundle state channel", "demo"):
            from counterpoise.pipeline.watchdog.channel import Channel

            channel = Channel(args.service_url, say)
    admin = Admin(session, AdminOptions())
    options = WatchdogOptions(patience_ms=round(args.patience * 1000))
    where = partial(web_address, addresses=addresses)
    try:
        yield Watchdog(
            session,
            BundleLookup(admin, where),
            Looker(admin, addresses, channel.read if channel else None),
            where,
            say,
            options,
            args.remedy,
            metrics,
        )
    finally:
        if channel is not None:
            channel.close()
