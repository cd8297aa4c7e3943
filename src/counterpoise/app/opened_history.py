"""Opens the history that a verb's options name."""

from counterpoise.app.errors import UserError
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import Location, open_location
from counterpoise.pipeline.tables.plain_files import names_below


def history_at(uri: str) -> Location:
    """The location of a history; raises `UserError` if there is none."""
    location = open_location(uri)
    if not names_below(location):
        raise UserError(f"{location.address} is no history: nothing is in it")
    return location


def open_history(uri: str) -> TablesReader:
    """The history, opened for reading; raises `UserError` if there is none."""
    return TablesReader(history_at(uri))
