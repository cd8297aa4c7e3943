"""A history that a verb reads, as its options name it."""

from counterpoise.app.errors import UserError
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.plain_files import names_below


def open_history(uri: str) -> TablesReader:
    """The history at a path or URI; raises `UserError` where there is none."""
    try:
        reader = TablesReader(open_location(uri))
        if not names_below(reader.location):
            raise UserError(f"{reader.location.address} is no history: nothing is in it")
    except (HistoryFaultError, OSError, ValueError) as error:
        raise UserError(str(error)) from None
    return reader
