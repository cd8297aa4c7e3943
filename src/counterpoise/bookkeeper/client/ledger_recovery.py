"""Recovery of a ledger, without sockets and clocks: fence its writer, and find its last entry.

Every bookie of the last segment is asked, with fencing, until no ack quorum can remain that would
accept entries of the writer. Then each entry after the last one known to be confirmed is read: one
that a bookie has is written again to an ack quorum; one that too few bookies can have for an
acknowledgement ends the ledger (Java's ``LedgerRecoveryOp``). A bookie that does not respond, or
responds with an error, never counts as one that has no entry. These reads fence as well, because
bookies that were not asked in time at first may still accept what the writer sends (BookKeeper's
issue 2614).
"""

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from counterpoise.bookkeeper.bookie_frames import (
    ADD,
    LAST_ENTRY,
    NO_ENTRY,
    NO_LEDGER,
    OK,
    READ,
    UNAUTHORISED,
    BookieAnswer,
    BookieRequest,
    add_request,
    fencing_read_request,
)
from counterpoise.bookkeeper.client.metadata_changes import with_segments
from counterpoise.bookkeeper.errors import BadStoredEntry, BookKeeperError
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata, LedgerSegment
from counterpoise.bookkeeper.stored_entry import EntryDigest, StoredEntry, master_key


class RecoveryFailed(BookKeeperError):
    """Too few bookies responded to decide where a ledger ends. It can be tried again."""


@dataclass(frozen=True, slots=True)
class RecoveredEnd:
    """The end of a ledger as its recovery found it."""

    last_entry: int
    length: int
    segments: tuple[LedgerSegment, ...]
    """Segments to add to the metadata, in which the recovery wrote entries to other bookies."""


class LedgerRecoveryActions(Protocol):
    """What a ledger's recovery asks its caller to do: requests, replacements, results."""

    def send(self, bookie: str, request: BookieRequest) -> None:
        """Send a request. Its response follows, or `LedgerRecovery.unanswered`."""

    def replace(self, ensemble: Sequence[str], failed: Collection[str]) -> None:
        """Find bookies to replace failed ones, then call `LedgerRecovery.replaced`."""

    def recovered(self, end: RecoveredEnd) -> None:
        """Called when the ledger's end is known, at which its metadata has to be closed."""

    def failed(self, error: RecoveryFailed) -> None:
        """Called when the ledger's end could not be decided."""


class _Phase(enum.Enum):
    FENCE = enum.auto()
    READ = enum.auto()
    WRITE = enum.auto()
    MEASURE = enum.auto()
    """Reads the last entry for its header, which has the ledger's length in bytes."""
    OVER = enum.auto()


