"""Opens the load that ``counterpoise backtest`` replays: recorded or synthetic, with changes."""

import argparse
from collections.abc import Callable
from typing import Any

from counterpoise.app.errors import UserError
from counterpoise.app.times import span_ms
from counterpoise.pipeline.backtest.recorded import Recording, move_seconds
from counterpoise.pipeline.backtest.synthetic import KINDS, SyntheticTrace
from counterpoise.pipeline.backtest.trace import Source
from counterpoise.pipeline.backtest.what_if import Change, ChangedSource
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.journal import Journal
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.schema import JournalKind

MOST = 100_000_000
"""The limit of a number in ``synthetic:…``, such as of bundles; a larger one is a mistake."""


def change_of(args: argparse.Namespace) -> Change:
    """Return the changes to the trace's cluster that the options ask for (``--brokers`` …)."""
    return Change(
        added=args.brokers,
        without=tuple(args.without),
        load=args.load,
        capacity=tuple(args.capacity),
        bundles=tuple(args.bundles),
    )


def changed_source(args: argparse.Namespace) -> Source:
    """Return the source of the trace, with the changes that the options ask for."""
    change = change_of(args)
    return ChangedSource(plain_source(args), change) if change != Change() else plain_source(args)


def plain_source(args: argparse.Namespace) -> SyntheticTrace | Recording:
    """Return the recording or synthetic trace that the options name; raises `UserError`."""
    head, colon, rest = args.source.partition(":")
    if head != "synthetic" or not colon:
        return Recording(args.source, *span_ms(args.first, args.last))
    if args.first or args.last:
        raise UserError("--from and --to choose a part of a history, and synthetic load has none")
    kind, *more = rest.split(",")
    if kind not in KINDS:
        raise UserError(f"{args.source}: there are {', '.join(KINDS)}")
    given: dict[str, Any] = {}
    names: dict[str, tuple[str, Callable[[str], float]]] = {
        "brokers": ("count_of_brokers", int),
        "bundles": ("count_of_bundles", int),
        "hours": ("hours", float),
        "usage": ("usage", float),
        "seed": ("seed", int),
    }
    for text in more:
        name, _, value = text.partition("=")
        if name not in names:
            raise UserError(f"{args.source}: {name!r} is none of {', '.join(names)}")
        field, convert = names[name]
        try:
            given[field] = convert(value)
        except ValueError:
            raise UserError(f"{args.source}: {text!r} has no number") from None
        if name != "seed" and not 0 < given[field] < MOST:
            raise UserError(f"{args.source}: {name} must be more than 0 and less than {MOST:,}")
    return SyntheticTrace(kind, **{"seed": args.seed, "step_ms": round(args.step * 1000), **given})


def has_moves(source: Source) -> bool:
    """Whether the source is an unchanged recording in which bundles changed brokers."""
    return isinstance(source, Recording) and len(source.open().moves.at_ms) > 0


def move_seconds_of(args: argparse.Namespace) -> float:
    """Return for how many seconds a move makes a bundle unavailable.

    This is ``--move-seconds``, else what the history recorded, else one second.
    """
    if args.move_seconds is not None:
        return float(args.move_seconds)
    if args.source.startswith("synthetic:"):
        return 1.0
    journal = Journal(TablesReader(open_location(args.source)))
    return move_seconds(journal.rows(JournalKind.OUTCOME)) or 1.0
