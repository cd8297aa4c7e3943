"""A ledger's unacknowledged entries, as a state machine without sockets and clocks.

Each entry goes to its write set. It is acknowledged when an ack quorum has it, after all entries
before it, and never while a failed bookie waits to be replaced (Java's ``PendingAddOp`` and
``LedgerHandle``). Writing ends if a bookie reports that the ledger is fenced, if no bookie can
replace a failed one, or if another client changed the metadata.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from counterpoise.bookkeeper.bookie_frames import (
    FENCED,
    OK,
    UNAUTHORISED,
    BookieAnswer,
    BookieRequest,
    add_request,
)
from counterpoise.bookkeeper.client_port import LedgerOver
from counterpoise.bookkeeper.ledger_metadata import NO_ENTRY, LedgerMetadata, LedgerSegment
from counterpoise.bookkeeper.stored_entry import EntryDigest, master_key


class AddActions(Protocol):
    """What `PendingAdds` asks the ledger's writer to do."""

    def send(self, bookie: str, *requests: BookieRequest) -> None:
        """Send entries to a bookie. Its responses follow, or `PendingAdds.bookie_failed`."""

    def confirmed(self, last: int) -> None:
        """Called when entries up to ``last`` are acknowledged."""

    def change_ensemble(self, first: int, before: LedgerSegment, failed: Collection[str]) -> None:
        """Write a segment from ``first`` on, without the failed bookies, into the metadata.

        Then call `PendingAdds.ensemble_changed`, or `PendingAdds.end` if that is impossible.
        """

    def ended(self, error: LedgerOver) -> None:
        """Called when the writer has ended: no further entry is acknowledged."""


@dataclass(slots=True, eq=False)
class _PendingAdd:
    """An entry that was sent to bookies and is not acknowledged yet."""

    request: BookieRequest
    length: int
    """Bytes of all payloads up to and including this one."""
    stored_at: int = 0
    """A bit for each place in the ensemble whose bookie has the entry."""


class PendingAdds:
    """The entries of one new ledger that are sent and not acknowledged, as a state machine."""

    def __init__(self, created: LedgerMetadata, actions: AddActions) -> None:
        self.ledger = created.ledger
        self.last_confirmed = NO_ENTRY
        self.length = 0
        """Bytes of the payloads of all acknowledged entries."""
        self._actions = actions
        self._write_quorum = created.write_quorum
        self._ack_quorum = created.ack_quorum
        self._digest = EntryDigest(created.digest, created.password)
        self._key = master_key(created.password)
        self._write_in(created.segments[-1])
        self._pending: dict[int, _PendingAdd] = {}
        """Entries that are not acknowledged yet, by id in ascending order."""
        self._next = 0
        self._sent_length = 0
        self._failed: set[str] = set()
        """Bookies of the ensemble that have to be replaced."""
        self._replacing: frozenset[str] = frozenset()
        """The failed bookies whose replacement is being written into the metadata."""
        self._over = ""
        """Why the ledger takes no more entries; empty while it does."""

    def add(self, *payloads: bytes) -> int:
        """Send entries; returns the id of the first. Raises `LedgerOver`."""
        if self._over:
            raise LedgerOver(self._over)
        first, ledger, confirmed = self._next, self.ledger, self.last_confirmed
        requests: dict[str, list[BookieRequest]] = {bookie: [] for bookie in self._places}
        for entry, payload in enumerate(payloads, first):
            self._sent_length += len(payload)
            head = self._digest.head(ledger, entry, confirmed, self._sent_length, payload)
            request = add_request(ledger, entry, self._key, head, payload, recovery=False)
            self._pending[entry] = _PendingAdd(request, self._sent_length)
            for bookie in self._write_sets[entry % len(self._write_sets)]:
                requests[bookie].append(request)
        self._next += len(payloads)
        for bookie, its in requests.items():
            if its and bookie not in self._failed:
                self._actions.send(bookie, *its)
        return first

    def answered(self, bookie: str, *answers: BookieAnswer) -> None:
        """Note which bookies have stored which entries, and acknowledge those on enough of them."""
        for answer in answers:
            if answer.code == OK:
                self._stored(bookie, answer.entry)
                continue
            self._confirm()
            if answer.code in (FENCED, UNAUTHORISED):
                self.end(f"ledger {self.ledger}: bookie {bookie}: {answer.reason}")
            else:
                self.bookie_failed(bookie)
        self._confirm()

    def bookie_failed(self, bookie: str) -> None:
        """Note that a bookie refused an entry or was silent; it may have stored it nevertheless."""
        if self._over or bookie not in self._places:
            return
        self._failed.add(bookie)
        if not self._replacing:
            self._replace_failed()

    def ensemble_changed(self, segment: LedgerSegment) -> None:
        """Continue in ``segment``: send pending entries to its new bookies.

        Copies on the bookies that were replaced no longer count.
        """
        if self._over:
            return
        replaced = {self._places[bookie] for bookie in self._replacing}
        self._write_in(segment)
        self._failed -= self._replacing
        self._replacing = frozenset()
        for entry, pending in self._pending.items():
            for bookie in self._write_sets[entry % len(self._write_sets)]:
                if (place := self._places[bookie]) in replaced:
                    pending.stored_at &= ~(1 << place)
                    self._actions.send(bookie, pending.request)
        if self._failed:
            self._replace_failed()
        else:
            self._confirm()

    def end(self, why: str) -> None:
        """End the ledger: acknowledge nothing more, and notify its owner; ``why`` is a sentence."""
        if not self._over:
            self.stop(why)
            self._actions.ended(LedgerOver(why))

    def stop(self, why: str) -> None:
        """Acknowledge nothing more, without notification; ``why`` is a sentence."""
        self._over = self._over or why
        self._pending.clear()

    def _stored(self, bookie: str, entry: int) -> None:
        place, pending = self._places.get(bookie), self._pending.get(entry)
        if place is None or pending is None:
            return
        if (place - entry) % len(self._places) >= self._write_quorum:
            # A late response: the bookie has another place in the ensemble now, which does not
            # store this entry.
            return
        pending.stored_at |= 1 << place

    def _confirm(self) -> None:
        """Acknowledge, in order, the entries that enough bookies have."""
        if self._failed:
            return
        last = self.last_confirmed
        while (pending := self._pending.get(last + 1)) is not None:
            if pending.stored_at.bit_count() < self._ack_quorum:
                break
            last += 1
            self.length = pending.length
            del self._pending[last]
        if last > self.last_confirmed:
            self.last_confirmed = last
            self._actions.confirmed(last)

    def _replace_failed(self) -> None:
        self._replacing = frozenset(self._failed)
        self._actions.change_ensemble(self.last_confirmed + 1, self._segment, self._replacing)

    def _write_in(self, segment: LedgerSegment) -> None:
        """Send all further entries to the bookies of this segment."""
        ensemble = segment.ensemble
        self._segment = segment
        self._places = {bookie: place for place, bookie in enumerate(ensemble)}
        self._write_sets = [
            [ensemble[(place + step) % len(ensemble)] for step in range(self._write_quorum)]
            for place in range(len(ensemble))
        ]
        """The bookies of an entry, by its id modulo the ensemble's size."""
