"""What an imported history says about its origin: `HISTORY/imported.json`, beside its tables.

The record has the source of the figures, the time between two of them, and what was left out. How
far the import got is in the table `reports`, committed with the rows.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import orjson

from counterpoise.pipeline.prometheus.report_rows import PieceFacts
from counterpoise.pipeline.prometheus.source import SeriesError
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.plain_files import read_plain, write_plain
from counterpoise.pipeline.tables.reports import newest_poll
from counterpoise.pipeline.tables.schema import REPORTS

NAME: Final = "imported.json"
IMPORTED: Final = "counterpoise-import"
"""The name of a Delta application transaction: its version is the newest poll that was imported."""


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """What was imported into a history from a Prometheus, and up to when."""

    source: str
    match: str
    """The label matcher, in PromQL, of the imported series."""
    by: str
    """`topics` or `bundles`: which series the loads are sums of."""
    first_ms: int
    step_ms: int
    last_ms: int = 0
    """The last moment that is imported, in milliseconds since 1970."""
    counts_every_ms: int = 0
    """The time between two readings of the numbers of producers and consumers."""
    facts: PieceFacts = field(default_factory=PieceFacts)
    notes: tuple[str, ...] = ()
    """Sentences about the import for people who use the history."""

    def write(self, location: Location) -> None:
        """Write the record into the history; raises `HistoryFaultError`."""
        write_plain(location, NAME, orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2))


def begun(reader: TablesReader, requested: ImportRecord) -> ImportRecord | None:
    """The record of an earlier import to continue; None in a history without any poll.

    Raises `SeriesError` if the history is not from the same import, and `HistoryFaultError`.
    """
    newest, address = newest_poll(reader), reader.location.address
    if not newest:
        return None
    if reader.transaction(REPORTS, IMPORTED) != newest:
        raise SeriesError(
            f"{address} has looks at a cluster that were not imported, and nothing can be put "
            "before or between them: name a directory that is not there yet"
        )
    found = read_record(reader.location)
    if found is None:
        raise SeriesError(
            f"{address} was imported, and its {NAME} is gone or damaged: what it was made of is "
            "not known any more; name a directory that is not there yet"
        )
    for name, what in (
        ("source", "the source"),
        ("match", "--match and --cluster"),
        ("by", "--by"),
        ("step_ms", "--step"),
    ):
        was, now = getattr(found, name), getattr(requested, name)
        if was != now:
            raise SeriesError(
                f"{address} is an import with another value of {what} ({was}, now {now}): give the "
                "same to go on with it, or name a directory that is not there yet"
            )
    return replace(found, last_ms=newest)


def read_record(location: Location) -> ImportRecord | None:
    """Read a history's import record; None if it has none or it is damaged."""
    data = read_plain(location, NAME)
    try:
        found: dict[str, Any] = orjson.loads(data or b"null")
        facts, notes = PieceFacts(**found.pop("facts")), tuple(found.pop("notes"))
        return ImportRecord(**found, facts=facts, notes=notes)
    except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError):
        return None
