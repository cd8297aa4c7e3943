"""The interface of ledger stores: append in groups, read, fence, recover, store cursors.

Rules that hold for every store:

* A **log** is one topic's messages: an ordered list of *ledgers*. Opening a log starts a new
  ledger and fences the broker that had it open before; a fenced owner acknowledges nothing more.
* An entry counts as stored only when its group has been committed: written, synchronised, and
  the fence seen intact *after* that. Then, and in order, the listener is notified.
* A write that fails fails its callers, not the log: what the disk has of it is unknown, so its
  ledger is closed at the last entry that was committed, and the next write begins a new one.
* Entries that the disk has lost are reported, never served and never waited for: the others are
  read in order.
* Inside this process an entry is addressed by its **index**, a plain integer that is contiguous
  across ledgers, so that acknowledgement arithmetic is integer arithmetic. The `Position` of the
  protocol is (ledger id, entry id); the log converts. Indexes live as long as the open log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from counterpoise.bookkeeper.quorums import Quorums as Quorums  # noqa: PLC0414  part of this port
from counterpoise.names.position import NO_POSITION as NO_POSITION  # noqa: PLC0414
from counterpoise.names.position import Position as Position  # noqa: PLC0414  part of this port


class StorageError(Exception):
    """Stored data could not be written or read; the message says which and why."""


class LogFencedError(StorageError):
    """Another broker has taken this log over; entries appended since were not acknowledged."""


class LogClosedError(StorageError):
    """The log has been closed by this broker itself."""


class Lost(NamedTuple):
    """Entries ``first`` to ``last`` of a ledger can never be read again.

    They keep their positions and indexes. Reading one of them gives an empty entry.
    """

    ledger_id: int
    first: int
    last: int

    @property
    def entries(self) -> int:
        """The number of lost entries."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        noun = "entry" if self.entries == 1 else "entries"
        span = f"{self.ledger_id}:{self.first}" + (f" to {self.last}" if self.entries > 1 else "")
        return f"{self.entries} {noun} lost, {span}"


@dataclass(frozen=True, slots=True)
class CursorState:
    """What one durable subscription has acknowledged.

    Everything up to and including ``mark_delete``, and every entry inside the inclusive ``acked``
    ranges after it.
    """

    name: str
    mark_delete: Position
    acked: tuple[tuple[Position, Position], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    partial: tuple[tuple[Position, tuple[int, ...]], ...] = ()
    """Batches acknowledged in part: the position of each, and its messages that are not
    acknowledged, as a bit set of 64-bit words."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """A log's quorums of bookies, and how often cursors are stored (``PersistencePolicies``)."""

    quorums: Quorums
    """The quorums of ledgers with messages; those with cursors have the store's quorums."""
    mark_deletes_per_s: float
    """How often a second the state of cursors is stored, at most; 0: whenever it changes."""


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """The id, committed entries and bytes of one ledger of a log."""

    ledger_id: int
    entries: int
    size: int
    is_open: bool


class Chunk(NamedTuple):
    """Consecutive entries from index ``first`` on; entry ``i`` of them has ``messages[i]``
    messages.

    A lost entry is empty and has no messages. The lists may be shared with a cache, which may
    append what is committed later: read them, never change them.
    """

    first: int
    entries: Sequence[bytes]
    messages: Sequence[int]


C = TypeVar("C")


@dataclass(slots=True, eq=False)
class EntryGroup(Generic[C]):
    """Entries that are committed together, each with the context that its caller passed.

    ``first`` (the index of ``entries[0]``), ``ledger_id`` and ``first_entry`` (its position) and
    ``took_s`` (seconds from the first append to the commit) are known once the group is committed.
    """

    entries: list[bytes] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    contexts: list[C] = field(default_factory=list)
    first: int = -1
    ledger_id: int = -1
    first_entry: int = -1
    size: int = 0
    began_s: float = 0.0
    took_s: float = 0.0


class LogListener(Protocol[C]):
    """Callbacks about appended entries, on the event loop that opened the log."""

    def committed(self, group: EntryGroup[C]) -> None:
        """Called when every entry of ``group`` is stored. Groups arrive in order of appending."""

    def refused(self, error: StorageError, contexts: Sequence[C]) -> None:
        """Called when the entries of ``contexts`` were appended but are not stored; the log
        continues.

        They are all entries that were waiting, in order: entries appended from now on come after
        them.
        """

    def failed(self, error: StorageError, contexts: Sequence[C]) -> None:
        """Called when the log can store no more. Entries of ``contexts`` were not acknowledged."""

    def lost(self, lost: Lost) -> None:
        """Called once for each range of lost entries that a read found."""


class LedgerIds(Protocol):
    """One broker's supply of ledger ids. No two ledgers of a cluster get the same id.

    Clients track messages by their ids across topics, so an id that two topics share costs them
    redeliveries. Within one log ids ascend.
    """

    def next_id(self, above: int) -> int | None:
        """A new id larger than ``above``; None while the supply has none. Thread-safe."""

    async def fetch(self, above: int) -> None:
        """Wait until the supply has an id larger than ``above``."""
