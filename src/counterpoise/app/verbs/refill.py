"""``counterpoise refill``: move bundles to brokers that carry too little, whatever thresholds."""

import argparse
import asyncio
import contextlib
import json
import sys
from dataclasses import replace

import aiohttp

from counterpoise.app.addresses import admin_urls
from counterpoise.app.client import client_session
from counterpoise.app.conf import settings_from
from counterpoise.app.errors import UserError
from counterpoise.app.files import writing_file
from counterpoise.app.histories import trail_of
from counterpoise.app.output import say_with_time, surviving_closed_output
from counterpoise.app.progress import while_waiting
from counterpoise.app.verbs.balance_plan import report_outcome
from counterpoise.app.verbs.rules import moves_of, rules_of
from counterpoise.decide.advice.plan import AdvisedPlan
from counterpoise.decide.advice.planned import AdviceOptions, advise
from counterpoise.decide.balancing.approval import HOUR_MS
from counterpoise.decide.balancing.refill import FillBrokers
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.pipeline.advise.plan_inputs import connections_of, move_time, move_time_by_hand
from counterpoise.pipeline.advise.text import lines_of
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionRefusedError, NewAction
from counterpoise.pipeline.drive.approved import ApprovedOptions, ApprovedPlan, CarriedOut
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions, writing
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.journal import Journal
from counterpoise.pipeline.tables.location import Location, open_location
from counterpoise.pipeline.tables.schema import JournalKind

VALID_FOR_S = 3600.0


def run(args: argparse.Namespace) -> int:
    """Run ``refill``: plan the refill, show it, and carry it out with ``--execute``."""
    if args.execute and not args.history:
        raise UserError(
            "--execute needs --history URI: what is moved is kept there, and its balancer knows it"
        )
    return asyncio.run(_run(args, admin_urls(args.admin_url)))


async def _run(args: argparse.Namespace, addresses: tuple[str, ...]) -> int:
    location = open_location(args.history) if args.history else None
    async with client_session(args) as session:
        plan = await _plan(
            args, SnapshotReader(session, addresses, wall_clock_ms), addresses, location
        )
        if args.save:
            with writing_file(args.save):
                args.save.write_text(json.dumps(plan.to_json(), indent=2) + "\n", encoding="utf-8")
        _show(args, plan)
        if not args.execute or not plan.steps or location is None:
            return 0
        return report_outcome(
            args, plan, await _carry_out(args, session, addresses, location, plan)
        )


async def _plan(
    args: argparse.Namespace,
    reader: SnapshotReader,
    addresses: tuple[str, ...],
    location: Location | None,
) -> AdvisedPlan:
    settings = reader.policies.settings(addresses)
    conf, rules = await while_waiting(settings, "reading the cluster"), rules_of(args)
    goal = FillBrokers(args.broker, settings_from(FilterOptions, conf), rules.leave_alone)
    reading = reader.read(args.broker[0], all_groups=True)
    snapshot = await while_waiting(reading, "reading the cluster")
    if reason := goal.refusal(snapshot):
        raise UserError(reason)
    now_ms = wall_clock_ms()
    journal = Journal(TablesReader(location)) if location else None
    moved = journal.moved_since(now_ms - HOUR_MS) if journal else ()
    rows = journal.rows(JournalKind.OUTCOME) if journal else []
    trail = trail_of(args.history, may_be_new=True)
    by_hand = trail.actions() if trail else ()
    return advise(
        replace(snapshot, connections=connections_of(reader.state), source=", ".join(addresses)),
        goal,
        move_time_by_hand(
            by_hand,
            ActionKind.REFILL,
            move_time(rows, at_once=AdviceOptions().at_once, by_hand=by_hand),
        ),
        now_ms,
        options=AdviceOptions(rounds=1, rules=rules, moved_before=moved),
        notes=tuple(f"{each} is given nothing: {why}" for each, why in snapshot.silent.items()),
    )


def _show(args: argparse.Namespace, plan: AdvisedPlan) -> None:
    if args.json:
        sys.stdout.write(json.dumps(plan.to_json(), indent=2) + "\n")
        return
    sys.stdout.write("\n".join(lines_of(plan)) + "\n")
    if not args.execute:
        sys.stdout.write("\nnothing was moved (--execute moves them)\n")
    elif not plan.steps:
        sys.stdout.write("\nnothing is moved\n")


async def _carry_out(
    args: argparse.Namespace,
    session: aiohttp.ClientSession,
    addresses: tuple[str, ...],
    location: Location,
    plan: AdvisedPlan,
) -> CarriedOut:
    say = (lambda _: None) if args.json else surviving_closed_output(say_with_time)
    options = ApprovedOptions(
        execute=True,
        valid_for_s=VALID_FOR_S,
        partial=args.partial,
        fills=args.broker,
        rules=rules_of(args),
        moves=moves_of(args),
    )
    waits = HeartbeatOptions(wait_s=args.wait_for_history)
    async with writing(location, waits) as writer:
        approved = ApprovedPlan(session, addresses, writer, plan, wall_clock_ms, say, options)
        carried = await approved.carry_out()
        action = NewAction(trail_of(args.history, may_be_new=True), ActionKind.REFILL)
        # While moves are paused no action is recorded, so that cordoned brokers stay cordoned.
        with contextlib.suppress(ActionRefusedError):
            for broker in args.broker:
                async with action.recorded(wall_clock_ms, broker) as log:
                    for outcome in carried.outcomes:
                        if outcome.destination == broker:
                            await log.record(outcome)
        return carried
