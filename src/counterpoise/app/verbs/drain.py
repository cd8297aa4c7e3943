"""``counterpoise drain``: empty a broker before it is stopped, bundle by bundle and verified."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping

from counterpoise.app.addresses import admin_urls
from counterpoise.app.client import client_session
from counterpoise.app.conf import settings_from
from counterpoise.app.errors import UserError
from counterpoise.app.histories import trail_of
from counterpoise.app.output import say, surviving_closed_output
from counterpoise.app.progress import while_waiting
from counterpoise.app.strategies import find_placement
from counterpoise.app.verbs.rules import moves_of
from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.moves import Round
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.pipeline.advise.plan_inputs import move_time, move_time_by_hand
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.settings import sheds_by_itself
from counterpoise.pipeline.drive.action_trail import (
    NOT_KEPT,
    ActionKind,
    NewAction,
    cordoned,
    not_ended,
)
from counterpoise.pipeline.drive.drain import BrokerDrain, DrainOptions, DrainResult, sentence
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.journal import Journal
from counterpoise.pipeline.tables.schema import JournalKind

EXIT_LEFT = 1
READING = "reading the cluster"


def run(args: argparse.Namespace) -> int:
    """Run ``drain``: plan the drain, and carry it out with ``--execute``."""
    return asyncio.run(_run(args, admin_urls(args.admin_url)))


async def _run(args: argparse.Namespace, addresses: tuple[str, ...]) -> int:
    action = drain_action(args)
    if args.release:
        return _release(args, action)
    options = DrainOptions(args.attempts, partial=args.partial, moves=moves_of(args))
    async with client_session(args) as session:
        reader = SnapshotReader(session, addresses, wall_clock_ms)
        log = (lambda sentence: None) if args.json else surviving_closed_output(say)
        rules = await drain_rules(reader, addresses, args)
        drain = BrokerDrain(
            session, reader, args.broker, rules, wall_clock_ms, log, options, action
        )
        return await _drain(drain, args, action)


def drain_action(args: argparse.Namespace) -> NewAction:
    """Return the action to record: a drain or the end of a cordon, with ``--who`` and ``--why``.

    Raises `UserError`. A drain may begin a new history, since a broker may be drained before any
    balancer runs.
    """
    kind = ActionKind.RELEASE if args.release else ActionKind.DRAIN
    return NewAction(trail_of(args.history, may_be_new=not args.release), kind, args.who, args.why)


def _release(args: argparse.Namespace, action: NewAction) -> int:
    """End the broker's cordon, so that a balancer may give it bundles again; moves nothing."""
    if args.execute:
        raise UserError("--release moves nothing: leave --execute out")
    if action.trail is None:
        raise UserError("--release needs --history, which records the cordon")
    if args.broker not in cordoned(action.trail.actions()):
        raise UserError(f"{args.broker} is not cordoned in {args.history}")
    now_ms = wall_clock_ms()
    action.begin(now_ms, args.broker).close(now_ms)
    say(f"{args.broker} is not cordoned any more")
    return 0


async def drain_rules(
    reader: SnapshotReader, addresses: tuple[str, ...], args: argparse.Namespace
) -> DrainRules:
    """Return the rules of a drain, from the cluster's settings and the options.

    Raises `UserError` if the drain is to be carried out while the cluster sheds load by itself.
    """
    if args.execute and (reason := await sheds_by_itself(reader.admin, addresses)):
        raise UserError(reason)
    conf = await while_waiting(reader.policies.settings(addresses), READING)
    placement = find_placement(args.placement)
    return DrainRules(
        placement, settings_from(placement.options, conf), settings_from(FilterOptions, conf)
    )


async def _drain(drain: BrokerDrain, args: argparse.Namespace, action: NewAction) -> int:
    plan = await while_waiting(drain.plan(), READING)
    if not args.json:
        _show(drain, plan, execute=args.execute, action=action)
    drained = await drain.carry_out(plan) if args.execute else None
    if args.json:
        sys.stdout.write(json.dumps(_json(drain, plan, drained), indent=2) + "\n")
    elif drained is not None:
        _show_end(args, drained)
    left = plan.rejections if drained is None else drained.left
    return EXIT_LEFT if left else 0


