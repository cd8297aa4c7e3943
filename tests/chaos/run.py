"""One run: a cluster, its clients, faults one after the other, and what was seen."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pulsar

from counterpoise.app.clusters.local_cluster import BrokerProcess
from counterpoise.app.errors import UserError
from tests.chaos.clients import Load, probe, read_all
from tests.chaos.cluster import BOOKIE_SILENT_S, NAMESPACE, ChaosCluster, service_url
from tests.chaos.faults import OF_BOOKIES, Fault, Kind
from tests.chaos.history import History, Seen, TopicHistory
from tests.chaos.judges import ATTACHED_WITHIN_S, bundles_rest, every_broker_is_back

SETTLED_WITHIN_S = 120.0
"""The client's own pauses between two tries to connect grow to a minute."""

LINES_OF_EACH_LOG = 10
"""What is said of a run that cannot go on."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Terms:
    """How a run goes."""

    manager: str
    seconds: float
    """Faults come for so long."""
    every_s: float = 20.0
    session_s: float = 5.0
    topics_each_bundle: int = 2
    bookies: int = 0
    """On how many bookies messages are; 0: in files."""


class Run:
    """Brings faults about and writes down what follows."""

    def __init__(self, terms: Terms, faults: Iterable[Fault], folder: Path, say: Say) -> None:
        self.history = History()
        self._terms = terms
        self._faults = faults
        self._say = say
        self._cluster = ChaosCluster(
            folder, terms.manager, session_s=terms.session_s, bookies=terms.bookies
        )
        self._names = count()
        self._pause = threading.Event()

    def run(self) -> History:
        """See it through, and return what was seen."""
        terms, history = self._terms, self.history
        with self._cluster as cluster:
            topics = cluster.topics(terms.topics_each_bundle)
            history.topics = {topic: TopicHistory() for topic in topics}
            load = Load(cluster.service_url, history.topics)
            end = time.monotonic() + terms.seconds
            for fault in self._faults:
                if time.monotonic() >= end:
                    break
                began = time.monotonic()
                try:
                    self._bring_about(fault)
                except (UserError, OSError) as error:
                    # What follows would be about a cluster that is not whole.
                    self._give_up(fault.kind.value, error)
                    break
                self._pause.wait(max(0.0, began + terms.every_s - time.monotonic()))
            load.stop(SETTLED_WITHIN_S)
            for topic, missing in load.unfinished().items():
                self._say(f"  {topic}: {missing}")
            try:
                self._look_around(topics)
            except (UserError, OSError, pulsar.PulsarException) as error:
                self._give_up("what is left in the end", error)
            load.close()
        history.logs = cluster.logs()
        history.leftovers = cluster.leftovers()
        return history

    def _give_up(self, kind: str, error: Exception) -> None:
        """Write down what failed, and what the brokers logged last."""
        self.history.faults.append(Seen(kind, "no further faults", {}, str(error)))
        self._say(f"{kind}: no further faults: {error}")
        for name, text in sorted(self._cluster.logs().items()):
            self._say("\n  ".join([name, *text.splitlines()[-LINES_OF_EACH_LOG:]]))

    def _look_around(self, topics: list[str]) -> None:
        cluster, history = self._cluster, self.history
        for topic, stored in read_all(cluster.service_url, topics).items():
            history.topics[topic].stored = stored
        history.brokers = [each.id for each in cluster.brokers if each.alive]
        end = time.monotonic() + SETTLED_WITHIN_S
        while True:
            history.active, history.bundles = cluster.active(), cluster.bundles(topics)
            settled = not any((*every_broker_is_back(history), *bundles_rest(history)))
            if settled or time.monotonic() > end:
                break
            self._pause.wait(0.2)

    # Faults.

    def _bring_about(self, fault: Fault) -> None:
        kind = fault.kind
        if kind in (Kind.KILL, Kind.KILL_LEADER):
            self._kill(fault, self._broker(fault, leader=kind is Kind.KILL_LEADER))
        elif kind in (Kind.FREEZE, Kind.FREEZE_LEADER):
            self._freeze(fault, self._broker(fault, leader=kind is Kind.FREEZE_LEADER))
        elif kind is Kind.FREEZE_LONG:
            self._freeze_long(fault, self._broker(fault))
        elif kind is Kind.ZOOKEEPER:
            self._zookeeper(fault)
        elif kind is Kind.DRAIN:
            self._drain(fault)
        elif kind in (Kind.KILL_SUCCESSOR, Kind.KILL_SOURCE):
            self._kill_in_transfer(fault)
        elif kind in OF_BOOKIES:
            self._strike_bookie(fault)
        else:
            self._order(fault)

    def _broker(self, fault: Fault, *, leader: bool = False) -> BrokerProcess:
        """The leader, or a broker that has something to lose."""
        brokers, topics = self._cluster.brokers, list(self.history.topics)
        if leader:
            return self._cluster.leader()
        owner = None
        with contextlib.suppress(OSError):
            owner = self._cluster.owner_of(topics[fault.topic % len(topics)])
        return owner or brokers[fault.broker % len(brokers)]

    def _kill(self, fault: Fault, victim: BrokerProcess) -> None:
        self._cluster.kill(victim)
        probing = self._probe(without=victim)
        self._pause.wait(fault.lasts_s)
        self._cluster.restart(victim)
        self._seen(fault, f"{victim.name}, back after {fault.lasts_s:.1f} s", probing())

    def _freeze(self, fault: Fault, victim: BrokerProcess) -> None:
        self._frozen(fault, victim, self._terms.session_s + fault.lasts_s)

    def _freeze_long(self, fault: Fault, victim: BrokerProcess) -> None:
        """So long that a client which is attached to the broker has to find its own way."""
        began = time.monotonic()
        waking = self._frozen(fault, victim, ATTACHED_WITHIN_S + fault.lasts_s)
        topics = self.history.topics.items()
        silent = {name: topic.silent_s(began, waking) for name, topic in topics}
        detail = f"{victim.name}: attached clients publish within {max(silent.values()):.1f} s"
        self._seen(fault, detail, {}, silent_s=silent, kind=f"{fault.kind.value}: attached")

    def _frozen(self, fault: Fault, victim: BrokerProcess, lasts_s: float) -> float:
        """Stop a broker, see what others make of it, and let it go on; returns when it did."""
        self._cluster.freeze(victim)
        try:
            probing = self._probe(without=victim)
            self._pause.wait(lasts_s)
        finally:
            waking = time.monotonic()
            self._cluster.thaw(victim)
        awake = self._probe()
        self._seen(fault, f"{victim.name} for {lasts_s:.1f} s", probing())
        self._seen(fault, f"{victim.name} wakes", awake(), kind=f"{fault.kind.value}: waking")
        return waking

    def _zookeeper(self, fault: Fault) -> None:
        lasts_s = 2 * fault.lasts_s
        self._cluster.zookeeper_away()
        self._pause.wait(lasts_s)
        self._cluster.zookeeper_back()
        self._seen(fault, f"for {lasts_s:.1f} s", self._probe()())

    def _strike_bookie(self, fault: Fault) -> None:
        """Kill a bookie or stop it for a while; the others are enough to go on."""
        number = fault.broker % self._terms.bookies
        is_killed = fault.kind is Kind.KILL_BOOKIE
        lasts_s = fault.lasts_s + (0.0 if is_killed else BOOKIE_SILENT_S)
        self._cluster.strike_bookie(number, kill=is_killed)
        try:
            probing = self._probe()
            self._pause.wait(lasts_s)
        finally:
            self._cluster.bookie_back(number, killed=is_killed)
        self._seen(fault, f"bookie-{number + 1} for {lasts_s:.1f} s", probing())

    def _drain(self, fault: Fault) -> None:
        victim = self._broker(fault)
        victim.child.terminate()
        probing = self._probe(without=victim)
        victim.child.wait(60)
        self._cluster.restart(victim)
        self._seen(fault, victim.name, probing())

    def _order(self, fault: Fault) -> None:
        """Unload, transfer or split, as an administrator orders it."""
        try:
            path, detail = self._ordered(fault)
        except OSError as error:
            self._seen(fault, "", self._probe()(), failed=str(error))
            return
        probing, failed = self._probe(), ""
        try:
            self._cluster.admin("PUT", path)
        except OSError as error:
            failed = str(error)
        self._seen(fault, detail, probing(), failed=failed)

    def _ordered(self, fault: Fault) -> tuple[str, str]:
        topic = list(self.history.topics)[fault.topic % len(self.history.topics)]
        bundle = self._cluster.bundle_of(topic)
        path = f"namespaces/{NAMESPACE}/{bundle}/"
        if fault.kind is Kind.SPLIT:
            unload = str(fault.broker % 2 == 0).lower()
            return f"{path}split?unload={unload}", f"{bundle}, unload={unload}"
        if fault.kind is Kind.UNLOAD:
            return f"{path}unload", bundle
        owner = self._cluster.owner_of(topic)
        others = [each for each in self._cluster.brokers if each is not owner]
        successor = others[fault.broker % len(others)]
        return f"{path}unload?destinationBroker={successor.id}", f"{bundle} to {successor.name}"

    def _kill_in_transfer(self, fault: Fault) -> None:
        topic = list(self.history.topics)[fault.topic % len(self.history.topics)]
        cluster, failed = self._cluster, ""
        try:
            owner, bundle = cluster.owner_of(topic), cluster.bundle_of(topic)
        except OSError as error:
            self._seen(fault, topic, self._probe()(), failed=str(error))
            return
        source = owner or cluster.brokers[0]
        others = [each for each in cluster.brokers if each is not source]
        successor = others[fault.broker % len(others)]
        victim, asked = (
            (successor, source) if fault.kind is Kind.KILL_SUCCESSOR else (source, others[0])
        )
        path = f"namespaces/{NAMESPACE}/{bundle}/unload?destinationBroker={successor.id}"
        order = threading.Thread(target=_forget_errors(cluster.admin, "PUT", path, asked))
        order.start()
        self._pause.wait(fault.lasts_s / 400)
        cluster.kill(victim)
        probing = self._probe(without=victim)
        self._pause.wait(fault.lasts_s)
        cluster.restart(victim)
        order.join()
        detail = (
            f"{bundle} from {source.name} to {successor.name}, back after {fault.lasts_s:.1f} s"
        )
        self._seen(fault, detail, probing(), failed=failed)

    # What follows.

    def _probe(self, without: BrokerProcess | None = None) -> Callable[[], dict[str, float | None]]:
        brokers = [each for each in self._cluster.brokers if each is not without]
        return probe(service_url(brokers), self.history.topics, str(next(self._names)))

    def _seen(
        self,
        fault: Fault,
        detail: str,
        writable_s: dict[str, float | None],
        *,
        kind: str = "",
        failed: str = "",
        silent_s: Mapping[str, float] | None = None,
    ) -> None:
        seen = Seen(kind or fault.kind.value, detail, writable_s, failed, silent_s or {})
        self.history.faults.append(seen)
        known = [each for each in writable_s.values() if each is not None]
        worst = "never" if len(known) < len(writable_s) else f"within {max(known, default=0):.2f} s"
        writable = f": writable {worst} " if writable_s else " "
        at = time.strftime("%H:%M:%S")
        self._say(f"{at} {seen.kind}: {detail}{writable}{failed}".rstrip())


def _forget_errors(
    admin: Callable[..., object], method: str, path: str, at: BrokerProcess
) -> Callable[[], None]:
    """An order whose carrier may die on the way."""

    def ask() -> None:
        try:
            admin(method, path, at=at)
        except (OSError, ValueError):
            return

    return ask
