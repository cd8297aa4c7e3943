"""``counterpoise refill``: give load to brokers that carry too little, as no threshold would."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from counterpoise.app.addresses import admin_urls
from counterpoise.app.client import add_admin_url_argument, add_client_arguments, client_security
from counterpoise.app.conf import settings_from
from counterpoise.app.errors import UserError
from counterpoise.app.output import say_with_time, surviving_closed_output
from counterpoise.app.packages import needed_by
from counterpoise.app.times import seconds
from counterpoise.app.verbs.balance_plan import report_outcome
from counterpoise.app.verbs.rules import add_rules, rules_of
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.security.client import http_session

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers
    from counterpoise.decide.advice.plan import AdvisedPlan
    from counterpoise.pipeline.drive.approved import CarriedOut
    from counterpoise.pipeline.drive.snapshot import SnapshotReader
    from counterpoise.pipeline.history.store import Store

HTTP_TIMEOUT_S = 60.0
VALID_FOR_S = 3600.0

EPILOG = """\
examples:
  counterpoise refill broker-3:8080 --admin-url http://localhost:8080
      what it would be given, by whom, and what that costs; nothing is touched
  counterpoise refill broker-3:8080 --admin-url http://localhost:8080 \\
          --history ./history --execute --max-load-a-round 20%
      the same within rules, carried out; each new owner is asked whether it is the owner
  counterpoise refill broker-7:8080 broker-8:8080 --admin-url http://localhost:8080 --save plan.json
      two brokers that are new; `balance --execute --plan plan.json` carries it out

A broker that was restarted, or that is new, gets nothing of what runs already until some strategy's
threshold is crossed. This fills it to the mean, with few and large bundles from the brokers that
carry the most. Isolation policies, anti-affinity groups, failure domains and topic caps are read
from the cluster and obeyed. The history records what was done; hourly limits and a pause apply.
Exit status: 0, 1 when some of the plan was left, 2 for something to put right.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``refill`` and its options."""
    parser = subparsers.add_parser(
        "refill",
        help="give load to a broker that was restarted or is new",
        description="Move bundles to brokers that carry too little, until they carry the mean.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "broker", nargs="+", metavar="BROKER", help="host:port, as the cluster lists it"
    )
    add_admin_url_argument(parser)
    parser.add_argument(
        "--history", metavar="URI", help="the cluster's history; needed with --execute"
    )
    parser.add_argument("--execute", action="store_true", help="move them (default: only say so)")
    add_rules(parser)
    parser.add_argument(
        "--partial", action="store_true", help="go on with the rest where the world changed"
    )
    parser.add_argument(
        "--wait-for-history", type=seconds, default=0.0, metavar="TIME", help="as of `balance`"
    )
    parser.add_argument("--json", action="store_true", help="the plan as JSON")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the plan as JSON")
    add_client_arguments(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Plan, show, and carry it out with ``--execute``."""
    if args.execute and not args.history:
        raise UserError(
            "--execute needs --history URI: what is moved is kept there, and its balancer knows it"
        )
    with needed_by("refilling"):
        from counterpoise.pipeline.drive.approved import PlanRefusedError
        from counterpoise.pipeline.history.faults import HistoryFaultError
        from counterpoise.pipeline.history.lease import HistoryInUseError
        from counterpoise.pipeline.policies import CannotSeeError
    try:
        return asyncio.run(_run(args, admin_urls(args.admin_url)))
    except (
        PlanRefusedError, CannotSeeError, HistoryFaultError, HistoryInUseError, ValueError
    ) as error:  # fmt: skip
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None


async def _run(args: argparse.Namespace, addresses: tuple[str, ...]) -> int:
    from counterpoise.pipeline.clock import wall_clock_ms
    from counterpoise.pipeline.drive.snapshot import SnapshotReader
    from counterpoise.pipeline.history.store import open_store

    store = open_store(args.history) if args.history else None
    timeout = aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S)
    async with http_session(client_security(args), timeout=timeout) as session:
        plan = await _plan(
            args, SnapshotReader(session, addresses, wall_clock_ms), addresses, store
        )
        if args.save:
            args.save.write_text(json.dumps(plan.to_json(), indent=2) + "\n", encoding="utf-8")
        _show(args, plan)
        if not args.execute or not plan.steps or store is None:
            return 0
        return report_outcome(args, plan, await _carry_out(args, session, addresses, store, plan))


async def _plan(
    args: argparse.Namespace,
    reader: SnapshotReader,
    addresses: tuple[str, ...],
    store: Store | None,
) -> AdvisedPlan:
    from counterpoise.decide.advice.refilled import refilled
    from counterpoise.decide.balancing.approval import HOUR_MS
    from counterpoise.decide.balancing.refill import plan_refill, refill_refusal
    from counterpoise.pipeline.advise.look import connections_of, move_time
    from counterpoise.pipeline.clock import wall_clock_ms
    from counterpoise.pipeline.history.moved import moved_since
    from counterpoise.pipeline.history.tables import read_table

    conf = await reader.policies.settings(addresses)
    scene = await reader.read(args.broker[0], all_groups=True)
    if reason := refill_refusal(scene, args.broker):
        raise UserError(reason)
    rules, now_ms = rules_of(args), wall_clock_ms()
    found = plan_refill(scene, args.broker, settings_from(FilterOptions, conf), rules.leave_alone)
    rows: list[dict[str, Any]] = read_table(store, "outcomes") if store else []
    return refilled(
        found,
        scene,
        connections_of(reader.state),
        move_time(rows),
        now_ms,
        ", ".join(addresses),
        rules,
        moved_since(store, now_ms - HOUR_MS) if store else (),
    )


def _show(args: argparse.Namespace, plan: AdvisedPlan) -> None:
    from counterpoise.pipeline.advise.text import lines_of

    if args.json:
        sys.stdout.write(json.dumps(plan.to_json(), indent=2) + "\n")
        return
    sys.stdout.write("\n".join(lines_of(plan)) + "\n")
    if not args.execute:
        sys.stdout.write("\nnothing was touched (--execute moves them)\n")
    elif not plan.steps:
        sys.stdout.write("\nnothing is moved\n")


async def _carry_out(
    args: argparse.Namespace,
    session: aiohttp.ClientSession,
    addresses: tuple[str, ...],
    store: Store,
    plan: AdvisedPlan,
) -> CarriedOut:
    from counterpoise.pipeline.clock import wall_clock_ms
    from counterpoise.pipeline.drive.approved import ApprovedOptions, ApprovedPlan
    from counterpoise.pipeline.history.lease import LeaseOptions, lease
    from counterpoise.pipeline.history.version import expect_version

    say = (lambda _: None) if args.json else surviving_closed_output(say_with_time)
    options = ApprovedOptions(
        execute=True, valid_for_s=VALID_FOR_S, partial=args.partial, rules=rules_of(args)
    )
    waits = LeaseOptions(wait_s=args.wait_for_history)
    async with lease(store, lambda: None, waits) as mine:
        await asyncio.to_thread(expect_version, mine)
        approved = ApprovedPlan(session, addresses, mine, plan, wall_clock_ms, say, options)
        return await approved.carry_out()
