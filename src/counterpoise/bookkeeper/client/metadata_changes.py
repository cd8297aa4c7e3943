"""Changes of a ledger's metadata: open to closed, other bookies, recovery.

Every change is decided on the present metadata, and written by a compare-and-set on the version of
the ledger's node (Java's ``MetadataUpdateLoop``). After a conflict, or a write whose response was
lost, it reads and decides again. A ledger's state goes from open to in recovery to closed, or from
open to closed.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from counterpoise.bookkeeper.client_port import LedgerOver
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata, LedgerSegment, LedgerState


@dataclass(frozen=True, slots=True)
class VersionedMetadata:
    """A ledger's metadata and the version of its node."""

    metadata: LedgerMetadata
    version: int


class MetadataChange(Protocol):
    """One kind of change of a ledger's metadata, made by compare-and-set."""

    def decide(self, found: LedgerMetadata) -> LedgerMetadata | None:
        """The metadata to write; None if nothing has to change. Raises `BookKeeperError`."""


def change_metadata(
    change: MetadataChange, known: VersionedMetadata | None
) -> Generator[VersionedMetadata | None, VersionedMetadata | None, VersionedMetadata]:
    """The steps of a change, as a generator whose caller does the I/O; returns the metadata after
    it.

    Yields None to have the metadata read, or metadata to be written if the node still has their
    version. The caller sends what it read, or what it wrote with the new version, or None: after a
    conflict, or if it is unknown whether the write happened. ``known``: the metadata to begin with.
    """
    while True:
        if known is None:
            known = yield None
            continue
        changed = change.decide(known.metadata)
        if changed is None:
            return known
        written = yield VersionedMetadata(changed, known.version)
        if written is not None:
            return written
        known = None


@dataclass(frozen=True, slots=True)
class EnsembleChange:
    """The change by which a ledger's writer continues on other bookies from an entry on."""

    before: LedgerSegment
    """The last segment as the writer knows it; if the node has another, the change is refused."""
    after: LedgerSegment

    def decide(self, found: LedgerMetadata) -> LedgerMetadata | None:
        """The metadata to write; None if nothing has to change."""
        if found.state is not LedgerState.OPEN:
            raise LedgerOver(f"another client recovers ledger {found.ledger}, or has closed it")
        last = found.segments[-1]
        if last == self.after:
            return None
        if last != self.before:
            raise LedgerOver(f"another client changed the bookies of ledger {found.ledger}")
        return replace(found, segments=with_segments(found.segments, [self.after]))


@dataclass(frozen=True, slots=True)
class WriterClose:
    """The change that closes a ledger, made by its writer."""

    last_entry: int
    length: int

    def decide(self, found: LedgerMetadata) -> LedgerMetadata | None:
        """The metadata to write; None if nothing has to change."""
        if found.state is LedgerState.OPEN:
            return closed(found, self.last_entry, self.length)
        if found.closed and (found.last_entry, found.length) == (self.last_entry, self.length):
            return None
        # The length may differ alone: Java's recovery takes it from an entry beyond the last.
        end = f"closed it at entry {found.last_entry}, {found.length} bytes"
        raise LedgerOver(
            f"ledger {found.ledger} cannot be closed at entry {self.last_entry}, {self.length} "
            f"bytes: another client {end if found.closed else 'recovers it'}"
        )


@dataclass(frozen=True, slots=True)
class RecoveryStart:
    """The change that starts a recovery: a writer cannot change the ledger's bookies any more."""

    def decide(self, found: LedgerMetadata) -> LedgerMetadata | None:
        """The metadata to write; None if nothing has to change."""
        if found.state is LedgerState.OPEN:
            return replace(found, state=LedgerState.IN_RECOVERY)
        return None


@dataclass(frozen=True, slots=True)
class RecoveryClose:
    """The change that closes a ledger after its recovery. An earlier recovery's result is kept."""

    before: LedgerSegment
    """The last segment that the recovery knew; if the node has another, the change is refused."""
    last_entry: int
    length: int
    segments: tuple[LedgerSegment, ...]
    """The segments in which the recovery wrote entries to other bookies."""

    def decide(self, found: LedgerMetadata) -> LedgerMetadata | None:
        """The metadata to write; None if nothing has to change."""
        if found.closed:
            return None
        if found.state is not LedgerState.IN_RECOVERY or found.segments[-1] != self.before:
            raise BookKeeperError(
                f"ledger {found.ledger} was changed while it was recovered; recover it again"
            )
        segments = with_segments(found.segments, self.segments)
        return closed(replace(found, segments=segments), self.last_entry, self.length)


def closed(found: LedgerMetadata, last_entry: int, length: int) -> LedgerMetadata:
    """The metadata of a ledger, changed to closed at this last entry and length in bytes."""
    return replace(found, state=LedgerState.CLOSED, last_entry=last_entry, length=length)


def with_segments(
    segments: Sequence[LedgerSegment], more: Sequence[LedgerSegment]
) -> tuple[LedgerSegment, ...]:
    """Add segments to a ledger's, in order; one replaces another that begins at the same entry."""
    by_first = {each.first: each for each in (*segments, *more)}
    return tuple(by_first[first] for first in sorted(by_first))
