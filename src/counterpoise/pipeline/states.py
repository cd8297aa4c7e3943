"""The state of each shard: a file for each version, of which Spark knows the one that counts.

A shard's state is megabytes of columns. In Spark's own state store they would go through the JVM
at every micro-batch, to the fold, back from it, into the store's file and on to the driver, which
takes longer than the fold. So the store has the number of a version, and
`STATES/<shard>/<version>.arrow` has the columns. It is as safe as the store itself:

* a version is on the disk, whole, before Spark hears of its number;
* a version never changes: it follows from the one before it and from the landed files of one
  micro-batch, so a micro-batch that is repeated writes the same bytes under the same name;
* a version stays for as long as Spark may go back to it.
"""

from pathlib import Path

from counterpoise.load.fold import FoldState
from counterpoise.pipeline.codec import state_from_bytes, state_to_bytes
from counterpoise.pipeline.files import appearing

BATCHES_KEPT = 20
"""How many micro-batches Spark may go back."""


def state_path(states: Path, shard: int, version: int) -> Path:
    """Where a version of a shard's state is; versions are counted from 1."""
    return states / str(shard) / f"{version:015d}.arrow"


def read_state(path: Path) -> FoldState:
    """The state that a file holds."""
    return state_from_bytes(path.read_bytes())


def write_state(path: Path, state: FoldState) -> None:
    """Keep a version, and let go of those that Spark cannot go back to any more."""
    with appearing(path) as file:
        file.write(state_to_bytes(state))
    oldest = _version(path) - BATCHES_KEPT
    for kept in path.parent.glob("*.arrow*"):
        if _version(kept) < oldest:
            kept.unlink(missing_ok=True)


def _version(file: Path) -> int:
    """The version a file is of, also when it is a hidden one that a crash left behind."""
    return int(file.name.lstrip(".").partition(".")[0])
