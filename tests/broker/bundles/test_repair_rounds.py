"""When the leader looks for bundles without an owner, and what it makes of them."""

from collections.abc import Callable, Collection
from typing import cast

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.bundles.placement import Placer
from counterpoise.broker.bundles.repairs import OwnershipRepairs
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.metadata import MemoryTree
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.names.namespace import NamespaceName
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.ownership.port import OwnershipOptions
from counterpoise.ownership.protocols import PROTOCOLS
from counterpoise.ownership.records import NamespaceEphemeralData
from tests.broker.misbehaving_store import MisbehavingStore
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

BROKERS = "/loadbalance/brokers"
ME, OTHER = "b1:80", "b2:80"
NAMESPACE = NamespaceName("public", "default")
BUNDLE = BundleName.parse(f"{NAMESPACE}/0x00000000_0xffffffff")
RECORD = f"{RECORDS}/{BUNDLE}"
EVERY_S, WARY_S = 100.0, 30.0


def now_ms() -> int:
    return now_ns() // 1_000_000


class Leader:
    """Ownership repairs of a broker that leads, beside another one, which owns a bundle."""

    def __init__(self, load_manager: str = EXTENSIBLE) -> None:
        tree = MemoryTree()
        self.store, self.another = MisbehavingStore(tree), tree.open()
        self.leads = True
        self.brokers = {ME, OTHER}
        self.successor: str | None = ME
        self.known = [NAMESPACE]
        self.tally = BundleTally()
        self.background = BackgroundTasks()
        options = OwnershipOptions(NamespaceEphemeralData("pulsar://b1:1", "http://b1:80"))
        self.repairs = OwnershipRepairs(
            self.store,
            PROTOCOLS[load_manager](options, now_ms),
            cast("BrokerRegistry", self),
            cast("Placer", self),
            leads=lambda: self.leads,
            every_s=EVERY_S,
            at_once=lambda: 4,
            wary_s=WARY_S,
            background=self.background,
            namespaces=self,
            tally=self.tally,
            clock_ms=now_ms,
        )

    async def start(self) -> None:
        await self.another.put(f"{BROKERS}/{OTHER}", b"")
        await self.own(OTHER)
        await pass_time(1)  # Or it would be notified of what was there before.
        self.repairs.start()
        await pass_time(9)
        assert await self.owner() == OTHER

    async def own(self, broker: str, version: int = 1) -> None:
        record = ServiceUnitStateData(
            ServiceUnitState.OWNED, broker, timestamp_ms=now_ms(), version=version
        )
        await self.another.put(RECORD, record.to_json())

    async def record(self) -> ServiceUnitStateData:
        found = await self.another.get(RECORD)
        return ServiceUnitStateData.from_json(found.value)

    async def owner(self) -> str | None:
        return (await self.record()).destination

    # What the registry, the placer and the list of namespaces answer.

    async def active(self) -> Collection[str]:
        return self.brokers

    def concerns(self, path: str) -> bool:
        return path.startswith(BROKERS)

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        return self.successor

    async def namespaces(self, tenant: str) -> Collection[NamespaceName]:
        return self.known


async def leaves(leader: Leader) -> None:
    await leader.another.delete(f"{BROKERS}/{OTHER}")


async def comes(leader: Leader) -> None:
    await leader.another.put(f"{BROKERS}/b3:80", b"")


async def reports_load(leader: Leader) -> None:
    await leader.another.put(f"{BROKERS}/{OTHER}", b"more")


async def is_asked(leader: Leader) -> None:
    leader.repairs.check_soon()


async def is_cut_off_for_a_moment(leader: Leader) -> None:
    leader.store.go_away()
    leader.store.come_back()


async def loses_its_session(leader: Leader) -> None:
    leader.store.lose_session()
    leader.store.come_back()


async def is_cut_off_until_its_session_is_lost(leader: Leader) -> None:
    leader.store.lose_session()
    await pass_time(WARY_S)
    leader.store.come_back()


async def nothing(leader: Leader) -> None:
    pass


