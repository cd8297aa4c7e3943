"""The history in which a verb keeps what an operator does by hand."""

from __future__ import annotations

from counterpoise.app.errors import UserError
from counterpoise.pipeline.drive.action_trail import ActionTrail
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import Location, open_location
from counterpoise.pipeline.tables.plain_files import names_below


def location_of(uri: str) -> Location:
    """Where a history is; raises `UserError` where none can be."""
    try:
        return open_location(uri)
    except (HistoryFaultError, OSError, ValueError) as error:
        raise UserError(str(error)) from None


def trail_of(uri: str | None, *, may_be_new: bool = False) -> ActionTrail | None:
    """The actions of a history; None without one; raises `UserError` where there is none yet."""
    if not uri:
        return None
    location = location_of(uri)
    try:
        if not may_be_new and not names_below(location):
            raise UserError(f"{location.address} is no history: nothing is in it")
    except (HistoryFaultError, OSError) as error:
        raise UserError(str(error)) from None
    return ActionTrail(location)
