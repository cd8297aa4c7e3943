"""A broker in a history: its own ownership, election and lookups; logs that are only numbers."""

import asyncio
import dataclasses
import enum
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from counterpoise.broker.base import paths
from counterpoise.broker.base.background import BackgroundTasks, BackOff
from counterpoise.broker.bundles.bundle_assigner import BundleAssigner
from counterpoise.broker.bundles.election import LeaderElection
from counterpoise.broker.bundles.lookup import LookupService
from counterpoise.broker.bundles.lookup_result import LookupResult
from counterpoise.broker.bundles.ownership import BundleOwnership
from counterpoise.broker.bundles.repairs import OwnershipRepairs
from counterpoise.broker.bundles.topic_records import TopicRecords
from counterpoise.broker.peers import SystemTopicListener
from counterpoise.load.report import LocalBrokerData
from counterpoise.metadata import SessionEvent, StoreUnavailable
from counterpoise.names.bundle import BundleName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.ownership.lock.nodes import hand_over_of, read_hand_over
from counterpoise.ownership.port import BundleProtocol, OwnershipOptions
from counterpoise.ownership.records import LeaderBroker, NamespaceEphemeralData
from tests.sim.loop import Machine, pass_virtual_time
from tests.sim.storage import Log, Storage
from tests.sim.store import Node, Server, Session
from tests.sim.topic import WITHIN_S, Link, Topic

Protocol = Callable[[OwnershipOptions, Callable[[], int]], BundleProtocol[Any]]


class Registry:
    """Which brokers live, asked of the store each time."""

    def __init__(self, session: Session, my_id: str) -> None:
        self.my_id = my_id
        self._session = session

    async def register(self) -> None:
        path = paths.broker(self.my_id)
        stored = await self._session.get(path)
        if stored is not None and not stored.mine:
            await self._session.delete(path, expected_version=stored.version)
        if stored is None or not stored.mine:
            await self._session.put(path, b"", expected_version=-1, ephemeral=True)

    def concerns(self, path: str) -> bool:
        return path.startswith(paths.BROKERS)

    async def active(self) -> list[str]:
        return await self._session.children(paths.BROKERS)

    async def report(self, broker_id: str) -> LocalBrokerData | None:
        if broker_id not in await self.active():
            return None
        return LocalBrokerData(pulsar_service_url=broker_id, web_service_url=broker_id)


class Placer:
    """Any broker that lives, as chance has it."""

    def __init__(self, registry: Registry, choose: Callable[[list[str]], str]) -> None:
        self._registry, self._choose = registry, choose

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        active = [each for each in await self._registry.active() if each not in without]
        return self._choose(active) if active else None


class NothingLoaded:
    """The topics of a broker in a history, where logs are only numbers."""

    loaded: Mapping[TopicName, Any] = MappingProxyType({})

    async def unload_topic(self, name: TopicName) -> None:
        raise AssertionError(name)


