"""Which files a history's tables have, oldest first; what they are called is `names.py`'s."""

from counterpoise.pipeline.history.names import archives, day_of, extent, is_archive, span
from counterpoise.pipeline.history.store import Store


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
        compacted = archives(names)
        covered = max((extent(name)[1] for name in compacted), default=-1)
        kept = [name for name in compacted if extent(name)[1] > after]
        kept += [n for n in names if not is_archive(n) and extent(n)[0] > max(after, covered)]
        listed += sorted(kept, key=lambda name: (extent(name), name))
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
        earlier = [name for name in names if extent(name)[0] < poll_id]
        if earlier:
            return max(earlier, key=extent)
    return None
