"""The port every ledger store implements: append in groups, read, fence, recover, remember acks.

Laws of this room:

* A **log** is one topic's messages: an ordered list of *ledgers*. Opening a log starts a new
  ledger and fences the broker that had it open before; a fenced owner acknowledges nothing more.
* An entry counts as stored only when its group has been committed: written, synchronised, and
  the fence seen intact *after* that. Then, and in order, the listener hears of it.
* A write that fails fails its callers, not the log: what the disk has of it is unknown, so its
  ledger is closed at the last entry that was committed, and the next write begins a new one.
* What the disk has lost is named, never served and never waited for: the rest goes on in order.
* Inside this process an entry is addressed by its **index**, a plain integer that is contiguous
  across ledgers, so that acknowledgement arithmetic is integer arithmetic. The `Position` of the
  protocol is (ledger id, entry id); the log converts. Indexes live as long as the open log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from counterpoise.names.position import NO_POSITION as NO_POSITION  # noqa: PLC0414
from counterpoise.names.position import Position as Position  # noqa: PLC0414  part of this port
from counterpoise.storage.topic_record import TopicCodec


class StorageError(Exception):
    """Stored data could not be written or read; the message says which and why."""


class LogFencedError(StorageError):
    """Another owner opened this log; nothing appended since was acknowledged."""


class LogClosedError(StorageError):
    """The log was closed by its own owner."""


class Lost(NamedTuple):
    """Entries ``first`` to ``last`` of a ledger cannot be read any more, and never will be.

    They keep their positions and their indexes. Reading one of them gives an empty entry.
    """

    ledger_id: int
    first: int
    last: int

    @property
    def entries(self) -> int:
        """How many."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        noun = "entry" if self.entries == 1 else "entries"
        span = f"{self.ledger_id}:{self.first}" + (f" to {self.last}" if self.entries > 1 else "")
        return f"{self.entries} {noun} lost, {span}"


@dataclass(frozen=True, slots=True)
class CursorState:
    """How far one durable subscription has come.

    Everything up to and including ``mark_delete`` is acknowledged, and so is every entry inside
    the inclusive ``acked`` ranges after it.
    """

    name: str
    mark_delete: Position
    acked: tuple[tuple[Position, Position], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    partial: tuple[tuple[Position, tuple[int, ...]], ...] = ()
    """Batches of which a part is acknowledged: the messages that are not, as 64-bit words."""


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """One ledger of a log: its committed entries and their bytes."""

    ledger_id: int
    entries: int
    size: int
    is_open: bool


class Chunk(NamedTuple):
    """Consecutive entries; ``messages[i]`` is how many messages the batch ``entries[i]`` holds.

    An entry that is lost is empty, and has no messages. The lists may be shared with a cache, which
    may add to them what is committed later: read them, never change them.
    """

    first: int
    entries: Sequence[bytes]
    messages: Sequence[int]


C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)


class EntryGroup(Generic[C]):
    """Entries that are committed together, and the caller's context of each.

    ``first`` (the index of ``entries[0]``) and its position are known once it is committed.
    """

    __slots__ = ("contexts", "entries", "first", "first_entry", "ledger_id", "messages", "size")

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.messages: list[int] = []
        self.contexts: list[C] = []
        self.first = -1
        self.ledger_id = -1
        self.first_entry = -1
        self.size = 0


class LogListener(Protocol[C]):
    """Who appends to a log; called on the event loop that opened it."""

    def committed(self, group: EntryGroup[C]) -> None:
        """Every entry of ``group`` is stored for good. Groups arrive in order of appending."""

    def refused(self, error: StorageError, contexts: Sequence[C]) -> None:
        """Entries of ``contexts`` were appended and are not stored. The log goes on.

        They are all that was waiting, in order: what is appended from now on comes after them.
        """

    def failed(self, error: StorageError, contexts: Sequence[C]) -> None:
        """The log can take no more. Entries of ``contexts`` were appended, never acknowledged."""

    def lost(self, lost: Lost) -> None:
        """A read met entries that cannot be read any more; called once for each. See `Log.lost`."""


