"""One history: a ledger with a writer that may be a zombie, two recoverers, and faults.

Whatever happens: acknowledgements come in order, each when an ack quorum of the bookies that the
metadata names has the entry; a closed ledger is never changed, and an ack quorum has each of its
entries; no recovery ends it before an acknowledged one; all agree on its end. (The invariants of
Vanlightly's model in TLA+, ``bookkeeper-tlaplus``.)
"""

from random import Random

from counterpoise.bookkeeper import ledger_metadata
from counterpoise.bookkeeper.stored_entry import EntryDigest
from tests.bookkeeper.sim.clients import (
    SimulatedRecoverer,
    SimulatedWriter,
    payload_of,
    require_copies,
)
from tests.bookkeeper.sim.world import Clock, SimulatedBookie, StoredMetadata, Violation

LEDGER = 7
SIZES = (
    (2, 2, 2), (3, 2, 2), (3, 3, 2), (3, 3, 2), (2, 2, 1), (3, 3, 1), (4, 3, 2), (5, 3, 2),
    (3, 3, 3),
)  # fmt: skip
FAULTS_END_S = 6.0
LEFT_ALONE_UNTIL_S = 60.0
ALL_ENDS_S = 300.0


class LedgerHistory:
    """Everything of it follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.clock = clock = Clock(rng)
        ensemble, write_quorum, ack_quorum = rng.choice(SIZES)
        names = [f"b{number}" for number in range(ensemble + rng.randint(0, 3))]
        self.bookies = {name: SimulatedBookie(name) for name in names}
        segment = ledger_metadata.LedgerSegment(0, tuple(names[:ensemble]))
        created = ledger_metadata.LedgerMetadata(
            LEDGER, ledger_metadata.LedgerState.OPEN, write_quorum, ack_quorum, 0, -1, (segment,),
            ledger_metadata.DigestType.CRC32C, b"", 1, {},
        )  # fmt: skip
        self.node = StoredMetadata(clock, created)
        self.writer = SimulatedWriter(clock, self.bookies, self.node)
        self.recoverers = [
            SimulatedRecoverer(name, clock, self.bookies, self.node) for name in ("one", "two")
        ]
        clock.log(f"ensemble {ensemble}, write quorum {write_quorum}, ack quorum {ack_quorum}")
        self._plan()

    def run(self) -> None:
        """Raises `Violation`."""
        self.clock.run(FAULTS_END_S)
        for bookie in self.bookies.values():
            bookie.up, bookie.read_only = True, False
        self.clock.run(LEFT_ALONE_UNTIL_S - 1)
        self._judge_writer()
        self.clock.run(ALL_ENDS_S)
        self._judge()

    def _plan(self) -> None:
        rng, clock = self.rng, self.clock
        for _ in range(rng.randint(1, 7)):
            clock.at(rng.uniform(0, 3), lambda: self.writer.when_awake(self.writer.add))
        if rng.random() < 0.2:
            clock.at(rng.uniform(0, 4), lambda: self.writer.when_awake(self.writer.close))
        is_left_alone = rng.random() < 0.1
        for each in self.recoverers:
            begin = rng.uniform(0, 5) + (LEFT_ALONE_UNTIL_S if is_left_alone else 0)
            clock.at(begin, lambda each=each: each.when_awake(each.start))
            if rng.random() < 0.5:
                # Entries and a lost connection just when bookies are fenced: most orders are there.
                clock.at(
                    begin - rng.uniform(0, 0.3), lambda: self.writer.when_awake(self.writer.add)
                )
                link = rng.choice(list(each.links.values()))
                clock.at(begin + rng.uniform(0, 0.6), link.break_off)
        clients = [self.writer, *self.recoverers]
        links = [link for client in clients for link in client.links.values()]
        for _ in range(rng.randint(0, 8)):
            clock.at(rng.uniform(0, FAULTS_END_S), rng.choice(links).break_off)
        for _ in range(rng.choice((0, 0, 1, 2))):
            client = rng.choice(clients)
            until = rng.uniform(1, 2 * FAULTS_END_S)
            clock.at(
                rng.uniform(0, 4), lambda client=client, until=until: self._stop(client, until)
            )
        for _ in range(rng.choice((0, 0, 1, 2))):
            bookie = rng.choice(list(self.bookies.values()))
            clock.at(rng.uniform(0, 5), lambda bookie=bookie: self._crash(bookie))
        for _ in range(rng.choice((0, 0, 1, 3))):
            bookie, begin = rng.choice(list(self.bookies.values())), rng.uniform(0, 4)
            clock.at(begin, lambda bookie=bookie: self._set_read_only(bookie, True))
            back = begin + clock.delay()
            clock.at(back, lambda bookie=bookie: self._set_read_only(bookie, False))

    def _stop(self, client: SimulatedWriter | SimulatedRecoverer, until: float) -> None:
        self.clock.log(f"{client.name} stands still until {until:.3f}")
        client.awake_at = until

    def _crash(self, bookie: SimulatedBookie) -> None:
        self.clock.log(f"{bookie.name} crashes")
        bookie.up = False
        for client in (self.writer, *self.recoverers):
            client.links[bookie.name].break_off()
        self.clock.after(self.rng.uniform(0, 3), lambda: self._restart(bookie))

    def _set_read_only(self, bookie: SimulatedBookie, value: bool) -> None:
        self.clock.log(f"{bookie.name} is read-only: {value}")
        bookie.read_only = value

    def _restart(self, bookie: SimulatedBookie) -> None:
        self.clock.log(f"{bookie.name} is back")
        bookie.up = True

    def _judge_writer(self) -> None:
        writer = self.writer
        if not (writer.ends or writer.closing) and writer.acknowledged != writer.added - 1:
            found = self.node.metadata.state
            if found is ledger_metadata.LedgerState.OPEN:
                raise Violation(f"{writer.acknowledged} of {writer.added} entries: it is stuck")

    def _judge(self) -> None:
        found = self.node.metadata
        if not found.closed:
            raise Violation("the ledger was never closed, although every bookie is there")
        last = found.last_entry
        if last < self.writer.acknowledged:
            raise Violation(
                f"{self.writer.acknowledged} is acknowledged; the ledger ends at {last}"
            )
        for entry in range(last + 1):
            require_copies(self.bookies, found, entry, found.ack_quorum)
            self._judge_stored(found, entry)
        length = sum(len(payload_of(entry)) for entry in range(last + 1))
        if found.length != length:
            raise Violation(f"length {found.length}, not {length}")
        for each in self.recoverers:
            if each.closed is None or each.closed != found:
                raise Violation(f"{each.name} found {each.closed}, and it is {found}")

    def _judge_stored(self, found: ledger_metadata.LedgerMetadata, entry: int) -> None:
        digest = EntryDigest(found.digest)
        for name in found.write_set(entry):
            stored = self.bookies[name].disk.stored.get((LEDGER, entry))
            if stored is not None and digest.open(LEDGER, entry, stored).payload != payload_of(
                entry
            ):
                raise Violation(f"{name} has another entry {entry}")
