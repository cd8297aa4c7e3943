"""``counterpoise top``: which rate limits throttle which clients, live."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from counterpoise.app.addresses import admin_urls
from counterpoise.app.client import client_security
from counterpoise.app.cluster_admin import broker_ids
from counterpoise.app.errors import UserError
from counterpoise.app.output import commanded, one_line
from counterpoise.app.progress import while_waiting
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.collect.words import error_text
from counterpoise.security.client import ANONYMOUS, ClientSecurity, http_session

TIMEOUT_S = 5.0
CLEAR = "\x1b[H\x1b[2J"
EXIT_UNASKED = 1
HTTP_NOT_FOUND = 404
APACHES = (
    "{} does not list clients that wait at limits, as Apache's brokers do not: its metric "
    "pulsar_publish_rate_limit_times counts how often a topic's limit was reached"
)
Limit = Mapping[str, Any]


def run(args: argparse.Namespace) -> int:
    """Run ``top``: show the rate limits at which clients wait, until interrupted."""
    if args.interval <= 0:
        raise UserError("--interval must be more than 0")
    urls, security = admin_urls(args.admin_url), client_security(args)
    before: dict[tuple[str, str, str], tuple[int, int]] = {}
    asked = time.monotonic()
    while True:
        found, complaints, answered = asyncio.run(
            while_waiting(
                limits_of(urls, security, args.timeout or TIMEOUT_S), "asking the brokers"
            )
        )
        now = time.monotonic()
        lines = screen(found, before, now - asked, everything=args.all, answered=answered)
        lines += complaints
        before = {_key(who, it): (it["passed_messages"], it["passed_bytes"]) for who, it in found}
        asked = now
        if not args.once:
            commanded(sys.stdout).write(CLEAR)
        sys.stdout.write("\n".join(map(one_line, lines)) + "\n")
        sys.stdout.flush()
        if args.once:
            return EXIT_UNASKED if complaints else 0
        time.sleep(args.interval)


async def limits_of(
    urls: Sequence[str], security: ClientSecurity = ANONYMOUS, timeout_s: float = TIMEOUT_S
) -> tuple[list[tuple[str, Limit]], list[str], int]:
    """Ask every broker for its rate limits.

    Returns the limits with their brokers' ids, a sentence for each broker that does not list its
    limits, and the number of brokers that do. Raises `UserError` if no address answers.
    """
    found: list[tuple[str, Limit]] = []
    complaints, answered = [], 0
    async with http_session(security, timeout_s) as session:
        admin = Admin(session, AdminOptions(timeout_s=timeout_s))
        for broker in await _brokers(admin, urls):
            path = "/admin/v2/broker-stats/throttling"
            try:
                limits = json.loads(await admin.get(web_address(broker, urls) + path))
                screen([(broker, limit) for limit in limits], {}, 0, everything=True)
            except RefusedError as error:
                unknown = error.status == HTTP_NOT_FOUND
                complaints.append(
                    APACHES.format(broker) if unknown else f"{broker}: {error_text(error)}"
                )
            except (*UNREADABLE, ValueError) as error:
                complaints.append(f"{broker} does not answer: {error_text(error)}")
            except (AttributeError, KeyError, TypeError):
                complaints.append(f"{broker} answers something else than its limits")
            else:
                answered += 1
                found += [(broker, limit) for limit in limits]
    return found, complaints, answered


async def _brokers(admin: Admin, urls: Sequence[str]) -> list[str]:
    """Return the broker ids that the first responding address lists; raises `UserError`."""
    refusals = []
    for url in urls:
        try:
            asked = f"{url}/admin/v2/brokers"
            return broker_ids(asked, json.loads(await admin.get(asked)))
        except (*UNREADABLE, ValueError) as error:
            refusals.append(f"{url}/admin/v2/brokers cannot be asked: {error_text(error)}")
    raise UserError("; ".join(refusals))


def screen(
    found: Iterable[tuple[str, Limit]],
    before: Mapping[tuple[str, str, str], tuple[int, int]],
    seconds: float,
    *,
    everything: bool = False,
    answered: int = 1,
) -> list[str]:
    """The lines that ``top`` shows of these limits: of those in use, or with ``everything`` of all.

    A limit is in use if a client waits at it. Rates are the difference to the counters of messages
    and bytes in ``before``, ``seconds`` ago; ``answered`` is how many brokers listed their limits.
    """
    lines = [f"{'LIMIT':<21} {'OF':<42} {'RATE':>24} {'PASSES':>24} {'WAITING':>8} {'WAITED':>10}"]
    shown = 0
    for broker, limit in found:
        waiting = _waiting(limit)
        if not waiting and not everything:
            continue
        shown += 1
        level = limit["level"].removesuffix("Rate")
        known = before.get(_key(broker, limit))
        passes = "-"
        if known is not None and seconds > 0:
            passes = _rates(
                (limit["passed_messages"] - known[0]) / seconds,
                (limit["passed_bytes"] - known[1]) / seconds,
            )
        period_s = limit.get("period_s", 1)
        allowed = _rates(limit["messages"] / period_s, limit["bytes"] / period_s)
        lines.append(
            f"{level:<21} {limit['subject'][-42:]:<42} {allowed:>24} {passes:>24} "
            f"{len(waiting):>8} {limit['seconds']:>8.1f} s"
        )
        lines += waiting
    if shown or not answered:
        return lines
    return [*lines, "no client waits at a limit"]


def _waiting(limit: Limit) -> list[str]:
    """Return a line for each producer and subscription that waits at a limit."""
    return [
        f"  {each['name'][-38:]:<38} {each['address']} on {each['topic']}: "
        f"{each['held_entries']} entries, {each['held_bytes']:,} bytes, for {each['seconds']:.1f} s"
        for each in limit["producers"]
    ] + [
        f"  {each['name'][-38:]:<38} of {each['topic']}: {each['behind']:,} entries behind, "
        f"for {each['seconds']:.1f} s"
        for each in limit.get("subscriptions", ())
    ]


def _key(broker: str, limit: Limit) -> tuple[str, str, str]:
    return broker, limit["level"], limit["subject"]


def _rates(messages: float, size: float) -> str:
    parts = [f"{messages:,.0f} msg/s"] if messages else []
    return ", ".join([*parts, *([f"{size:,.0f} B/s"] if size else [])]) or "0"