class Log(Protocol[C_contra]):
    """One topic's stored messages, open for its only owner."""

    name: str

    @property
    def begin(self) -> int:
        """Index of the oldest entry that is still kept."""

    @property
    def end(self) -> int:
        """Index after the newest committed entry; equal to `begin` when the log is empty."""

    @property
    def size(self) -> int:
        """Bytes of all committed entries that are still kept."""

    @property
    def ledgers(self) -> tuple[LedgerInfo, ...]:
        """The ledgers in order; the last one is being written."""

    @property
    def cursors(self) -> Mapping[str, CursorState]:
        """Every durable cursor as it was last saved."""

    @property
    def lost(self) -> Sequence[Lost]:
        """Everything that is known to be lost of what is kept, in order."""

    @property
    def cursors_lost(self) -> bool:
        """Whether durable cursors existed that could not be read when the log was opened.

        How far they had come is unknown, so a subscription that comes back begins where the log
        does.
        """

    def append(self, entry: bytes, messages: int, context: C_contra) -> None:
        """Queue one entry. Raises `LogFencedError` or `LogClosedError`; never blocks."""

    def extend(
        self, entries: Sequence[bytes], messages: Sequence[int], contexts: Sequence[C_contra]
    ) -> None:
        """Queue entries in a row, all of them or none: what `append` does, for less."""

    def position(self, index: int) -> Position:
        """Position of the entry at ``index``; one past the end gives the next to be written."""

    def index(self, position: tuple[int, int]) -> int:
        """Index of the first kept or future entry at or after ``position``."""

    def cached(self, index: int) -> Chunk | None:
        """A chunk that contains ``index`` if memory has it, else None (then `read` it)."""

    @property
    def cached_bytes(self) -> int:
        """Bytes of entries that memory has besides the store; 0 where memory is the store."""

    async def read(self, index: int, max_bytes: int) -> Chunk:
        """A chunk beginning at ``index``: at least one entry, about ``max_bytes`` at most."""

    def save_cursor(self, state: CursorState) -> None:
        """Remember a cursor; it is on disk soon, and by the end of `flush`."""

    async def cursors_saved(self) -> None:
        """Wait until every cursor that was remembered so far is on disk; raises `StorageError`."""

    def drop_cursor(self, name: str) -> None:
        """Forget a cursor."""

    def trim(self, before: int) -> None:
        """Delete every closed ledger whose entries all lie before index ``before``."""

    async def drain(self) -> None:
        """Wait until all that was appended is committed (or failed)."""

    async def flush(self) -> None:
        """Wait until all that was appended is committed (or failed) and cursors are saved."""

    async def close(self) -> None:
        """Wait for what was appended, and release the log. A fenced log closes without an error.

        What the next owner finds is all there, cursors too; the disk may have their last state a
        moment later, and until then the one before it.

        Raises `StorageError` where the disk fails, or does not answer in time: the log is closed
        then as well, and what was not acknowledged by then never is.
        """


class LedgerIds(Protocol):
    """One broker's supply of ledger ids. No two ledgers of a cluster get the same id.

    Clients track messages by their ids across topics, so an id that two topics share costs them
    redeliveries. Within one log ids ascend.
    """

    def take(self, above: int) -> int | None:
        """A new id larger than ``above``; None while the supply has none. From any thread."""

    async def fetch(self, above: int) -> None:
        """Return once the supply has an id larger than ``above``."""


class LedgerStore(Protocol):
    """Where logs are kept, shared by the brokers of a cluster."""

    @property
    def topics(self) -> TopicCodec:
        """How topics are written into their nodes, which a store may have more in."""

    async def open(
        self, name: str, owner: str, listener: LogListener[C], ids: LedgerIds | None = None
    ) -> Log[C]:
        """Fence the former owner of log ``name``, recover what it committed, take it over.

        ``owner`` names the new owner for messages to people. ``ids`` is where its ledgers' ids
        come from, by default a sequence of this store alone. Creates the log if need be.
        """

    async def prepare(self, name: str, ids: LedgerIds | None = None) -> None:
        """Read what opening log ``name`` will need, while its owner still has it.

        It changes nothing that another broker sees, and `open` looks again at all that may have
        changed. Raises `StorageError`, after which `open` takes its time as without it.
        """

    async def highest_ledger(self) -> int:
        """The largest ledger id of all stored logs; -1 if there is none. Raises `StorageError`."""

    async def is_released(self, name: str) -> bool:
        """Whether the last owner of log ``name`` has closed it, in order and for good.

        What it acknowledged is all there, and it acknowledges nothing any more. False as well
        where that cannot be known: it died, or there is no such log. Raises `StorageError`.
        """

    async def exists(self, name: str) -> bool:
        """Whether a log of this name has been created and not deleted."""

    async def delete(self, name: str) -> None:
        """Fence the owner, then delete the log with its cursors; no-op when there is none."""

    async def close(self) -> None:
        """Stop the store's own threads. Logs must have been closed."""