def _read(drain: BrokerDrain) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the brokers that do not answer, with reasons, and the bundles that are not moved.

    These are bundles such as heartbeats, which end or move when the broker stops. Both are empty if
    the cluster was not read.
    """
    snapshot = drain.snapshot
    return ({}, ()) if snapshot is None else (snapshot.silent, drain.goal.bound(snapshot))


def _messages_out(drain: BrokerDrain, plan: Round) -> float:
    """Return how many messages a second are sent to consumers of the plan's bundles."""
    if drain.snapshot is None:
        return 0.0
    view = drain.snapshot.view
    rows = [view.bundle_index(move.bundle) for move in plan.moves]
    return sum(float(view.bundle.short.rate_out[row]) for row in rows if row is not None)


def _show(drain: BrokerDrain, plan: Round, *, execute: bool, action: NewAction = NOT_KEPT) -> None:
    silent, bound = _read(drain)
    for other in not_ended(action.trail.actions() if action.trail else (), drain.goal.broker):
        say(other)
    for broker, why in sorted(silent.items()):
        say(f"{broker} is given nothing: {why}")
    for other, why in sorted(drain.snapshot.cordoned.items() if drain.snapshot else ()):
        if other != drain.goal.broker:
            say(f"{other} is cordoned: {why}")
    for move in plan.moves:
        say(sentence(move))
    for each in plan.rejections:
        say(f"{each.subject} can go nowhere: {each.sentence}")
    if bound:
        say(
            f"{len(bound)} of the cluster's own (heartbeats, pulsar/system) are not moved: they go "
            "when the broker stops"
        )
    count = len(plan.moves)
    actions = action.trail.actions() if action.trail else ()
    journal = Journal(TablesReader(action.trail.place)) if action.trail else None
    rows = journal.rows(JournalKind.OUTCOME) if journal else ()
    others = move_time(rows, at_once=drain.at_once, by_hand=actions)
    took = move_time_by_hand(actions, ActionKind.DRAIN, others)
    again = took.redelivery.sentence(_messages_out(drain, plan))
    say(
        f"each takes about {took.seconds:.1f} s, {took.quickest_s:.1f} to {took.slowest_s:.1f} s "
        f"({took.basis}), in which its clients wait; {again}"
    )
    if not execute:
        what = "1 bundle" if count == 1 else f"{count} bundles"
        say(f"{what} would leave {drain.goal.broker}; nothing was moved (--execute moves them)")


def _show_end(args: argparse.Namespace, drained: DrainResult) -> None:
    broker = args.broker
    for bundle, why in drained.left.items():
        say(f"left: {bundle}: {why}")
    state = f"{len(drained.left)} bundles are left on it" if drained.left else "it is empty"
    count = len(drained.outcomes)
    say(f"{broker}: {count} attempt{'' if count == 1 else 's'}, {state}")
    if args.history:
        say(f"{broker} is cordoned until `counterpoise refill {broker}` or --release")
    else:
        say("not recorded in a history (--history): a balancer may give it bundles again")


def _json(drain: BrokerDrain, plan: Round, drained: DrainResult | None) -> dict[str, object]:
    silent, bound = _read(drain)
    found: dict[str, object] = {
        "broker": drain.goal.broker,
        "executed": drained is not None,
        "moves": [{**m.decision.to_json(), "placement": m.placement} for m in plan.moves],
        "stuck": [each.to_json() for each in plan.rejections],
        "bound": list(bound),
        "silent": dict(silent),
    }
    if drained is not None:
        found["outcomes"] = [
            {
                "bundle": each.bundle,
                "destination": each.destination,
                "status": each.status.value,
                "owner": each.owner,
                "seconds": each.seconds,
                "error": each.error,
            }
            for each in drained.outcomes
        ]
        found["left"] = dict(drained.left)
    return found
