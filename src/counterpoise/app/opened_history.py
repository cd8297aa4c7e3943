"""A history that a verb reads, as its options name it."""

from counterpoise.app.errors import UserError
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import Location, open_location
from counterpoise.pipeline.tables.plain_files import names_below


def history_at(uri: str) -> Location:
    """Where a history is, by its path or URI; raises `UserError` where there is none."""
    location = open_location(uri)
    if not names_below(location):
        raise UserError(f"{location.address} is no history: nothing is in it")
    return location


def open_history(uri: str) -> TablesReader:
    """The same, opened to be read."""
    return TablesReader(history_at(uri))
