"""``counterpoise drain``: empty a broker before it is stopped, bundle by bundle and verified."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING

import aiohttp

from counterpoise.app.addresses import admin_urls
from counterpoise.app.client import add_admin_url_argument, add_client_arguments, client_security
from counterpoise.app.conf import settings_from
from counterpoise.app.errors import UserError
from counterpoise.app.numbers import count
from counterpoise.app.output import say, surviving_closed_output
from counterpoise.app.packages import needed_by
from counterpoise.app.strategies import find_placement
from counterpoise.decide.balancing.drain import DrainPlan, DrainRules
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.security.client import http_session

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers
    from counterpoise.pipeline.drive.drain import BrokerDrain, DrainResult
    from counterpoise.pipeline.drive.snapshot import SnapshotReader

EXIT_LEFT = 1
HTTP_TIMEOUT_S = 60.0

EPILOG = """\
examples:
  counterpoise drain broker-3:8080 --admin-url http://localhost:8080
      where each of its bundles would go, and why; nothing is touched
  counterpoise drain broker-3:8080 --admin-url http://localhost:8080 --execute
      the same, carried out; each new owner is asked whether it is the owner

Isolation policies, anti-affinity groups, failure domains and the cluster's own settings are read
from the cluster and heeded. What fails is placed and tried again, --attempts times in all.
A broker that is empty is a broker still: new topics may come to it until it is stopped.
Exit status: 0 when nothing is left on it (or would be), 1 when something is, 2 for something to
put right.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``drain`` and its options."""
    parser = subparsers.add_parser(
        "drain",
        help="empty a broker before it is stopped",
        description="Move every bundle of a broker to others, through the cluster's admin API.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("broker", metavar="BROKER", help="host:port, as the cluster lists it")
    add_admin_url_argument(parser)
    parser.add_argument("--execute", action="store_true", help="move them (default: only say so)")
    parser.add_argument(
        "--placement",
        default="LeastUsage",
        metavar="NAME",
        help="where bundles go: LeastUsage (the default), one of Pulsar's, or module:Class",
    )
    parser.add_argument(
        "--at-once", type=count, default=4, metavar="N", help="bundles on their way at a time (4)"
    )
    parser.add_argument(
        "--attempts", type=count, default=3, metavar="N", help="how often a bundle is tried (3)"
    )
    parser.add_argument(
        "--partial", action="store_true", help="move what can go even if something cannot"
    )
    parser.add_argument("--json", action="store_true", help="plan and outcomes as one JSON object")
    add_client_arguments(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Plan, and carry it out with ``--execute``."""
    return asyncio.run(_run(args, admin_urls(args.admin_url)))


async def _run(args: argparse.Namespace, addresses: tuple[str, ...]) -> int:
    with needed_by("draining"):
        from counterpoise.pipeline.clock import wall_clock_ms
        from counterpoise.pipeline.drive.drain import BrokerDrain, DrainOptions, DrainRefusedError
        from counterpoise.pipeline.drive.snapshot import SnapshotReader
        from counterpoise.pipeline.policies import CannotSeeError
    options = DrainOptions(attempts=args.attempts, at_once=args.at_once, partial=args.partial)
    timeout = aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S)
    async with http_session(client_security(args), timeout=timeout) as session:
        reader = SnapshotReader(session, addresses, wall_clock_ms)
        log = (lambda sentence: None) if args.json else surviving_closed_output(say)
        try:
            rules = await _rules(reader, addresses, args)
            drain = BrokerDrain(session, reader, args.broker, rules, wall_clock_ms, log, options)
            return await _drain(drain, args)
        except (DrainRefusedError, CannotSeeError) as error:
            raise UserError(str(error)) from None


async def _rules(
    reader: SnapshotReader, addresses: tuple[str, ...], args: argparse.Namespace
) -> DrainRules:
    """The cluster's own settings; refuses to work against a shedder that works the other way."""
    from counterpoise.pipeline.collect.shedder import sheds_by_itself

    if args.execute and (reason := await sheds_by_itself(reader.admin, addresses)):
        raise UserError(reason)
    conf = await reader.policies.settings(addresses)
    placement = find_placement(args.placement)
    return DrainRules(
        placement,
        settings_from(placement.options, conf),
        settings_from(FilterOptions, conf),
    )


async def _drain(drain: BrokerDrain, args: argparse.Namespace) -> int:
    plan = await drain.plan()
    if not args.json:
        _show(plan, execute=args.execute)
    drained = await drain.carry_out(plan) if args.execute else None
    if args.json:
        sys.stdout.write(json.dumps(_json(plan, drained), indent=2) + "\n")
    elif drained is not None:
        _show_end(plan.broker, drained)
    left = plan.stuck if drained is None else drained.left
    return EXIT_LEFT if left else 0


def _show(plan: DrainPlan, *, execute: bool) -> None:
    from counterpoise.pipeline.drive.drain import sentence

    for broker, why in sorted(plan.silent.items()):
        say(f"{broker} does not answer, and is given nothing ({why})")
    for move in plan.moves:
        say(sentence(move))
    for each in plan.stuck:
        say(f"{each.subject} can go nowhere: {each.sentence}")
    if plan.bound:
        say(f"{len(plan.bound)} of the broker's own (heartbeats and the like) end with it")
    count = len(plan.moves)
    if not execute:
        what = "1 bundle" if count == 1 else f"{count} bundles"
        say(f"{what} would leave {plan.broker}; nothing was touched (--execute moves them)")


def _show_end(broker: str, drained: DrainResult) -> None:
    for bundle, why in drained.left.items():
        say(f"left: {bundle}: {why}")
    state = f"{len(drained.left)} bundles are left on it" if drained.left else "it is empty"
    count = len(drained.outcomes)
    say(f"{broker}: {count} attempt{'' if count == 1 else 's'}, {state}")


def _json(plan: DrainPlan, drained: DrainResult | None) -> dict[str, object]:
    found: dict[str, object] = {
        "broker": plan.broker,
        "executed": drained is not None,
        "moves": [{**m.decision.to_json(), "placement": m.placement} for m in plan.moves],
        "stuck": [each.to_json() for each in plan.stuck],
        "bound": list(plan.bound),
        "silent": dict(plan.silent),
    }
    if drained is not None:
        found["outcomes"] = [
            {
                "bundle": each.bundle,
                "destination": each.destination,
                "status": each.status.value,
                "owner": each.owner,
                "seconds": (each.ended_at_ms - each.started_at_ms) / 1000,
                "error": each.error,
            }
            for each in drained.outcomes
        ]
        found["left"] = dict(drained.left)
    return found
