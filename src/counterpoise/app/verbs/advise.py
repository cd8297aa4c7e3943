"""``counterpoise advise``: a plan to read, approve and hand to ``balance --execute --plan``."""

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
from counterpoise.app.conf import add_conf_arguments, read_conf, settings_from
from counterpoise.app.errors import UserError
from counterpoise.app.numbers import count, expect_move_seconds
from counterpoise.app.packages import needed_by
from counterpoise.app.strategies import find_placement, find_shedder, strategy_from
from counterpoise.app.times import seconds, some_time
from counterpoise.names.properties import Properties
from counterpoise.security.client import http_session

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers
    from counterpoise.decide.advice.plan import AdvisedPlan
    from counterpoise.decide.balancing.round import Strategy
    from counterpoise.pipeline.advise.look import AdviceInputs, LookOptions
    from counterpoise.pipeline.history.store import Store

EPILOG = """\
examples:
  counterpoise advise --admin-url http://localhost:8080 --html plan.html
      what would be moved on that cluster now, what it costs, why, and why not the rest
  counterpoise advise --admin-url http://localhost:8080 --history ./history --save plan.json
      the same with the averages, and the times that moves took, of a history; kept for
      `counterpoise balance --execute --plan plan.json`
  counterpoise advise --history ./history
      from what the history recorded of the last look; no broker is asked

The settings are the cluster's own where a broker returns them; --conf and --set win over them.
Nothing is touched. Splits are advised, never planned: a split cannot be undone.
Exit status: 0, or 2 for something to put right.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``advise`` and its options."""
    parser = subparsers.add_parser(
        "advise",
        help="a plan: what to move, at what cost, and why",
        description="Plan how a cluster could be evened out, with reasons, costs and before/after.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_admin_url_argument(parser, required=False)
    parser.add_argument("--history", metavar="URI", help="what was recorded of that cluster")
    parser.add_argument("--strategy", metavar="NAME", help="a shedder (default: the cluster's)")
    parser.add_argument(
        "--placement", default="LeastUsage", metavar="NAME", help="where bundles go (LeastUsage)"
    )
    add_conf_arguments(parser)
    parser.add_argument(
        "--looks", type=count, default=1, metavar="N", help="how often the cluster is looked at (1)"
    )
    parser.add_argument(
        "--interval", type=some_time, default=5.0, metavar="TIME", help="between two looks (5s)"
    )
    parser.add_argument(
        "--rounds", type=count, default=10, metavar="N", help="rounds of the strategy at most (10)"
    )
    parser.add_argument(
        "--at-once", type=count, default=4, metavar="N", help="moves side by side (4)"
    )
    parser.add_argument(
        "--move-seconds", type=float, metavar="S", help="how long a move takes (default: as seen)"
    )
    parser.add_argument(
        "--thrash-span",
        type=seconds,
        default=3 * 3600.0,
        metavar="TIME",
        help="as of `balance` (default 3h)",
    )
    parser.add_argument("--json", action="store_true", help="the plan as JSON")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the plan as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it as a page with plots")
    add_client_arguments(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Look, plan, show."""
    if not args.admin_url and not args.history:
        raise UserError("say whom to ask: --admin-url URL, --history URI, or both")
    expect_move_seconds(args.move_seconds)
    addresses = admin_urls(args.admin_url) if args.admin_url else ()
    with needed_by("advice"):
        from counterpoise.pipeline.advise.look import NothingToAdviseOnError
        from counterpoise.pipeline.history.faults import HistoryFaultError
    try:
        plan = asyncio.run(_plan(args, addresses))
    except (NothingToAdviseOnError, HistoryFaultError) as error:
        raise UserError(str(error)) from None
    _write(plan, args)
    return 0


async def _plan(args: argparse.Namespace, addresses: tuple[str, ...]) -> AdvisedPlan:
    from counterpoise.decide.advice.planned import AdviceOptions, advise
    from counterpoise.decide.advice.splits import advise_splits
    from counterpoise.decide.splitting.options import SplitOptions
    from counterpoise.pipeline.advise.look import move_time
    from counterpoise.pipeline.clock import wall_clock_ms
    from counterpoise.pipeline.history.tables import read_table

    store = _store(args.history) if args.history else None
    async with http_session(client_security(args)) as session:
        conf = await _settings(session, addresses, args)
        strategy = strategy_from(
            conf,
            shedder=args.strategy,
            placement=args.placement,
            thrash_span_s=args.thrash_span,
        )
        splitting = settings_from(SplitOptions, conf)
        looked = await _look(session, addresses, store, _options(args, strategy, splitting))
    rows = read_table(store, "outcomes") if store else []
    return advise(
        looked.scene,
        strategy,
        move_time(rows, args.move_seconds),
        wall_clock_ms(),
        advise_splits(looked.splits, splitting),
        AdviceOptions(args.rounds, args.at_once),
        looked.notes,
    )


def _options(args: argparse.Namespace, strategy: Strategy, splitting: Any) -> LookOptions:
    from counterpoise.pipeline.advise.look import LookOptions

    return LookOptions(args.looks, args.interval, strategy.balance, splitting)


async def _look(
    session: aiohttp.ClientSession,
    addresses: tuple[str, ...],
    store: Store | None,
    options: LookOptions,
) -> AdviceInputs:
    from counterpoise.pipeline.advise.look import look_at_cluster, look_at_history
    from counterpoise.pipeline.clock import wall_clock_ms

    if store is not None and not addresses:
        return look_at_history(store, options)
    return await look_at_cluster(session, addresses, wall_clock_ms, store, options)


def _store(uri: str) -> Store:
    from counterpoise.pipeline.history.store import open_store

    try:
        store = open_store(uri)
        if not store.directories(""):
            raise UserError(f"{store.address} is no history: nothing is in it")
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from None
    return store


async def _settings(
    session: aiohttp.ClientSession, addresses: tuple[str, ...], args: argparse.Namespace
) -> Properties:
    """The cluster's own settings, as far as a broker returns them, under those given here."""
    from counterpoise.pipeline.collect.admin import Admin, AdminOptions, RefusedError
    from counterpoise.pipeline.collect.settings import settings_of_any

    def own(conf: Properties) -> tuple[type, type]:
        return find_shedder(args.strategy, conf).options, find_placement(args.placement).options

    given = read_conf(args.conf, args.settings, own)
    try:
        running = await settings_of_any(Admin(session, AdminOptions()), addresses)
    except RefusedError:
        return given
    return running.overridden(given.values)


def _write(plan: AdvisedPlan, args: argparse.Namespace) -> None:
    text = json.dumps(plan.to_json(), indent=2) + "\n"
    if args.json:
        sys.stdout.write(text)
    else:
        from counterpoise.pipeline.advise.text import lines_of

        sys.stdout.write("\n".join(lines_of(plan)) + "\n")
    try:
        if args.save:
            args.save.write_text(text, encoding="utf-8")
        if args.html:
            with needed_by("the page"):
                from counterpoise.pipeline.advise.page import page_of
            args.html.write_text(page_of(plan), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None
