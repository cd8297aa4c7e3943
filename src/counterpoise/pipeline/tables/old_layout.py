"""Which files of a history of layout 2 or 3 count, before there were Delta tables.

    HISTORY/<table>/day=2026-11-22/<key>.parquet             one poll, round or outcome
    HISTORY/<table>/day=2026-11-22/<first>-<last>.parquet    many of them, once compacted

Where several machines wrote, names have the token of their writer before the last dot, and
`HISTORY/reigns/<token>.json` says from which poll on files are that writer's, and which of earlier
writers' it went on with. A file that an earlier writer wrote later does not count.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from counterpoise.pipeline.tables.data_files import DataFile, parsed
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.plain_files import names_below, read_plain

VERSION_FILE = "version"
SPLIT_BY_DAY = 2
"""The first version whose files are by day."""
WRITERS = "reigns"
_POLLED = ("reports", "ownership")
_EVER = 2**62

_ARCHIVE = re.compile(r"^(\d{15})-(\d{15})\.parquet$")
_SMALL = re.compile(r"^(\d+)(-[0-9a-f]{8})?\.parquet$")
_SIGNED = re.compile(r"^([^.]+)\.([0-9a-f]{12})(\.[a-z]+)$")


@dataclass(frozen=True, slots=True)
class OldWriter:
    """From which poll on files are a writer's: of polls and of rounds."""

    token: str
    first: Mapping[str, int]
    """By what files are of."""
    found: frozenset[str]
    """Files of rounds behind its first that it went on with."""


def is_old(location: Location) -> bool:
    """Whether a history has no Delta tables, and files of an older layout."""
    reports = names_below(location, "reports")
    return "_delta_log" not in reports and (
        any(name.startswith("day=") for name in reports)
        or read_plain(location, VERSION_FILE) is not None
    )


def expect_readable(location: Location) -> None:
    """Raise `HistoryFaultError` where there is no history of layout 2 or 3."""
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
    """The files of an older history that count."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._writers = _writers(location)
        self._ranks = {writer.token: rank for rank, writer in enumerate(self._writers)}

    def days(self, table: str) -> Iterator[list[DataFile]]:
        """The files of each day of a table, oldest first, each poll in only one of them."""
        for day in names_below(self._location, table):
            if day.startswith("day="):
                yield self._of_day(table, day)

    def _of_day(self, table: str, day: str) -> list[DataFile]:
        spans = {}
        for own, base in self._counted(f"{table}/{day}").items():
            if (extent := _span(own)) is not None:
                spans[base] = (extent, bool(_ARCHIVE.match(own)))
        archives: list[str] = []
        # A later compaction may go beyond an earlier one; small files of theirs may be left.
        for base in sorted(
            (base for base, (_, is_archive) in spans.items() if is_archive),
            key=lambda base: (spans[base][0][0], -spans[base][0][1]),
        ):
            if not archives or spans[base][0][1] > spans[archives[-1]][0][1]:
                archives.append(base)
        covered = max((spans[base][0][1] for base in archives), default=-1)
        small = [
            base for base, (extent, is_archive) in spans.items()
            if not is_archive and extent[0] > covered
        ]  # fmt: skip
        kept = sorted([*archives, *small], key=lambda base: (spans[base][0], base))
        return [self._file(table, f"{day}/{base}", spans[base][0]) for base in kept]

    def _file(self, table: str, path: str, extent: tuple[int, int]) -> DataFile:
        rows = parsed(self._location, f"{table}/{path}", _row_count)
        return DataFile(table, path, 0, rows, *extent)

    def _counted(self, directory: str) -> dict[str, str]:
        """The files in a directory that count, by their names without a token."""
        best: dict[str, tuple[int, str]] = {}
        for base in names_below(self._location, directory):
            signed = _SIGNED.match(base)
            own, token = (f"{signed[1]}{signed[3]}", signed[2]) if signed else (base, "")
            rank = self._ranks.get(token, -1)
            newest = rank >= best.get(own, (-1, ""))[0]
            if newest and self._counts(f"{directory}/{base}", own, rank):
                best[own] = (rank, base)
        return {own: base for own, (_, base) in best.items()}

    def _counts(self, name: str, own: str, rank: int) -> bool:
        if rank < 0:
            return False
        if (extent := _span(own)) is None:
            return False
        of = "polls" if name.partition("/")[0] in _POLLED else "rounds"
        return all(
            extent[1] < later.first[of] or name in later.found
            for later in self._writers[rank + 1 :]
        )


def _row_count(parquet: Any) -> int:
    return int(parquet.metadata.num_rows)


def _span(base: str) -> tuple[int, int] | None:
    """The first and the last poll of a file of a table."""
    if found := _ARCHIVE.match(base):
        return int(found[1]), int(found[2])
    return (int(found[1]), int(found[1])) if (found := _SMALL.match(base)) else None


def _writers(location: Location) -> list[OldWriter]:
    """Those that led to the newest, oldest first.

    Of several records it is the one whose writer no other names, as earlier or as dead.
    """
    records = []
    for name in names_below(location, WRITERS):
        said = read_plain(location, f"{WRITERS}/{name}")
        try:
            records.append(json.loads(said or b""))
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
        OldWriter(
            str(token),
            {"polls": int(polled), "rounds": int(rounds)},
            frozenset(found),
        )
        for token, polled, rounds, _, found in chosen
    ] or [OldWriter("", {"polls": 0, "rounds": 0}, frozenset())]
