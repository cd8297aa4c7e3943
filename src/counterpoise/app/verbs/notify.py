"""``counterpoise notify``: test the webhook to which notices for an operator are sent."""

import argparse
import asyncio
from dataclasses import replace

import aiohttp

from counterpoise.app.errors import UserError
from counterpoise.app.notify_options import notify_options
from counterpoise.app.output import say
from counterpoise.app.progress import while_waiting
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.notify.webhook import NotifyOptions, deliver, notice_of_a_test

ANSWER_WITHIN_S = 10.0
"""Seconds that the webhook may take; it is tried once, since a person waits for the result."""


def run(args: argparse.Namespace) -> int:
    """Run ``notify``: send a test notice; raises `NotifyError` if the webhook refuses it."""
    options = notify_options(args)
    if options is None:
        raise UserError("--notify: name a webhook")
    asyncio.run(_send(options))
    say(f"{options.address} has taken a notice ({options.shape.value})")
    return 0


async def _send(options: NotifyOptions) -> None:
    once = replace(options, tries=1, timeout_s=ANSWER_WITHIN_S)
    async with aiohttp.ClientSession() as session:
        sent = deliver(session, once, notice_of_a_test(wall_clock_ms()))
        await while_waiting(sent, f"waiting for {options.address}")
