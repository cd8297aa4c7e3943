"""``counterpoise watch``: record a cluster's load in a history, and print what changes."""

import argparse
import asyncio
from dataclasses import replace
from functools import partial

from counterpoise.app.addresses import admin_urls, listen_address
from counterpoise.app.client import client_security
from counterpoise.app.notify_options import notify_options
from counterpoise.app.output import say_with_time
from counterpoise.app.signals import until_signal
from counterpoise.pipeline.clock import HTTP_TIMEOUT_S
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions
from counterpoise.pipeline.tables.keeping import KeepingOptions
from counterpoise.pipeline.tables.outage import through_outages
from counterpoise.pipeline.watch.history_keeper import ClusterWatcher, WatchSettings


def run(args: argparse.Namespace) -> int:
    """Run ``watch``: record a cluster's load until SIGTERM or Ctrl-C."""
    settings = WatchSettings(
        addresses=admin_urls(args.admin_url),
        history=args.history,
        security=client_security(args),
        answer_within_s=args.timeout or HTTP_TIMEOUT_S,
        poll_every_s=args.interval,
        once=args.once,
        metrics=listen_address(args.metrics),
        watchdog=args.watchdog,
        notify=notify_options(args),
        keeping=KeepingOptions(
            retain_days=args.retain_days, time_travel_days=args.time_travel_days
        ),
        heartbeat=HeartbeatOptions(wait_s=args.wait_for_history),
    )
    first = ClusterWatcher(settings, say_with_time)
    patient = replace(settings, heartbeat=settings.heartbeat.after_an_outage())
    say_with_time(f"watching {args.admin_url}; nothing is touched")
    again = partial(ClusterWatcher, patient, say_with_time)
    asyncio.run(until_signal(partial(through_outages, first, again, report=say_with_time)))
    say_with_time("stopped")
    return 0