class SimulatedBroker:
    """One life of a broker."""

    def __init__(
        self,
        name: str,
        rate: float,
        server: Server,
        storage: Storage,
        protocol: Protocol,
        topic: Topic | None = None,
    ) -> None:
        """``topic``: where the records of bundles are, if not in the store."""
        self.id = f"{name}:8080"
        self.machine = Machine(name, rate)
        self.server, self.loop, self._story = server, server.loop, server.story
        self._storage = storage
        self.session = Session(server, self.machine)
        self._topic = topic
        self.link: Link | None = None
        """Its way to the records' topic."""
        self.records: TopicRecords | None = None
        self.open: dict[BundleName, Log] = {}
        """What this broker knows of the logs that it has open."""
        self.all: list[SimulatedBroker] = []
        """Every broker of the history."""
        self._nodes: dict[BundleName, tuple[str, ...]] = {}
        self._owners: dict[tuple[bytes | None, ...], str] = {}
        """By the values of a bundle's nodes, which are looked at more often than they change."""
        self.prepared: dict[BundleName, Log] = {}
        """What it read of logs that it was about to have."""
        self.drain_faults: Callable[[], tuple[float, bool]] = lambda: (0.0, False)
        self.prepare_faults: Callable[[], tuple[float, bool]] = lambda: (0.0, False)
        self.machine.context.run(self._assemble, protocol)

    def _assemble(self, protocol: Protocol) -> None:
        # Operations of the store fail sooner here than a client loses its patience.
        me = NamespaceEphemeralData(f"pulsar://{self.id}", f"http://{self.id}")
        options = OwnershipOptions(
            me,
            successor_s=2.0,
            takeover_s=2.0,
            prepare_s=0.5,
            close_topics_s=5.0,
            in_flight_ms=4000,
            tombstone_ms=8000,
        )
        skew_ms = self.server.rng.randint(0, 500)
        self._logged = logged = _LoggedProtocol(
            protocol(options, lambda: self._now_ms() + skew_ms), self
        )
        self._background = BackgroundTasks(BackOff(first_s=0.1, most_s=1.0))
        if self._topic is not None:
            self.records = TopicRecords(
                self.session,  # type: ignore[arg-type] - as much of a store as is asked of it
                self.id,
                self._background,
                self._link_to(self._topic),
                WITHIN_S,
            )
        store: Any = self.session if self.records is None else self.records
        self.registry = Registry(self.session, self.id)
        self.ownership = BundleOwnership(store, logged, options, self._drain, prepare=self._prepare)
        self.assigner = BundleAssigner(self.ownership)
        self.election = LeaderElection(self.session, LeaderBroker(self.id, ""))
        self.election.report_to(self)
        placer = Placer(self.registry, self.server.rng.choice)
        self.lookups = LookupService(
            self.registry,  # type: ignore[arg-type] - as much of one as lookups ask
            self.election,
            self.ownership,
            placer,
        )
        self.repairs = OwnershipRepairs(
            store,
            logged,
            self.registry,  # type: ignore[arg-type]
            placer,
            leads=lambda: self.election.is_leader,
            every_s=2.0,
            at_once=lambda: 64,
            wary_s=2.0,
            background=self._background,
            namespaces=self,
            clock_ms=lambda: self._now_ms() + skew_ms,
        )
        self.repairs.start()
        self.session.subscribe_session(self._on_session)

    def _link_to(self, topic: Topic) -> Callable[[SystemTopicListener], Link]:
        def make(listener: SystemTopicListener) -> Link:
            self.link = Link(topic, self, listener)
            return self.link

        return make

    def leadership_changed(self, leads: bool) -> None:
        self.log("leads: %s", leads)
        if not leads and self._topic is not None:
            self._topic.left_by(self)

    def leader_changed(self, leader: LeaderBroker | None) -> None:
        if leader is not None and self.records is not None:
            self.records.led_by(leader.broker_id)

    def _node(self, path: str) -> Node | None:
        """What is written at a path, wherever that is kept."""
        if self._topic is not None and path.startswith(f"{RECORDS}/"):
            return self._topic.node(path)
        return self.server.nodes.get(path)

    @property
    def hears_late(self) -> bool:
        """Whether it cannot know yet what is written of bundles."""
        if self.records is None or self.link is None:
            return False
        hangs = self.link.hangs_until > self.loop.time()
        return hangs or not self.link.linked or not self.records.caught_up

    def _now_ms(self) -> int:
        return int(self.loop.time() * 1000)

    def claims(self, bundle: BundleName) -> bool:
        """Whether it is right for this broker to serve a bundle, by the store's word now."""
        paths = self._nodes.get(bundle)
        if paths is None:
            paths = self._nodes[bundle] = self._logged.nodes(str(bundle))
        nodes = [self._node(path) for path in paths]
        values = tuple([None if node is None else node.value for node in nodes])
        read = self._owners.get(values)
        if read is None:
            owner = self._logged.locate(dict(zip(paths, values, strict=True))).owner
            read = self._owners[values] = "" if owner is None else owner.broker_id
        # Where ownership is an ephemeral node, it has to be this very life's.
        last = nodes[-1]
        return read == self.id and last is not None and last.owner in (0, self.session.number)

    def is_to_close(self, bundle: BundleName) -> bool:
        """Whether the store says that this broker hands the bundle on, and may have it open."""
        announced = self.server.nodes.get(hand_over_of(str(bundle)))
        hand_over = read_hand_over(announced.value) if announced is not None else None
        if hand_over is not None and hand_over.source == self.id:
            return True
        node = self._node(f"{RECORDS}/{bundle}")
        record = None if node is None else ServiceUnitStateData.from_json(node.value)
        handed_on = (ServiceUnitState.RELEASING, ServiceUnitState.ASSIGNING, ServiceUnitState.OWNED)
        return record is not None and record.state in handed_on and record.source == self.id

    def log(self, line: str, *details: Any) -> None:
        """Add to the story."""
        self._story.log(self.loop.time(), "%s " + line, self.machine.name, *details)

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do something on this broker."""
        return self.loop.create_task(work, context=self.machine.context)

    def start(self) -> None:
        """Join the cluster."""
        self.run(self._register())
        if self.records is not None:
            self.machine.context.run(self.records.start, self.id, NothingLoaded())
        self.run(self.election.start())

    @property
    def up(self) -> bool:
        """Whether clients reach it."""
        return not (self.machine.dead or self.machine.frozen)

    def die(self) -> None:
        """End as by SIGKILL."""
        self.machine.dead = True
        self.session.silent()
        if self._topic is not None:
            self._topic.left_by(self)

    async def namespaces(self, tenant: str) -> list[NamespaceName]:
        """The namespaces of a tenant: the one of every history."""
        return [NamespaceName(tenant, "n")]

    # What a client asks.

    async def lookup(self, bundle: BundleName, authoritative: bool) -> LookupResult:
        return await self.lookups.lookup_bundle(bundle, authoritative=authoritative)

    async def attach(self, bundle: BundleName) -> bool:
        """A client connects: its topic is opened if it is not yet."""
        ours = self.ownership.serves(bundle) or self.ownership.taking_over(bundle)
        if bundle in self.open and ours:
            return True
        if not await self.ownership.wait_until_served(bundle, partial(self._is_released, bundle)):
            return False
        if not self.ownership.serves(bundle):
            self._judge_early(bundle)
        log = self._open(bundle, self.prepared.pop(bundle, None))
        self._storage.judge_open(bundle, log)
        self.log("opens the log of %s: %s", bundle, log)
        self.open[bundle] = log
        return True

    async def _is_released(self, bundle: BundleName) -> bool:
        return self._storage.is_released(bundle)

    def _judge_early(self, bundle: BundleName) -> None:
        """Before a bundle is served, only what its former owner has closed may be opened."""
        for other in self.all:
            has = other.claims(bundle) or other.is_to_close(bundle)
            log = other.open.get(bundle)
            # Who was fenced without noticing has nothing to close.
            its = log is not None and self._storage.holds(bundle, log)
            if other is not self and other.up and its and has:
                why = f"{self.id} opens the log of {bundle}, which {other.id} has open"
                self._storage.wrong.append(("nothing is opened under its owner", why))

    def _open(self, bundle: BundleName, prepared: Log | None) -> Log:
        """What was prepared saves time, of which a history has none to save: it says nothing."""
        del prepared
        return self._storage.open(bundle)

    def use(self, bundle: BundleName) -> bool:
        """Whether a message is stored, delivered and acknowledged."""
        log = self.open.get(bundle)
        if log is None or log.closing:
            return False
        if not self._storage.holds(bundle, log):
            self.log("is fenced: %s", bundle)
            del self.open[bundle]
            return False
        self._storage.append(bundle, log)
        return True

    async def give_to_parts(self, bundle: BundleName) -> None:
        """Split a bundle: its topics are its parts' from then on, of which histories have none."""
        await self.ownership.replaced(bundle)
        if not self.ownership.serves(bundle):
            self.open.pop(bundle, None)

    async def _drain(self, bundle: BundleName, destination: str | None) -> None:
        pause_s, fails = self.drain_faults()
        log = self.open.get(bundle)
        if log is not None:
            log.closing = True
        try:
            await pass_virtual_time(pause_s)
        finally:
            self.open.pop(bundle, None)
        if fails:
            raise OSError("the disk failed")
        if log is not None:
            self._storage.close(bundle, log)

    async def _prepare(self, bundle: BundleName) -> None:
        pause_s, fails = self.prepare_faults()
        await pass_virtual_time(pause_s)
        if fails:
            raise OSError("the disk failed")
        self.prepared[bundle] = self._storage.look(bundle)
        self.log("is prepared for %s: %s", bundle, self.prepared[bundle])

    def _on_session(self, event: SessionEvent) -> None:
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            self.run(self._register())

    async def _register(self) -> None:
        while True:
            try:
                return await self.registry.register()
            except Exception as error:
                if not isinstance(error, StoreUnavailable):
                    self.log("does not register: %s", error)
                await pass_virtual_time(0.2)