@pytest.mark.parametrize(
    ("event", "after_s"),
    [
        (leaves, 0.0),
        (comes, 0.0),
        (is_asked, 0.0),
        (is_cut_off_for_a_moment, 0.0),
        (loses_its_session, WARY_S),
        (is_cut_off_until_its_session_is_lost, WARY_S),
        (reports_load, EVERY_S - 9),
        (nothing, EVERY_S - 9),
    ],
)
@on_jumping_loop
async def test_a_bundle_whose_owner_is_gone_is_repaired_when_the_leader_looks(
    event: Callable[[Leader], object], after_s: float
) -> None:
    leader = Leader()
    await leader.start()
    leader.brokers.discard(OTHER)
    await event(leader)  # type: ignore[misc]
    if after_s:
        await pass_time(after_s - 0.5)
        assert await leader.owner() == OTHER
    await pass_time(1)
    assert await leader.owner() == ME
    assert (leader.repairs.repaired, leader.tally.orphans, leader.tally.tombstones) == (1, 1, 0)
    leader.repairs.close()


@on_jumping_loop
async def test_locks_which_go_with_their_broker_are_not_read_to_be_repaired() -> None:
    leader = Leader(MODULAR)
    await leader.start()
    await leader.another.put(f"/namespace/{BUNDLE}", b"", ephemeral=True)
    await leaves(leader)
    await pass_time(2 * EVERY_S)
    assert leader.store.asked == []


@on_jumping_loop
async def test_a_broker_that_is_cut_off_or_follows_repairs_nothing() -> None:
    leader = Leader()
    await leader.start()
    leader.brokers.discard(OTHER)
    leader.leads = False
    await leader.own(OTHER, version=2)
    await pass_time(2 * EVERY_S)
    assert not leader.tally.cleanups, "a record is checked by the leader alone"
    await leaves(leader)
    await pass_time(2 * EVERY_S)
    assert await leader.owner() == OTHER
    leader.leads = True
    leader.store.go_away()
    await pass_time(2 * EVERY_S)
    assert await leader.owner() == OTHER
    leader.store.come_back()
    await pass_time(1)
    assert await leader.owner() == ME


@on_jumping_loop
async def test_records_go_with_their_namespace_but_not_those_of_the_brokers_own() -> None:
    leader = Leader()
    await leader.start()
    whole = "0x00000000_0xffffffff"
    paths = [f"{RECORDS}/{name}/{whole}" for name in ("pulsar/system", "public/gone")]
    for path in paths:
        record = ServiceUnitStateData(ServiceUnitState.OWNED, OTHER, timestamp_ms=now_ms())
        await leader.another.put(path, record.to_json())
    for stand in (2, 1, 1):
        await leader.repairs.repair_all()
        assert sum([await leader.another.exists(path) for path in paths]) == stand
    assert await leader.another.exists(paths[0])
    # Missing once, and once again later: each time it may just have been created.
    for known, there in (([], True), ([NAMESPACE], True), ([], True), ([], False)):
        leader.known = known
        await leader.repairs.repair_all()
        assert await leader.another.exists(RECORD) is there
    leader.repairs.close()


@on_jumping_loop
async def test_a_broker_that_leads_no_longer_when_a_bundle_has_its_turn_leaves_it_alone() -> None:
    leader = Leader()
    leader.brokers.discard(OTHER)
    await leader.own(OTHER)

    def resigns(operation: str, path: str) -> bool:
        # The records are read once to judge them, and again when each has its turn.
        if operation == "get" and ("get", path) in leader.store.asked[:-1]:
            leader.leads = False
        return False

    leader.store.fails = resigns
    assert len(await leader.repairs.repair_all()) == 1
    assert await leader.owner() == OTHER


