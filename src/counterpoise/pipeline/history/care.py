"""Looking a history over, and setting aside what cannot be read, so that the rest goes on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from counterpoise.pipeline.history.compaction import remove_leftovers
from counterpoise.pipeline.history.layout import days, files
from counterpoise.pipeline.history.names import AHEAD, ASIDE, EVER, STATES, TABLES, extent, span
from counterpoise.pipeline.history.ownership import TABLE as OWNERSHIP
from counterpoise.pipeline.history.ownership import rebuild
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.history.version import NAME, is_readable, mark, migrate, of_the_first
from counterpoise.pipeline.tables.faults import DamagedError
from counterpoise.pipeline.tables.parquet import opened

CLOCKS_DIFFER_MS = 60_000
"""By how much clocks of machines may differ without anybody's minding."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much a table holds."""

    table: str
    days: int
    files: int
    rows: int
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a look at a history found."""

    sizes: tuple[Size, ...]
    damaged: tuple[str, ...]
    """The names of files that cannot be read."""
    doubled: int
    """Small files left, by a compaction that was cut off, beside the one that replaces them."""
    older: int = 0
    """Files of an older layout, which `repair` brings to this one."""
    ahead: tuple[str, ...] = ()
    """The names of files of a time that has not come yet: some clock was ahead."""


def check(store: Store, now_ms: int = EVER) -> Checked:
    """Read every file of a history; `now_ms` is by a clock that is believed."""
    sizes, damaged, doubled = [], [], 0
    for table in TABLES:
        rows = size = 0
        names = list(_all_files(store, table))
        for name in names:
            try:
                rows += store.read(name, _rows)
                size += store.size(name)
            except DamagedError:
                damaged.append(name)
        doubled += len(names) - len(files(store, table))
        sizes.append(Size(table, len(days(store, table)), len(names), rows, size))
    damaged += [name for name in _states(store) if not _readable_state(store, name)]
    if not is_readable(store):
        damaged.append(NAME)
    older = len(of_the_first(store))
    return Checked(tuple(sizes), tuple(damaged), doubled, older, tuple(_ahead(store, now_ms)))


def repair(store: Store, now_ms: int = EVER) -> Checked:
    """Set damaged files aside and remove what is doubled; gives what was found.

    Files of an older layout are brought to this one, and a table of ownership that is not there is
    worked out. A state that is damaged takes the stream back to the one before; without any it
    begins with the first poll that is there. What is of a time to come would hold all rounds up
    until then: it is set aside, too.
    """
    older = migrate(store)
    found = replace(check(store, now_ms), older=older)
    for name in found.ahead:
        store.move(name, f"{AHEAD}/{name}")
    for name in sorted({*found.damaged} - {*found.ahead}):
        if name.startswith(f"{STATES}/"):
            # A poll's state counts only with all its shards: the others go with it.
            directory = name.rpartition("/")[0]
            for other in store.names(directory):
                store.move(f"{directory}/{other}", f"{ASIDE}/{directory}/{other}")
        else:
            store.move(name, f"{ASIDE}/{name}")
    mark(store)
    for table in TABLES:
        remove_leftovers(store, table)
    rebuild(store, anew=any(name.startswith(f"{OWNERSHIP}/") for name in found.damaged))
    if store.local is not None:
        for hidden in Path(store.root).rglob(".*.tmp"):
            hidden.unlink(missing_ok=True)
    return found


def _ahead(store: Store, now_ms: int) -> Iterator[str]:
    last = now_ms + CLOCKS_DIFFER_MS
    for table in TABLES:
        yield from (name for name in _all_files(store, table) if extent(name)[0] > last)
    yield from (name for name in _states(store) if _poll_of(name) > last)


def _all_files(store: Store, table: str) -> Iterator[str]:
    for day in days(store, table):
        yield from (f"{table}/{day}/{n}" for n in store.names(f"{table}/{day}") if span(n))


def _states(store: Store) -> Iterator[str]:
    for directory in store.directories(STATES):
        yield from (f"{STATES}/{directory}/{n}" for n in store.names(f"{STATES}/{directory}"))


def _poll_of(name: str) -> int:
    poll_id = name.split("/")[1]
    return int(poll_id) if poll_id.isdecimal() else 0


def _rows(file: Any) -> int:
    # Every page is read: a footer that is whole says nothing of what is before it.
    return sum(len(batch) for batch in opened(file).iter_batches())


def _readable_state(store: Store, name: str) -> bool:
    from counterpoise.pipeline.stream.states import read_state

    try:
        read_state(store, name)
    except FileNotFoundError:
        return True
    except DamagedError:
        return False
    return True
