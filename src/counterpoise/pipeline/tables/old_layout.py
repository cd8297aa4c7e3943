"""Lists the valid files of a history of layout 2 or 3, which had no Delta tables.

    HISTORY/<table>/day=2026-11-22/<key>.parquet             one poll, round or outcome
    HISTORY/<table>/day=2026-11-22/<first>-<last>.parquet    many of them, once compacted

If several machines wrote in turn, a file's name has its writer's token before the last dot, and
`HISTORY/reigns/<token>.json` has the first poll of that writer and the earlier writers' files that
it accepted. Files that an earlier writer wrote after that are not valid.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from counterpoise.pipeline.tables.data_files import DataFile, reading_file
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.plain_files import names_below, read_plain
from counterpoise.pipeline.tables.schema import TABLES

VERSION_FILE = "version"
SPLIT_BY_DAY = 2
"""The first version whose files are by day."""
WRITERS = "reigns"
_POLLED = ("reports", "ownership")
_LENGTH_OF_AN_ID = 9

_NAME = re.compile(r"(\d+)(-\d{15}|-[0-9a-f]{8})?(?:\.([0-9a-f]{12}))?\.parquet")
"""The groups are the first poll, the last one or part of a move's id, and the writer's token."""


def has_tables(names: Iterable[str]) -> bool:
    """Whether a directory with these file names is a history, in any layout."""
    return not {*TABLES, VERSION_FILE}.isdisjoint(names)


@dataclass(frozen=True, slots=True)
class OldWriter:
    """One writer of an old-layout history, and from when on its files are valid."""

    token: str
    first: Mapping[str, int]
    """The first poll or round from which on the writer's files are valid, by directory."""
    found: frozenset[str]
    """Files of earlier writers that it accepted, although they are not before `first`."""


def is_old(location: Location) -> bool:
    """Whether a history has no Delta tables, and files of an older layout."""
    reports = names_below(location, "reports")
    return "_delta_log" not in reports and (
        any(name.startswith("day=") for name in reports)
        or read_plain(location, VERSION_FILE) is not None
    )


def expect_readable(location: Location) -> None:
    """Raise `HistoryFaultError` unless there is a history of an older, readable layout (2 or 3)."""
    if not is_old(location):
        raise HistoryFaultError(f"{location.address} has no history of an older counterpoise")
    try:
        version = int(read_plain(location, VERSION_FILE) or SPLIT_BY_DAY)
    except ValueError:
        version = SPLIT_BY_DAY
    if version < SPLIT_BY_DAY:
        raise HistoryFaultError(
            f"{location.address} has layout {version}: bring it to layout 3 first, by the "
            "`counterpoise history repair` of the version that wrote it"
        )


class OldLayout:
    """The valid files of a history of an older layout."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._writers = _writers(location)
        self._ranks = {writer.token: rank for rank, writer in enumerate(self._writers)}

    def days(self, table: str) -> Iterator[list[DataFile]]:
        """The data files of each day of a table, oldest first; each poll is in only one of them."""
        for day in names_below(self._location, table):
            if day.startswith("day="):
                yield self._of_day(table, day)

    def _of_day(self, table: str, day: str) -> list[DataFile]:
        best: dict[tuple[str, str], tuple[int, _OldFile]] = {}
        for base in names_below(self._location, f"{table}/{day}"):
            if (named := _NAME.fullmatch(base)) is None:
                continue
            first, rest, token = (each or "" for each in named.groups())
            many = len(rest) > _LENGTH_OF_AN_ID
            file = _OldFile(int(first), int(rest[1:]) if many else int(first), many, base)
            rank = self._ranks.get(token, -1)
            newest = 0 <= rank >= best.get((first, rest), (-1, file))[0]
            if newest and self._counts(table, f"{table}/{day}/{base}", file.last, rank):
                best[first, rest] = rank, file
        files = [file for _, file in best.values()]
        kept: list[_OldFile] = []
        covered = -1
        # A later compaction may include an earlier one; the files that it replaced may be left.
        for file in sorted(files, key=lambda each: (each.first, -each.last)):
            if file.many and file.last > covered:
                kept.append(file)
                covered = file.last
        kept += [file for file in files if not file.many and file.first > covered]
        return [self._data_file(table, day, file) for file in sorted(kept)]

    def _data_file(self, table: str, day: str, file: "_OldFile") -> DataFile:
        path = f"{day}/{file.base}"
        with reading_file(self._location, f"{table}/{path}") as parquet:
            return DataFile(table, path, 0, parquet.metadata.num_rows, file.first, file.last)

    def _counts(self, table: str, name: str, last: int, rank: int) -> bool:
        of = "polls" if table in _POLLED else "rounds"
        later = self._writers[rank + 1 :]
        return all(last < each.first[of] or name in each.found for each in later)


@dataclass(frozen=True, slots=True, order=True)
class _OldFile:
    """A file of a table's day, by its name."""

    first: int
    last: int
    many: bool
    """Whether the file is a compacted one, with the rows of many polls."""
    base: str


def _writers(location: Location) -> list[OldWriter]:
    """The writers whose files count, oldest first; the newest is the last.

    Of several, the newest is the one that no other record names, as an earlier or as a dead
    writer.
    """
    records = []
    for name in names_below(location, WRITERS):
        data = read_plain(location, f"{WRITERS}/{name}")
        try:
            records.append(json.loads(data or b""))
        except ValueError:
            raise HistoryFaultError(
                f"{location.where(f'{WRITERS}/{name}')} is damaged: set it right by the "
                "`counterpoise history repair` of the version that wrote it"
            ) from None
    known = [
        ({entry[0] for entry in record[WRITERS]} | set(record["dead"]), record[WRITERS][-1][0])
        for record in records
    ]
    heads = [
        record[WRITERS]
        for record, (_, head) in zip(records, known, strict=True)
        if not any(head in names for names, other in known if other != head)
    ]
    chosen: list[Any] = max(heads, key=lambda entries: (len(entries), entries[-1][0]), default=[])
    return [
        OldWriter(str(token), {"polls": int(polled), "rounds": int(rounds)}, frozenset(found))
        for token, polled, rounds, _, found in chosen
    ] or [OldWriter("", {"polls": 0, "rounds": 0}, frozenset())]