@on_jumping_loop
async def test_looks_that_were_asked_for_are_counted_by_what_came_of_them() -> None:
    leader = Leader()
    await leader.start()
    leader.brokers.discard(OTHER)
    await pass_time(3 * EVERY_S)
    assert not leader.tally.cleanups, "its regular looks are no answer to a broker's end"
    await is_asked(leader)
    await pass_time(1)
    assert leader.tally.cleanups == {"Success": 1}
    leader.leads = False
    await is_asked(leader)
    await pass_time(1)
    assert leader.tally.cleanups == {"Success": 1, "Skip": 1}
    leader.leads = True
    leader.store.fails = lambda *_: True
    await is_asked(leader)
    await pass_time(1)
    assert leader.tally.cleanups == {"Success": 1, "Skip": 1, "Failure": 1}
    leader.store.fails = lambda *_: False
    await leader.own(OTHER, version=9)
    await pass_time(EVERY_S)
    assert await leader.owner() == ME, "a store that was away ended the looks"


@on_jumping_loop
async def test_a_record_that_names_no_broker_that_is_alive_is_repaired_in_a_second() -> None:
    leader = Leader()
    await leader.start()
    await leader.own("b9:80", version=2)
    await pass_time(0.5)
    assert await leader.owner() == "b9:80", "it may have registered just now"
    await pass_time(1)
    assert await leader.owner() == ME
    await leader.own("b8:80", version=9)
    await pass_time(0.5)
    leader.brokers.add("b8:80")
    await pass_time(EVERY_S)
    assert await leader.owner() == "b8:80"


@on_jumping_loop
async def test_records_that_could_not_be_checked_are_looked_at_all_the_same() -> None:
    leader = Leader()
    await leader.start()
    failed: list[str] = []

    def fails_once(operation: str, path: str) -> bool:
        if operation == "get" and path == RECORD and not failed:
            failed.append(path)
            return True
        return False

    leader.store.fails = fails_once
    await leader.own("b9:80", version=2)
    await pass_time(2)
    assert failed
    assert await leader.owner() == ME


@on_jumping_loop
async def test_each_of_the_records_that_were_written_is_checked() -> None:
    leader = Leader()
    await leader.start()
    for number, broker in enumerate((ME, "b9:80", OTHER)):
        path = f"{RECORDS}/{NAMESPACE}/0x0000000{number}_0x0000000{number + 1}"
        record = ServiceUnitStateData(
            ServiceUnitState.OWNED, broker, timestamp_ms=now_ms(), version=1
        )
        await leader.another.put(path, record.to_json())
    gone = f"{RECORDS}/{NAMESPACE}/0x00000008_0x00000009"
    await leader.another.put(gone, b"{}")
    await leader.another.delete(gone)
    await pass_time(2)
    assert leader.repairs.repaired == 1
    assert not leader.background.failures


@pytest.mark.parametrize("successor", [ME, None])
@on_jumping_loop
async def test_a_repaired_bundle_goes_to_a_successor_or_is_free(successor: str | None) -> None:
    leader = Leader()
    leader.successor = successor
    leader.brokers.discard(OTHER)
    await leader.own(OTHER, version=5)
    await pass_time(3)
    (repair,) = await leader.repairs.repair_all()
    assert (repair.bundle, repair.remove) == (str(BUNDLE), False)
    state = ServiceUnitState.FREE if successor is None else ServiceUnitState.OWNED
    found = await leader.record()
    assert (found.state, found.destination, found.source) == (state, successor, OTHER)
    assert (found.version, found.timestamp_ms, found.force) == (6, now_ms(), True)


@on_jumping_loop
async def test_a_record_that_has_said_long_enough_that_no_broker_owns_a_bundle_is_removed() -> None:
    leader = Leader()
    record = ServiceUnitStateData(ServiceUnitState.FREE, None, OTHER, timestamp_ms=0, version=1)
    await leader.another.put(RECORD, record.to_json())
    await pass_time(3600)
    assert await leader.repairs.repair_all() == []
    await pass_time(0.01)
    assert len(await leader.repairs.repair_all()) == 1
    assert not await leader.another.exists(RECORD)
    assert (leader.tally.orphans, leader.tally.tombstones, leader.repairs.repaired) == (0, 1, 1)
