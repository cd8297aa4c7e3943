"""The state of each shard after a poll: files in the history, which say how far the stream is.

A shard's state is megabytes of columns. In Spark's own state store they would go through the JVM at
every micro-batch, to the fold, back from it, into the store's file and on to the driver, which
takes longer than the fold. So they are files, and they are the stream's checkpoint as well:

* `states/<poll>/<shard>-of-<shards>.arrow` is the state after that poll; it appears whole;
* a poll's state counts when all its shards are there, and the stream goes on behind the newest that
  counts, whatever became of the process that wrote it;
* a state never changes: it follows from the one before and the polls in between, so a micro-batch
  that is repeated writes the same bytes under the same name.
"""

import re
import zlib
from collections.abc import Sequence

import numpy as np

from counterpoise.load.fold import AVERAGES, FoldState, merged, select
from counterpoise.load.rows import SERVED, Column
from counterpoise.pipeline.history.names import STATES
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.states import state_from_bytes, state_to_bytes

KEPT = 3
"""How many states stay: the newest, and two more in case it is damaged."""

_NAME = re.compile(r"^(\d+)-of-(\d+)\.arrow$")


def state_name(poll_id: int, shard: int, shards: int) -> str:
    """The file of a shard's state after a poll."""
    return f"{STATES}/{poll_id:015d}/{shard}-of-{shards}.arrow"


def read_state(store: Store, name: str) -> FoldState:
    """The state that a file holds."""
    state: FoldState = store.read(name, lambda file: state_from_bytes(file.read()))
    return state


def write_state(store: Store, name: str, state: FoldState) -> None:
    """Keep a state."""
    store.write(name, state_to_bytes(state))


def complete(store: Store) -> list[tuple[int, int]]:
    """The polls whose states are all there, each with the number of shards; oldest first."""
    found = []
    for directory in store.directories(STATES):
        if not directory.isdigit():
            continue
        names = [m for name in store.names(f"{STATES}/{directory}") if (m := _NAME.match(name))]
        for shards in sorted({int(name.group(2)) for name in names}):
            if sum(int(name.group(2)) == shards for name in names) == shards:
                found.append((int(directory), shards))
                break
    return found


def begin(store: Store, shards: int) -> int:
    """The poll behind which the stream goes on; 0 where nothing was folded yet.

    States of another number of shards are divided again.
    """
    found = complete(store)
    if not found:
        return 0
    poll_id, had = found[-1]
    if had != shards:
        names = [state_name(poll_id, shard, had) for shard in range(had)]
        whole = merged([read_state(store, name) for name in names])
        for shard in range(shards):
            write_state(store, state_name(poll_id, shard, shards), _part(whole, shard, shards))
        for name in names:
            store.delete(name)
    return poll_id


def forget(store: Store) -> None:
    """Remove the states that are not read again, and what a crash left of others."""
    polls = [poll_id for poll_id, _ in complete(store)]
    if len(polls) <= KEPT:
        return
    oldest = polls[-KEPT]
    for directory in store.directories(STATES):
        if directory.isdigit() and int(directory) < oldest:
            store.delete_directory(f"{STATES}/{directory}")


def _part(state: FoldState, shard: int, shards: int) -> FoldState:
    def mine(bundles: Column) -> Column:
        digests: Sequence[int] = [zlib.crc32(name.encode()) for name in bundles.tolist()]
        chosen: Column = np.equal(np.array(digests, np.int64) % shards, shard)
        return chosen

    return FoldState(
        select(state.averages, AVERAGES, mine(state.averages["bundle"])),
        select(state.served, SERVED, mine(state.served["bundle"])),
        state.brokers,
    )
