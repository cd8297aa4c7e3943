"""Opens histories: for verbs that read them, and for those that record an operator's actions."""

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

from counterpoise.app.errors import UserError
from counterpoise.pipeline.drive.action_trail import PREFIX, ActionTrail
from counterpoise.pipeline.tables.heartbeat import writing
from counterpoise.pipeline.tables.history import TablesReader, TablesWriter
from counterpoise.pipeline.tables.location import Location, open_location
from counterpoise.pipeline.tables.old_layout import has_tables
from counterpoise.pipeline.tables.plain_files import names_below

T = TypeVar("T")


def history_at(uri: str) -> Location:
    """Return the location of the history at a path or URI; raises `UserError` if there is none."""
    location = open_location(uri)
    names = names_below(location)
    # A history without tables may hold operators' actions, of a drain before any balancer ran.
    if not has_tables(names) and not any(name.startswith(PREFIX) for name in names):
        what = "no table of one is in it" if names else "nothing is in it"
        raise UserError(f"{location.address} is no history: {what}")
    return location


def open_history(uri: str) -> TablesReader:
    """Open the history at a path or URI for reading; raises `UserError` if there is none."""
    return TablesReader(history_at(uri))


def trail_of(uri: str | None, *, may_be_new: bool = False) -> ActionTrail | None:
    """Open the record of operators' actions in the history at `uri`; None without a URI.

    Raises `UserError` if there is no history. If it `may_be_new`, prints a warning instead, and the
    history begins with the first action.
    """
    if not uri:
        return None
    if not may_be_new:
        return ActionTrail(history_at(uri))
    location = open_location(uri)
    if not names_below(location):
        sys.stderr.write(
            f"nothing is kept in {location.address} yet: if a balancer moves bundles of this "
            "cluster, name its history (--history), or it knows nothing of what is done here\n"
        )
    return ActionTrail(location)


def as_writer(location: Location, work: Callable[[TablesWriter], T]) -> T:
    """Run `work` in a thread, as the only writer of a history, and return its result.

    Raises `HistoryInUseError` and `HistoryFaultError`.
    """

    async def alone() -> T:
        async with writing(location) as writer:
            return await asyncio.to_thread(work, writer)

    return asyncio.run(alone())
