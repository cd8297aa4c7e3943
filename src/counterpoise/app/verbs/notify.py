"""``counterpoise notify``: try the webhook that an operator is notified by."""

from __future__ import annotations

import argparse
import asyncio

import aiohttp

from counterpoise.app.errors import UserError
from counterpoise.app.notify_options import notify_options
from counterpoise.app.output import say
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.notify.webhook import NotifyOptions, deliver, notice_of_a_test


def run(args: argparse.Namespace) -> int:
    """Send one notice, and say that it was taken; raises `NotifyError`."""
    options = notify_options(args)
    if options is None:
        raise UserError("--notify: name a webhook")
    asyncio.run(_send(options))
    say(f"{options.address} has taken a notice ({options.shape.value})")
    return 0


async def _send(options: NotifyOptions) -> None:
    async with aiohttp.ClientSession() as session:
        await deliver(session, options, notice_of_a_test(wall_clock_ms()))