class LedgerRecovery:
    """The recovery of a ledger as a state machine without I/O.

    The ledger's metadata must be in state ``IN_RECOVERY`` before.
    """

    def __init__(self, found: LedgerMetadata, actions: LedgerRecoveryActions) -> None:
        self._metadata = found
        self._actions = actions
        self._digest = EntryDigest(found.digest, found.password)
        self._key = master_key(found.password)
        self._phase = _Phase.FENCE
        self._entry = LAST_ENTRY
        """The entry that is asked for or written."""
        self._answered: set[str] = set()
        """The bookies that did their part of the phase: were fenced, have no such entry, or wrote
        it."""
        self._reasons: dict[str, str] = {}
        """Why other bookies did not answer properly."""
        self._last = found.segments[-1].first - 1
        """The last entry that is known to be in the ledger."""
        self._confirmed = self._last
        """The last entry that is known to have been confirmed by the ledger's writer."""
        self._length: int | None = None
        """Bytes of all payloads up to and including `_confirmed`; None: not known yet."""
        self._length_above = 0
        """Bytes of all payloads up to and including an entry that may come after `_confirmed`."""
        self._target = LedgerSegment(found.segments[-1].first, found.segments[-1].ensemble)
        """The segment that entries are written to."""
        self._written: BookieRequest | None = None
        self._replaced: tuple[LedgerSegment, ...] = ()
        self._replacing: frozenset[str] = frozenset()

    def start(self) -> None:
        """Fence every bookie of the last segment."""
        request = fencing_read_request(self._metadata.ledger, LAST_ENTRY, self._key)
        for bookie in self._target.ensemble:
            self._actions.send(bookie, request)

    def answered(self, bookie: str, answer: BookieAnswer) -> None:
        """Take a bookie's response to a request of this recovery."""
        if not self._waits_for(answer.operation, answer.entry):
            return
        if answer.code == UNAUTHORISED:
            self._fail(f"bookie {bookie}: {answer.reason}")
        elif self._phase is _Phase.WRITE:
            self._on_written(bookie, answer)
        else:
            self._on_read(bookie, answer)

    def unanswered(self, bookie: str, request: BookieRequest, why: str) -> None:
        """Note that a bookie did not respond to a request and will not."""
        if self._waits_for(request.operation, request.entry):
            self._without(bookie, why)

    def replaced(self, ensemble: Sequence[str]) -> None:
        """Continue with these bookies for further entries; failed ones may still be among them."""
        if self._phase is not _Phase.WRITE or self._written is None:
            return
        before, self._target = self._target, LedgerSegment(self._entry, tuple(ensemble))
        self._replacing = frozenset()
        fresh = set(ensemble) - set(before.ensemble)
        if fresh:
            self._replaced = with_segments(self._replaced, [self._target])
        for bookie in self._write_set():
            if bookie in fresh:
                # It may have failed before and been replaced: that counts no more.
                self._reasons.pop(bookie, None)
                self._actions.send(bookie, self._written)
        self._after_write(may_replace=bool(fresh))

    def _waits_for(self, operation: int, entry: int) -> bool:
        if self._phase is _Phase.OVER or entry != self._entry:
            return False
        return operation == (ADD if self._phase is _Phase.WRITE else READ)

    def _on_read(self, bookie: str, answer: BookieAnswer) -> None:
        if answer.code in (NO_ENTRY, NO_LEDGER):
            self._answered.add(bookie)
            self._after_read()
            return
        if answer.code != OK:
            self._without(bookie, answer.reason)
            return
        expected = None if self._phase is _Phase.FENCE else self._entry
        try:
            stored = self._digest.open(self._metadata.ledger, expected, answer.stored)
        except BadStoredEntry as error:
            self._without(bookie, str(error))
            return
        if self._phase is _Phase.FENCE:
            self._answered.add(bookie)
            if stored.last_confirmed > self._last:
                self._last = self._confirmed = stored.last_confirmed
                self._length_above = stored.length
            self._after_read()
        elif self._phase is _Phase.READ:
            self._write(stored)
        else:
            self._end(stored.length)

    def _without(self, bookie: str, why: str) -> None:
        """Note that a bookie failed, and continue without it."""
        self._reasons[bookie] = f"bookie {bookie}: {why}"
        if self._phase is _Phase.WRITE:
            self._after_write(may_replace=True)
        else:
            self._after_read()

    def _after_read(self) -> None:
        if self._phase is _Phase.FENCE:
            if self._writer_is_fenced():
                self._read(self._last + 1)
            elif len(self._answered | self._reasons.keys()) == len(self._target.ensemble):
                self._fail(f"its writer cannot be fenced: {'; '.join(self._reasons.values())}")
            return
        write_quorum = self._metadata.write_quorum
        if self._phase is _Phase.READ and len(self._answered) > (
            write_quorum - self._metadata.ack_quorum
        ):
            self._found_end()
        elif len(self._answered) + len(self._reasons) == write_quorum:
            self._cannot_read()

    def _writer_is_fenced(self) -> bool:
        """Whether too few bookies are left unfenced for the writer to get an entry acknowledged."""
        metadata, ensemble = self._metadata, self._target.ensemble
        size = len(ensemble)
        return all(
            sum(
                ensemble[(begin + step) % size] not in self._answered
                for step in range(metadata.write_quorum)
            )
            < metadata.ack_quorum
            for begin in range(size)
        )

    def _read(self, entry: int, phase: _Phase = _Phase.READ) -> None:
        self._phase, self._entry = phase, entry
        self._answered, self._reasons = set(), {}
        request = fencing_read_request(self._metadata.ledger, entry, self._key)
        for bookie in self._metadata.write_set(entry):
            self._actions.send(bookie, request)

    def _found_end(self) -> None:
        if self._last == LAST_ENTRY:
            self._end(0)
        elif self._length is not None:
            self._end(self._length)
        else:
            self._read(self._last, _Phase.MEASURE)

    def _cannot_read(self) -> None:
        if self._phase is _Phase.MEASURE and not self._reasons and self._length_above:
            # The last entry is lost: the length is known only from the header of a later one.
            self._end(self._length_above)
        else:
            self._fail(f"entry {self._entry} cannot be read: {'; '.join(self._reasons.values())}")

    def _write(self, stored: StoredEntry) -> None:
        """Write an entry that was read, until an ack quorum has it."""
        self._phase = _Phase.WRITE
        self._length = stored.length
        self._answered, self._reasons = set(), {}
        ledger, entry = self._metadata.ledger, self._entry
        # As confirmed the header names what the writer had confirmed. Java names the entry before
        # this one: if only a bookie that the metadata does not name yet has that, another recovery
        # would take it for confirmed all the same.
        head = self._digest.head(ledger, entry, self._confirmed, stored.length, stored.payload)
        self._written = add_request(ledger, entry, self._key, head, stored.payload, recovery=True)
        for bookie in self._write_set():
            self._actions.send(bookie, self._written)

    def _on_written(self, bookie: str, answer: BookieAnswer) -> None:
        if answer.code == OK:
            self._answered.add(bookie)
            self._after_write(may_replace=False)
        else:
            self._without(bookie, answer.reason)

    def _after_write(self, *, may_replace: bool) -> None:
        if self._replacing:
            return
        targets = self._write_set()
        failed = frozenset(targets) & self._reasons.keys()
        if failed and may_replace:
            self._replacing = failed
            self._actions.replace(self._target.ensemble, failed)
        elif len(self._answered.intersection(targets)) >= self._metadata.ack_quorum:
            self._last = self._entry
            self._read(self._entry + 1)
        elif len(targets) - len(failed) < self._metadata.ack_quorum:
            reasons = "; ".join(self._reasons[each] for each in sorted(failed))
            self._fail(f"entry {self._entry} cannot be written again: {reasons}")

    def _write_set(self) -> list[str]:
        ensemble = self._target.ensemble
        return [
            ensemble[(self._entry + step) % len(ensemble)]
            for step in range(self._metadata.write_quorum)
        ]

    def _end(self, length: int) -> None:
        self._phase = _Phase.OVER
        self._actions.recovered(RecoveredEnd(self._last, length, self._replaced))

    def _fail(self, why: str) -> None:
        self._phase = _Phase.OVER
        self._actions.failed(RecoveryFailed(f"ledger {self._metadata.ledger}: {why}"))
