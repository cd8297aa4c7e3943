"""Taking a history over: what is read from then on is what its new holder found (`reigns.py`)."""

from collections.abc import Iterable

from counterpoise.pipeline.history.layout import files, newest_poll
from counterpoise.pipeline.history.names import ASIDE, EVER, STATES, TABLES
from counterpoise.pipeline.history.reigns import (
    DIRECTORY,
    POLLED,
    Lineage,
    Reign,
    View,
    extent_of,
    record_of,
    unsigned,
)
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.faults import DamagedError


def mend(store: Store) -> None:
    """Set records aside that cannot be read, and put one in their place that lets all files count.

    What came late cannot be told then from what is in its place.
    """
    damaged = []
    for name in store.names(DIRECTORY):
        try:
            store.record(name.partition(".")[0])
        except DamagedError:
            damaged.append(f"{DIRECTORY}/{name}")
    if not damaged:
        return
    last: dict[str, int] = {}
    for table in (*TABLES, STATES):
        for directory in store.directories_by_anybody(table):
            for base in store.files_by_anybody(f"{table}/{directory}"):
                own, token = unsigned(f"{table}/{directory}/{base}")
                if extent := extent_of(own):
                    last[token] = max(extent[1], last.get(token, 0))
    last[""] = 0
    reigns = tuple(Reign(token, EVER, EVER, EVER) for token in sorted(last, key=lambda t: last[t]))
    for name in damaged:
        store.move(name, f"{ASIDE}/{name}")
    if reigns[-1].token:
        store.write(record_of(reigns[-1].token), Lineage(reigns).to_json())


def begin(store: Store, token: str, dead: Iterable[str]) -> Store:
    """Begin a reign, and give the store by which its holder reads and writes.

    `store` is one that only whoever holds the lease may change. From the moment the record is there
    nothing counts that anybody else writes behind what is found now. Without a token there are no
    reigns: nobody writes late where a lock is what one holds.
    """
    from counterpoise.pipeline.stream.states import complete

    if not token:
        return store.seen_by(View("", Lineage()))
    before = store.lineage()
    seen = store.seen_by(View(before.head.token, before))
    settled = newest_poll(seen, "memory")
    rounds = [table for table in TABLES if table not in POLLED]
    found = {seen.file(name) for table in rounds for name in files(seen, table, after=settled)}
    reign = Reign(
        token,
        polled=newest_poll(seen) + 1,
        rounds=settled + 1,
        states=max((poll_id for poll_id, _ in complete(seen)), default=0) + 1,
        found=tuple(sorted(found)),
    )
    lineage = before.passes_to(reign, dead)
    store.write(record_of(token), lineage.to_json())
    store.guard()
    for name in store.names(DIRECTORY):
        other = name.partition(".")[0]
        if other in before.ranks or other in lineage.dead:
            store.delete(record_of(other))
    return store.seen_by(View(token, lineage))
