"""``counterpoise watchdog``: find faults of a cluster whose brokers still respond."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import aiohttp

from counterpoise.app.addresses import admin_urls, listen_address
from counterpoise.app.client import client_session
from counterpoise.app.errors import UserError
from counterpoise.app.notify_options import notify_options
from counterpoise.app.output import say_with_time
from counterpoise.app.packages import needed_by
from counterpoise.app.progress import while_waiting
from counterpoise.app.signals import until_signal
from counterpoise.decide.watchdog.observation import WatchdogOptions
from counterpoise.load.fields import to_json
from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.bundle_lookup import BundleLookup
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.admin import Admin, AdminOptions
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.poll_log import trouble
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.notify.notice import BalancerNotices, discard
from counterpoise.pipeline.notify.webhook import notifying
from counterpoise.pipeline.watch.changes import Changes
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watch.serve import serving
from counterpoise.pipeline.watchdog.channel import Channel
from counterpoise.pipeline.watchdog.observer import Observer
from counterpoise.pipeline.watchdog.watchdog import Watchdog

EXIT_FOUND = 1


def run(args: argparse.Namespace) -> int:
    """Run ``watchdog``: poll the cluster for as long as asked, and report faults."""
    return asyncio.run(until_signal(partial(_look, args)))


async def _look(args: argparse.Namespace, stop: asyncio.Event) -> int:
    addresses = admin_urls(args.admin_url)
    say = (lambda _: None) if args.json else say_with_time
    metrics = Metrics(wall_clock_ms, args.interval)
    changes = Changes(lambda _: None)
    first = None
    async with (
        serving(metrics, listen_address(args.metrics)),
        client_session(args) as session,
        _notices(args, say, metrics) as notices,
        _watchdog(args, session, addresses, say, metrics) as watchdog,
    ):
        watchdog.notices = notices
        collector = Collector(session, addresses, wall_clock_ms)
        while not stop.is_set():
            rows = await while_waiting(collector.poll(), "looking at the cluster")
            if (reason := trouble(rows)) and not args.follow:
                raise UserError(reason)
            await watchdog.judge_poll(rows)
            changes.log_poll(rows)
            metrics.polled(rows, changes)
            looked = int(rows["poll_id"][0])
            first = looked if first is None else first
            # Between the starts of polls: one poll, even if a broker hangs in it, is not enough.
            if not args.follow and looked - first >= args.patience * 1000:
                break
            try:
                await asyncio.wait_for(stop.wait(), args.interval)
            except TimeoutError:
                continue
    return _report(args, watchdog, say)


def _report(args: argparse.Namespace, watchdog: Watchdog, say: SentenceSink) -> int:
    if args.json:
        sys.stdout.write(json.dumps([to_json(each) for each in watchdog.findings], indent=2) + "\n")
    elif not watchdog.findings:
        say("nothing is wrong")
    return EXIT_FOUND if watchdog.findings and not args.follow else 0


@asynccontextmanager
async def _notices(
    args: argparse.Namespace, say: SentenceSink, metrics: Metrics
) -> AsyncIterator[BalancerNotices]:
    options = notify_options(args)
    if options is None:
        yield BalancerNotices(discard, wall_clock_ms)
        return
    async with notifying(options, say, metrics.notified) as sink:
        yield BalancerNotices(sink, wall_clock_ms)


@asynccontextmanager
async def _watchdog(
    args: argparse.Namespace,
    session: aiohttp.ClientSession,
    addresses: tuple[str, ...],
    say: SentenceSink,
    metrics: Metrics,
) -> AsyncIterator[Watchdog]:
    channel = None
    if args.service_url:
        with needed_by("reading the bundle state channel", "demo"):
            channel = Channel(args.service_url, say)
    admin = Admin(session, AdminOptions())
    options = WatchdogOptions(patience_ms=round(args.patience * 1000))
    where = partial(web_address, addresses=addresses)
    try:
        yield Watchdog(
            session,
            BundleLookup(admin, where),
            Observer(admin, addresses, channel.read if channel else None),
            where,
            say,
            options,
            args.remedy,
            metrics,
        )
    finally:
        if channel is not None:
            channel.close()
