"""What must hold in every history, at every moment or in the end."""

import logging
from dataclasses import dataclass, field

from counterpoise.names.bundle import BundleName
from counterpoise.ownership.channel.data import ServiceUnitStateData
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.ownership.channel.transitions import Storage, refusal
from counterpoise.ownership.election import LEADER_NODE
from tests.sim.broker import SimulatedBroker
from tests.sim.store import Network, Server
from tests.sim.topic import Topic


class InvariantViolation(Exception):
    """An invariant does not hold; ``judge`` names the judge that found it."""

    def __init__(self, judge: str, what: str) -> None:
        super().__init__(f"{judge}: {what}")
        self.judge = judge


NOTICE_S = 1.5
"""How long a broker within reach of the store may not know yet what it lost."""
LOOKUP_S = 25.0
"""How long a lookup may take at most."""
USABLE_S = 15.0
"""How long after the last fault a bundle may still be out of use."""


@dataclass
class Claims:
    """Who believes to hold what, and since when that is not so any more.

    No protocol with leases can keep a frozen or cut-off broker from believing for a while that it
    owns what another has by now; the ledgers' fence is what makes that harmless. What it can, and
    must, is to notice: at once when it is notified, and by its own clock when it is cut off.
    """

    network: Network
    wrong_since: dict[tuple[str, str], float] = field(default_factory=dict)
    excused_until: dict[str, float] = field(default_factory=dict)

    def watch(self, now: float, server: Server, brokers: list[SimulatedBroker]) -> None:
        """Look at everything that each broker believes."""
        for broker in brokers:
            if broker.machine.dead:
                continue
            name = broker.id
            if broker.machine.frozen:
                self.excused_until[name] = now + NOTICE_S
            elif broker.hears_late:
                self.excused_until[name] = max(self.excused_until.get(name, 0.0), now + NOTICE_S)
            elif not broker.session.connected:
                # Until its lease has passed by its own clock, which may be slow.
                lease_s = self.network.session_s * broker.machine.rate
                until = broker.session.away_since + lease_s + NOTICE_S
                self.excused_until[name] = max(self.excused_until.get(name, 0.0), until)
            claims = [
                (str(bundle), "serves", broker.claims(bundle)) for bundle in self._served(broker)
            ]
            if broker.election.is_leader:
                node = server.nodes.get(LEADER_NODE)
                right = node is not None and node.owner == broker.session.number
                claims.append((LEADER_NODE, "leads by", right))
            if not self.wrong_since and all(right for _, _, right in claims):
                continue
            wrong = set()
            for path, how, right in claims:
                if right:
                    continue
                wrong.add((name, path))
                since = self.wrong_since.setdefault((name, path), now)
                late = max(since + NOTICE_S, self.excused_until.get(name, 0.0))
                if now > late:
                    raise InvariantViolation(
                        "one owner",
                        f"{name} {how} {path} although that is not its own since {since:.3f}",
                    )
            for key in [key for key in self.wrong_since if key[0] == name and key not in wrong]:
                del self.wrong_since[key]

    @staticmethod
    def _served(broker: SimulatedBroker) -> list[BundleName]:
        ownership = broker.ownership
        held = ownership.owned()
        return [each for each in held if ownership.serves(each) or ownership.taking_over(each)]


class Records:
    """Every change of a bundle's record on the state channel, held against Pulsar's rules."""

    def __init__(self, storage: Storage = Storage.METADATA_STORE) -> None:
        self._storage = storage
        self.wrong: list[str] = []

    def see(self, path: str, before: bytes | None, after: bytes | None) -> None:
        """A node changed at the store."""
        if not path.startswith(f"{RECORDS}/"):
            return
        had = None if before is None else ServiceUnitStateData.from_json(before)
        if after is None:
            if had is not None and had.state.active:
                self.wrong.append(f"{path} was deleted when {had.state.value}")
            return
        why = refusal(had, ServiceUnitStateData.from_json(after), self._storage)
        if why is not None:
            self.wrong.append(f"{path}: {why}")

    def judge(self) -> None:
        """Raise the first violation."""
        if self.wrong:
            raise InvariantViolation("no transition outside the table", self.wrong[0])


class Complaints(logging.Handler):
    """What the code under test itself says must not happen: a record outside the table, a bug."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if record.exc_info and isinstance(record.exc_info[1], OSError):
            return  # A fault of the history's own, which the log names in full.
        self.heard.append(said)

    def judge(self) -> None:
        """Raise the first violation."""
        if self.heard:
            raise InvariantViolation("no transition outside the table", self.heard[0])


def judge_rest(brokers: list[SimulatedBroker]) -> None:
    """No machine rests in a passing state."""
    for broker in brokers:
        runner = broker.ownership._runner  # private: no broker shows what it is in the middle of
        for bundle in runner.known():
            state = runner.state(bundle)
            if state.in_progress:
                raise InvariantViolation("nothing stuck", f"{broker.id} rests in {state}")
        if (state := broker.election._runner.state(LEADER_NODE)).in_progress:
            raise InvariantViolation("nothing stuck", f"{broker.id} rests in {state}")


def judge_owners(brokers: list[SimulatedBroker], bundles: list[BundleName]) -> None:
    """In the end each bundle is served by one broker."""
    for bundle in bundles:
        owners = [each.id for each in brokers if each.ownership.serves(bundle)]
        if len(owners) != 1:
            raise InvariantViolation("owned again", f"{bundle} is served by {owners}")


def judge_readers(brokers: list[SimulatedBroker], topic: Topic) -> None:
    """In the end all readers of the records' topic believe the same."""
    for broker in brokers:
        assert broker.records is not None
        if broker.records.believed != topic.view.values:
            raise InvariantViolation("all believe alike", f"{broker.id}: {broker.records.believed}")


def judge_leader(brokers: list[SimulatedBroker]) -> None:
    """In the end one broker leads, and all know which."""
    leaders = [each.id for each in brokers if each.election.is_leader]
    known = [each.election.leader.broker_id if each.election.leader else None for each in brokers]
    if len(leaders) != 1 or set(known) != set(leaders):
        raise InvariantViolation("one leader", f"{leaders} lead, {known} are believed to")
