"""The clients of a simulated ledger: its writer, which may be a zombie, and recoverers."""

from collections.abc import Collection, Mapping, Sequence

from counterpoise.bookkeeper.bookie_frames import BookieAnswer, BookieRequest
from counterpoise.bookkeeper.client import ledger_recovery, metadata_changes
from counterpoise.bookkeeper.client.pending_adds import PendingAdds
from counterpoise.bookkeeper.client_port import LedgerOver
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata, LedgerSegment, LedgerState
from tests.bookkeeper.sim.world import (
    Clock,
    Event,
    Link,
    SimulatedBookie,
    StoredMetadata,
    Violation,
)

READ_AFTER_S = 0.02
"""How long an answer waits in the socket at times, in which others may come."""


def payload_of(entry: int) -> bytes:
    return b"%d" % entry * (entry % 5 + 1)


class SimulatedClient:
    """A machine with connections, which may stand still for a while."""

    def __init__(
        self, name: str, clock: Clock, bookies: Mapping[str, SimulatedBookie], node: StoredMetadata
    ) -> None:
        self.name = name
        self.clock = clock
        self.node = node
        self.awake_at = 0.0
        self.bookies = bookies
        self.links = {each.name: Link(clock, self, each) for each in bookies.values()}

    def when_awake(self, event: Event) -> None:
        if self.clock.now >= self.awake_at:
            event()
        else:
            self.clock.at(self.awake_at, lambda: self.when_awake(event))

    def send(self, bookie: str, *requests: BookieRequest) -> None:
        for request in requests:
            self.links[bookie].send(request)

    def spare(self, ensemble: Collection[str]) -> list[str]:
        """Others that seem to be there, in any order."""
        names = [each.name for each in self.bookies.values() if each.up]
        self.clock.rng.shuffle(names)
        return [name for name in names if name not in ensemble]

    def answered(self, bookie: str, answer: BookieAnswer) -> None:
        raise NotImplementedError

    def unanswered(self, bookie: str, request: BookieRequest) -> None:
        raise NotImplementedError


def with_others(ensemble: Sequence[str], failed: Collection[str], spare: list[str]) -> list[str]:
    return [spare.pop() if each in failed and spare else each for each in ensemble]


class SimulatedWriter(SimulatedClient):
    """Adds entries; every acknowledgement is judged when it comes."""

    def __init__(
        self, clock: Clock, bookies: Mapping[str, SimulatedBookie], node: StoredMetadata
    ) -> None:
        super().__init__("writer", clock, bookies, node)
        self.known = metadata_changes.VersionedMetadata(node.metadata, node.version)
        self.write = PendingAdds(node.metadata, self)
        self.acknowledged = -1
        self.received: dict[str, list[BookieAnswer]] = {}
        self.ends = 0
        self.closing = self.changing = self.lacks_bookies = False

    def add(self) -> None:
        count = self.clock.rng.choice((1, 1, 1, 2, 4))
        try:
            first = self.write.add(*(payload_of(self.added + each) for each in range(count)))
        except LedgerOver:
            return
        if first != self.added:
            raise Violation(f"entry {first} after {self.added - 1}")
        self.added += count

    added = 0

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self.write.stop("closed")
            change = metadata_changes.WriterClose(self.write.last_confirmed, self.write.length)
            self.node.begin(self, metadata_changes.change_metadata(change, self.known))

    # What the state machine has done for it.

    def confirmed(self, last: int) -> None:
        first, self.acknowledged = self.acknowledged + 1, last
        self.clock.log(f"writer acknowledges {first} to {last}")
        if last < first:
            raise Violation(f"{last} is acknowledged after {first - 1}")
        found = self.node.metadata
        if found.closed and last > found.last_entry:
            raise Violation(f"{last} is acknowledged, and the ledger ends at {found.last_entry}")
        for entry in range(first, last + 1):
            require_copies(self.bookies, found, entry, found.ack_quorum)

    def change_ensemble(self, first: int, before: LedgerSegment, failed: Collection[str]) -> None:
        spare = self.spare(before.ensemble)
        self.clock.log(f"writer replaces {sorted(failed)} from {first} on")
        if self.changing:
            raise Violation("the writer changes its bookies twice at once, and so ends itself")
        if len(spare) < len(failed):
            self.lacks_bookies = True
            self.write.end("no other bookie")
            return
        self.changing = True
        after = LedgerSegment(first, tuple(with_others(before.ensemble, failed, spare)))
        change = metadata_changes.EnsembleChange(before, after)
        self.node.begin(self, metadata_changes.change_metadata(change, self.known))

    def ended(self, error: LedgerOver) -> None:
        self.ends += 1
        self.clock.log(f"writer ends: {error}")
        if self.ends > 1:
            raise Violation("the end is notified twice")
        if self.node.metadata.state is LedgerState.OPEN and not self.lacks_bookies:
            raise Violation(f"no other client touched the ledger, and its writer ends: {error}")
        self.clock.after(self.clock.delay(), lambda: self.when_awake(self.close))

    # Answers.

    def answered(self, bookie: str, answer: BookieAnswer) -> None:
        """What one read of the socket brings is passed on together."""
        self.received.setdefault(bookie, []).append(answer)
        self.clock.after(
            self.clock.rng.choice((0.0, 0.0, READ_AFTER_S)),
            lambda: self.when_awake(lambda: self.pass_on(bookie)),
        )

    def unanswered(self, bookie: str, request: BookieRequest) -> None:
        self.pass_on(bookie)
        self.write.bookie_failed(bookie)

    def pass_on(self, bookie: str) -> None:
        self.write.answered(bookie, *self.received.pop(bookie, ()))

    def changed(self, known: metadata_changes.VersionedMetadata) -> None:
        self.known = known
        self.changing = False
        if not self.closing:
            self.write.ensemble_changed(known.metadata.segments[-1])

    def refused(self, error: BookKeeperError) -> None:
        if not self.closing:
            self.write.end(str(error))


