"""``counterpoise advise``: a plan to read, approve and hand to ``balance --execute --plan``."""

import argparse
import asyncio
import json
import sys

import aiohttp

from counterpoise.app.addresses import admin_urls
from counterpoise.app.client import client_session
from counterpoise.app.cluster_strategy import strategy_of
from counterpoise.app.conf import settings_from
from counterpoise.app.errors import UserError
from counterpoise.app.histories import open_history, trail_of
from counterpoise.app.numbers import expect_move_seconds
from counterpoise.app.progress import while_waiting
from counterpoise.decide.advice.plan import AdvisedPlan
from counterpoise.decide.advice.planned import AdviceOptions, advise
from counterpoise.decide.advice.splits import advise_splits
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.pipeline.advise import plan_inputs
from counterpoise.pipeline.advise.page import page_of
from counterpoise.pipeline.advise.text import lines_of
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.action_trail import cordons
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.journal import Journal
from counterpoise.pipeline.tables.schema import JournalKind


def run(args: argparse.Namespace) -> int:
    """Run ``advise``: make a plan for a live cluster or a history, and show or save it."""
    if not args.admin_url and not args.history:
        raise UserError("say whom to ask: --admin-url URL, --history URI, or both")
    expect_move_seconds(args.move_seconds)
    addresses = admin_urls(args.admin_url) if args.admin_url else ()
    _write(asyncio.run(_plan(args, addresses)), args)
    return 0


async def _plan(args: argparse.Namespace, addresses: tuple[str, ...]) -> AdvisedPlan:
    history = open_history(args.history) if args.history else None
    strategy, conf, note = await strategy_of(args, addresses)
    splitting = settings_from(SplitOptions, conf)
    trail = trail_of(args.history) if args.history else None
    by_hand = trail.actions() if trail else ()
    options = plan_inputs.LookOptions(args.looks, args.interval, splitting, cordons(by_hand))
    async with client_session(args) as session:
        looking = _look(session, addresses, history, options)
        looked = await while_waiting(looking, "reading the cluster")
    rows = Journal(history).rows(JournalKind.OUTCOME) if history else []
    return advise(
        looked.snapshot,
        strategy,
        plan_inputs.move_time(rows, args.move_seconds, at_once=args.at_once, by_hand=by_hand),
        wall_clock_ms(),
        looked.memory,
        advise_splits(looked.splits, splitting),
        AdviceOptions(
            args.rounds, args.at_once, strategy.balance.decide_every_ms, every_move=args.every_move
        ),
        (*looked.notes, *([note] if note else [])),
    )


async def _look(
    session: aiohttp.ClientSession,
    addresses: tuple[str, ...],
    history: TablesReader | None,
    options: plan_inputs.LookOptions,
) -> plan_inputs.AdviceInputs:
    if history is not None and not addresses:
        return plan_inputs.inputs_from_history(history, options)
    return await plan_inputs.inputs_from_cluster(
        session, addresses, wall_clock_ms, history, options
    )


def _write(plan: AdvisedPlan, args: argparse.Namespace) -> None:
    text = json.dumps(plan.to_json(), indent=2) + "\n"
    if args.json:
        sys.stdout.write(text)
    else:
        sys.stdout.write("\n".join(lines_of(plan)) + "\n")
    try:
        if args.save:
            args.save.write_text(text, encoding="utf-8")
        if args.html:
            args.html.write_text(page_of(plan), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None
