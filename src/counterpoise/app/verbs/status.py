"""``counterpoise status``: what a balancer, or a fleet's balancers, are doing."""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from statistics import median

from counterpoise.app.errors import UserError
from counterpoise.app.fleet_file import read_fleet
from counterpoise.app.histories import open_history, trail_of
from counterpoise.decide.balancing.approval import HOUR_MS
from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.names.units import lasted
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.action_trail import ActionMove, OperatorAction, cordoned
from counterpoise.pipeline.fleet.cluster_state import ClusterState
from counterpoise.pipeline.fleet.fleet_watch import FleetCluster, watching_fleet
from counterpoise.pipeline.tables.status import BalancerStatus, read_status

NAMED = 3
WHEREVER = "Nothing needs to be done: the next round goes by where the bundle is."


def run(args: argparse.Namespace) -> int:
    """Run ``status``: print a balancer's state from its history, or a fleet's."""
    if (args.history is None) == (args.fleet is None):
        raise UserError("name one of them: --history URI, or --fleet FILE")
    if args.fleet is not None:
        return _show_fleet(args, asyncio.run(look_at(read_fleet(args.fleet), args.within)))
    found = read_status(open_history(args.history), wall_clock_ms())
    lines, by_hand = [*sentences(found)], trail_of(args.history)
    actions = by_hand.actions() if by_hand else []
    lines += actions_text(actions, found.now_ms)
    figures = {**found.to_json(), **actions_json(actions, found.now_ms)}
    if (roll := by_hand.roll() if by_hand else None) is not None:
        lines.append(roll.sentence())
        figures["rolling_restart"] = asdict(roll)
    text = json.dumps(figures, indent=2) if args.json else "\n".join(lines)
    sys.stdout.write(text + "\n")
    return 0


async def look_at(fleet: Sequence[FleetCluster], within_s: float) -> Sequence[ClusterState]:
    """Poll all clusters of a fleet concurrently, each for at most `within_s` seconds."""
    async with watching_fleet(fleet, wall_clock_ms, within_s) as watch:
        return await watch.poll()


def _show_fleet(args: argparse.Namespace, states: Sequence[ClusterState]) -> int:
    if args.json:
        text = json.dumps([each.to_json() for each in states], indent=2)
    else:
        text = "\n".join(each.line() for each in states)
    sys.stdout.write(text + "\n")
    return 0


def sentences(found: BalancerStatus) -> list[str]:
    """Return a balancer's status as lines for a person."""
    lines = [f"history {found.history}"]
    if found.in_force:
        lines.append(found.in_force)
    poll, made = found.poll, found.round
    if poll is None:
        lines.append("no poll of the cluster yet")
    else:
        lines.append(
            f"last look {_ago(found, poll.at)}: {poll.brokers} brokers reported their load"
        )
        lines += [f"  the cluster did not answer: {poll.trouble}"] if poll.trouble else []
        lines += [f"  no load report from {name}: {why}" for name, why in poll.silent.items()]
    if made is None:
        lines.append("no round of decisions yet")
    else:
        state = "" if made.complete else ", running or interrupted"
        lines.append(
            f"last round {_ago(found, made.at)}: {made.moves} moves by {made.strategy}, "
            f"imbalance {made.imbalance:.2f}{state}"
        )
        lines += [f"  not done: {each}" for each in made.rejections[:NAMED]]
        if len(made.rejections) > NAMED:
            lines.append(f"  and {len(made.rejections) - NAMED} more (--json)")
    lines.append(f"moves of the last hour: {_ends(found.outcomes) or 'none'}")
    if found.seconds:
        lines.append(
            f"  each took {median(found.seconds):.1f} s in the median, "
            f"{found.seconds[-1]:.1f} s at most"
        )
    lines += [f"  withheld {count}: {rule}" for rule, count in found.withheld.items()]
    lines += [f"  failed {bundle}: {error}" for bundle, error in found.failures[:NAMED]]
    lines += [f"  {one.astray}. {WHEREVER}" for one in found.astray[:NAMED]]
    if len(found.astray) > NAMED:
        lines.append(f"  and {len(found.astray) - NAMED} more such moves (--json)")
    lines += [
        f"gaps of the last hour: {name}, {polls} polls, lately: {why}"
        for name, (polls, why) in found.gaps.items()
    ]
    return lines


def actions_text(actions: Sequence[OperatorAction], now_ms: int) -> list[str]:
    """Return sentences on cordoned brokers, and on operators' actions of the last hour."""
    lines = [
        f"cordoned: {broker}, drained by {drain.who}{f': {drain.why}' if drain.why else ''} "
        f"(counterpoise refill {broker}, or counterpoise drain {broker} --release)"
        for broker, drain in sorted(cordoned(actions).items())
    ]
    for each in actions:
        if each.at_ms < now_ms - HOUR_MS:
            continue
        what = f"{each.kind.value} of {each.broker}" if each.broker else each.kind.value
        ends = Counter(move.status for move in each.moves)
        became = _ends(dict(sorted(ends.items())))
        state = "" if each.ended_ms else ", running or interrupted"
        why = f" ({each.why})" if each.why else ""
        lines.append(f"by hand: {what} by {each.who}{why}: {became or 'no move'}{state}")
        lines += [_gone(move) for move in each.moves if move.status == MoveStatus.ELSEWHERE]
    return lines


def _gone(move: ActionMove) -> str:
    return (
        f"  {move.bundle} left {move.source}, and {move.destination} took it, not the broker that "
        f"was asked for: where that matters, counterpoise unload {move.bundle} --to BROKER"
    )


def _ends(counts: Mapping[str, int]) -> str:
    """How many moves ended with each status, as text."""
    return ", ".join(f"{count} {MoveStatus(status).words}" for status, count in counts.items())


def actions_json(actions: Sequence[OperatorAction], now_ms: int) -> dict[str, object]:
    """Return the cordoned brokers, and operators' actions of the last hour, for JSON."""
    lately = [each.to_json() for each in actions if each.at_ms >= now_ms - HOUR_MS]
    return {"cordoned": sorted(cordoned(actions)), "actions": lately}


def _ago(found: BalancerStatus, at_ms: int) -> str:
    seconds = max(0, found.now_ms - at_ms) // 1000
    when = f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{lasted(seconds)} ago ({when})"
