"""Where a history's files are, by name alone.

    HISTORY/<table>/day=2026-11-22/<key>.parquet             one poll, round or outcome
    HISTORY/<table>/day=2026-11-22/<first>-<last>.parquet    many of them, once compacted
    HISTORY/states/<poll>/<shard>-of-<shards>.arrow          the averages after that poll

A key is a poll's number, its time in milliseconds since 1970 with 15 digits, so that names sort as
times do; that of an outcome is its decision's id. A table is its whole directory: Spark, pandas and
DuckDB read new and compacted files alike, with `day` as a partition.
"""

import re
from datetime import UTC, datetime

from counterpoise.pipeline.history.store import Store

TABLES = ("reports", "ownership", "rounds", "decisions", "rejections", "outcomes", "memory")

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


def days(store: Store, table: str) -> list[str]:
    """A table's partitions, oldest first."""
    return [name for name in store.directories(table) if name.startswith("day=")]


def files(store: Store, table: str, *, after: int = -1) -> list[str]:
    """A table's files with polls later than `after`, oldest first, each poll in only one of them.

    A compaction that was cut off leaves small files beside the one that replaces them; those are
    not listed.
    """
    listed: list[str] = []
    first = day_of(after) if after >= 0 else ""
    for day in days(store, table):
        if day < first:
            continue
        names = [f"{table}/{day}/{name}" for name in store.names(f"{table}/{day}") if span(name)]
        archives = [(name, *_span(name)) for name in names if is_archive(name)]
        covered = max((last for _, _, last in archives), default=-1)
        kept = [name for name, _, last in archives if last > after]
        kept += [n for n in names if not is_archive(n) and _span(n)[0] > max(after, covered)]
        listed += sorted(kept, key=lambda name: (_span(name), name))
    return listed


def newest_poll(store: Store, table: str = "reports") -> int:
    """The last poll of a table; 0 when it is empty."""
    for day in reversed(days(store, table)):
        spans = [found for name in store.names(f"{table}/{day}") if (found := span(name))]
        if spans:
            return max(last for _, last in spans)
    return 0


def latest_before(store: Store, table: str, poll_id: int) -> str | None:
    """The file with the last rows that are older than a poll."""
    for day in reversed(days(store, table)):
        names = [f"{table}/{day}/{name}" for name in store.names(f"{table}/{day}") if span(name)]
        earlier = [name for name in names if _span(name)[0] < poll_id]
        if earlier:
            return max(earlier, key=_span)
    return None


def _span(name: str) -> tuple[int, int]:
    found = span(name)
    if found is None:
        raise ValueError(f"{name} is no file of a table")
    return found