class _LoggedProtocol:
    """A protocol whose steps become part of the story."""

    def __init__(self, protocol: BundleProtocol[Any], broker: SimulatedBroker) -> None:
        self._protocol, self._broker = protocol, broker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._protocol, name)

    def advance(self, state: Any, record: object) -> Any:
        after, effects = self._protocol.advance(state, record)
        if after != state or effects:
            bundle = getattr(state, "bundle", "")
            self._broker.log("%s: %s (%s)", bundle, _Brief(record), _Change(state, after))
        return after, effects


class _Brief:
    """A record, or a part of a state, in a few words: what it is made of, without the defaults."""

    def __init__(self, record: object) -> None:
        self._record = record

    def __str__(self) -> str:
        record = self._record
        if isinstance(record, enum.Enum):
            return record.name
        if not dataclasses.is_dataclass(record):
            return str(record)
        values = [
            str(_Brief(getattr(record, each.name)))
            for each in dataclasses.fields(record)
            if getattr(record, each.name) not in (each.default, {})
        ]
        return " ".join([type(record).__name__, *values])


class _Change:
    """What a step changed of a state."""

    def __init__(self, before: Any, after: Any) -> None:
        self._before, self._after = before, after

    def __str__(self) -> str:
        changes = [
            f"{each.name}: {_Brief(had)} → {_Brief(has)}"
            for each in dataclasses.fields(self._after)
            if (had := getattr(self._before, each.name)) != (has := getattr(self._after, each.name))
        ]
        return ", ".join(changes) or "nothing changes"