class SimulatedRecoverer(SimulatedClient):
    """Recovers until that works."""

    def __init__(
        self, name: str, clock: Clock, bookies: Mapping[str, SimulatedBookie], node: StoredMetadata
    ) -> None:
        super().__init__(name, clock, bookies, node)
        self.recovery: ledger_recovery.LedgerRecovery | None = None
        self.before: LedgerSegment | None = None
        self.known: metadata_changes.VersionedMetadata | None = None
        self.closed: LedgerMetadata | None = None
        self.tries = 0

    def start(self) -> None:
        self.tries += 1
        self.recovery = None
        self.clock.log(f"{self.name} begins")
        self.node.begin(
            self, metadata_changes.change_metadata(metadata_changes.RecoveryStart(), None)
        )

    def changed(self, known: metadata_changes.VersionedMetadata) -> None:
        self.known = known
        if known.metadata.closed:
            self.closed = known.metadata
            self.recovery = None
            return
        self.recovery = ledger_recovery.LedgerRecovery(known.metadata, self)
        self.recovery.start()

    def refused(self, error: BookKeeperError) -> None:
        self.clock.log(f"{self.name}: {error}")
        self._again()

    def replace(self, ensemble: Sequence[str], failed: Collection[str]) -> None:
        recovery = self.recovery
        after = with_others(ensemble, failed, self.spare(ensemble))

        def go_on() -> None:
            if recovery is not None and recovery is self.recovery:
                recovery.replaced(after)

        self.clock.after(self.clock.delay(), lambda: self.when_awake(go_on))

    def recovered(self, end: ledger_recovery.RecoveredEnd) -> None:
        self.clock.log(f"{self.name} finds the end: {end}")
        last = self.known.metadata.segments[-1]
        change = metadata_changes.RecoveryClose(last, end.last_entry, end.length, end.segments)
        if (found := change.decide(self.known.metadata)) is not None:
            for entry in range(end.last_entry + 1):
                require_copies(self.bookies, found, entry, found.ack_quorum)
        self.node.begin(self, metadata_changes.change_metadata(change, self.known))

    def failed(self, error: ledger_recovery.RecoveryFailed) -> None:
        self.clock.log(f"{self.name}: {error}")
        self._again()

    def answered(self, bookie: str, answer: BookieAnswer) -> None:
        if self.recovery is not None:
            self.recovery.answered(bookie, answer)

    def unanswered(self, bookie: str, request: BookieRequest) -> None:
        if self.recovery is not None:
            self.recovery.unanswered(bookie, request, "the connection broke")

    def _again(self) -> None:
        self.recovery = None
        self.clock.after(0.5 + self.clock.delay(), lambda: self.when_awake(self.start))


def require_copies(
    bookies: Mapping[str, SimulatedBookie], found: LedgerMetadata, entry: int, copies: int
) -> None:
    """Raise `Violation` unless so many bookies of the write set have the entry as it was added."""
    having = [
        name
        for name in found.write_set(entry)
        if bookies[name].disk.stored.get((found.ledger, entry), b"").endswith(payload_of(entry))
    ]
    if len(having) < copies:
        raise Violation(
            f"entry {entry} is on {having} of {found.write_set(entry)}, not on {copies}"
        )
