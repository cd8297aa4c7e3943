"""What the files of a history are called.

    HISTORY/<table>/day=2026-11-22/<key>.parquet             one poll, round or outcome
    HISTORY/<table>/day=2026-11-22/<first>-<last>.parquet    many of them, once compacted
    HISTORY/states/<poll>/<shard>-of-<shards>.arrow          the averages after that poll

A key is a poll's number, its time in milliseconds since 1970 with 15 digits, so that names sort as
times do; that of an outcome is its decision's id. Where a lock is not enough, the names of files
say who wrote them, too (`reigns.py`); here they are without. A table is its whole directory: Spark,
pandas and DuckDB read new and compacted files alike, with `day` as a partition.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

TABLES = ("reports", "ownership", "rounds", "decisions", "rejections", "outcomes", "memory")

STATES = "states"

EVER = 2**62
"""Later than any poll."""

LATE = "late"
"""Where files go that a former holder of the history wrote when it was another's (`reigns.py`)."""

AHEAD = "ahead"
"""Where files go that say they are of a time to come."""

ASIDE = "damaged"
"""Where files go that cannot be read: nothing is thrown away."""

_ARCHIVE = re.compile(r"^(\d{15})-(\d{15})\.parquet$")
_SMALL = re.compile(r"^(\d+)(-[0-9a-f]{8})?\.parquet$")


def day_of(poll_id: int) -> str:
    """The partition of a poll, by UTC."""
    return f"day={datetime.fromtimestamp(poll_id / 1000, UTC):%Y-%m-%d}"


def file_of(table: str, poll_id: int, key: str = "") -> str:
    """The name of a file that is not compacted."""
    return f"{table}/{day_of(poll_id)}/{key or f'{poll_id:015d}'}.parquet"


def archive_of(table: str, first: int, last: int) -> str:
    """The name of a compacted file; both polls are of the same day."""
    return f"{table}/{day_of(first)}/{first:015d}-{last:015d}.parquet"


def span(name: str) -> tuple[int, int] | None:
    """The first and the last poll of which a file has rows; None when it is no file of a table."""
    base = name.rpartition("/")[2]
    if found := _ARCHIVE.match(base):
        return int(found.group(1)), int(found.group(2))
    if found := _SMALL.match(base):
        return int(found.group(1)), int(found.group(1))
    return None


def is_archive(name: str) -> bool:
    """Whether a file is a compacted one."""
    return bool(_ARCHIVE.match(name.rpartition("/")[2]))


def archives(names: Iterable[str]) -> list[str]:
    """The compacted files, without those that a later compaction went beyond."""
    kept: list[str] = []
    there = [name for name in names if is_archive(name)]
    for name in sorted(there, key=lambda name: (extent(name)[0], -_last(name))):
        if not kept or _last(name) > _last(kept[-1]):
            kept.append(name)
    return kept


def extent(name: str) -> tuple[int, int]:
    """`span` of a name that has one; raises `ValueError` for one that has none."""
    found = span(name)
    if found is None:
        raise ValueError(f"{name} is no file of a table")
    return found


def _last(name: str) -> int:
    return extent(name)[1]
