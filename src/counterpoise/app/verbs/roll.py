"""``counterpoise roll``: restart a cluster broker by broker."""

import argparse
import asyncio
from dataclasses import replace
from functools import partial

from counterpoise.app.addresses import admin_urls
from counterpoise.app.client import client_session
from counterpoise.app.errors import UserError
from counterpoise.app.output import say, say_with_time, surviving_closed_output
from counterpoise.app.signals import until_signal
from counterpoise.app.verbs.drain import drain_rules
from counterpoise.app.verbs.rules import moves_of
from counterpoise.decide.watchdog.observation import WatchdogOptions
from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.action_trail import ActionTrail, operator_name
from counterpoise.pipeline.drive.drain import DrainOptions
from counterpoise.pipeline.drive.restart_command import RestartByHand, RestartCommand, Restarter
from counterpoise.pipeline.drive.roll import RollingRestart, RollOptions, RollStoppedError
from counterpoise.pipeline.drive.roll_state import RollState
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.watchdog.watchdog import guard

EXIT_STOPPED = 1


def run(args: argparse.Namespace) -> int:
    """Run ``roll``: plan a rolling restart; with ``--execute`` carry it out, or continue one."""
    trail = ActionTrail(open_location(args.history))
    if args.abandon:
        return _abandon(args, trail)
    return asyncio.run(until_signal(partial(_until_stopped, args, trail)))


async def _until_stopped(args: argparse.Namespace, trail: ActionTrail, stop: asyncio.Event) -> int:
    """Return the restart's exit status; if ``stop`` is set, cancel it and its restart command."""
    running, stopping = asyncio.create_task(_run(args, trail)), asyncio.create_task(stop.wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        stopping.cancel()
        return running.result()
    running.cancel()
    await asyncio.wait((running,))
    say("stopped; run the same command again to continue")
    return EXIT_STOPPED


def _abandon(args: argparse.Namespace, trail: ActionTrail) -> int:
    state = trail.roll()
    if state is None or not state.under_way:
        raise UserError(f"no rolling restart is under way in {args.history}")
    given_up = replace(state, ended_ms=wall_clock_ms(), abandoned=True)
    trail.keep_roll(given_up)
    say(given_up.sentence())
    return 0


async def _run(args: argparse.Namespace, trail: ActionTrail) -> int:
    addresses, log = admin_urls(args.admin_url), surviving_closed_output(say_with_time)
    async with client_session(args) as session:
        reader = SnapshotReader(session, addresses, wall_clock_ms)
        patience = WatchdogOptions(patience_ms=round(args.settle * 1000))
        roll = RollingRestart(
            session,
            reader,
            guard(session, addresses, log, options=patience),
            trail,
            _restarter(args, log),
            await drain_rules(reader, addresses, args),
            wall_clock_ms,
            log,
            _options(args),
        )
        return await _carry_out(args, roll, trail, log)


async def _carry_out(
    args: argparse.Namespace, roll: RollingRestart, trail: ActionTrail, log: SentenceSink
) -> int:
    state = await asyncio.to_thread(trail.roll)
    if state is not None and state.under_way:
        return await _continue(args, roll, state, log)
    order = await roll.plan(tuple(args.broker))
    if not order:
        say(f"every broker has version {args.to_version} already")
        return 0
    for number, broker in enumerate(order, 1):
        say(f"{number}. {broker}")
    if not args.execute:
        say("nothing was restarted (--execute drains and restarts them)")
        return 0
    begun = await roll.begin(order, args.who or operator_name(), args.why)
    return await _to_its_end(roll, begun, log)


async def _continue(
    args: argparse.Namespace, roll: RollingRestart, state: RollState, log: SentenceSink
) -> int:
    known = {each.broker for each in state.brokers}
    if args.broker and set(args.broker) != known:
        raise UserError(
            f"{state.sentence()}; it is about other brokers ({', '.join(sorted(known))}): name "
            "none to go on with it, or give it up with --abandon"
        )
    say(state.sentence())
    if not args.execute:
        say("nothing was restarted (--execute continues it, --abandon gives it up)")
        return 0
    return await _to_its_end(roll, await roll.take_over(state), log)


async def _to_its_end(roll: RollingRestart, state: RollState, log: SentenceSink) -> int:
    try:
        log((await roll.run(state)).sentence())
    except RollStoppedError as error:
        log(f"stopped: {error}; run the same command again to continue; --abandon gives it up")
        return EXIT_STOPPED
    return 0


def _restarter(args: argparse.Namespace, log: SentenceSink) -> Restarter:
    if args.command is None:
        return RestartByHand(log)
    try:
        return RestartCommand.parse(args.command, args.back_within)
    except ValueError as error:
        raise UserError(f"--command {args.command!r}: {error}") from None


def _options(args: argparse.Namespace) -> RollOptions:
    return RollOptions(
        to_version=args.to_version,
        back_within_s=args.back_within,
        healthy_for_s=args.settle,
        patience_s=args.patience,
        window=args.window,
        drain=DrainOptions(partial=args.partial, moves=moves_of(args)),
    )
