"""What the extensible load manager leaves behind when brokers die at the wrong moment."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import replace
from typing import Any

import pytest

from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.options import IN_STORE
from counterpoise.broker.bundles.store_placement import StorePlacer
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.metadata import SessionEvent
from counterpoise.names.bundle import BundleName
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.ownership.protocols import PROTOCOLS
from tests.broker.bundles.test_bad_days import BrokersOnBadDays, bundles_of, store_of, usable
from tests.broker.conftest import NAMESPACE, records_of
from tests.waiting import pause, until

_, EXTENSIBLE = PROTOCOLS

# An idle cluster: no load report is written that would make the leader look.
IDLE = LoadReportConfig()


@pytest.fixture
async def brokers() -> AsyncIterator[BrokersOnBadDays]:
    async with BrokersOnBadDays("memory:", EXTENSIBLE, IN_STORE) as made:
        yield made


# A broker that is killed leaves its links to others to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_broker_that_is_back_at_once_ends_what_it_began(brokers: BrokersOnBadDays) -> None:
    """No broker missed it: its record is the only trace of what it had begun."""
    successor, source = await brokers.start_many(2, load_report=IDLE)
    bundle, *_ = await bundles_of(successor)
    port = int(source.id.rpartition(":")[2])
    await brokers.kill(source)
    record = ServiceUnitStateData(
        ServiceUnitState.RELEASING,
        successor.id,
        source.id,
        timestamp_ms=time.time_ns() // 1_000_000,
        version=1,
    )
    path = f"{RECORDS}/{bundle}"
    # Neither the successor nor the leader is notified of it.
    store_of(successor).hold_notifications()
    await successor.metadata.put(path, record.to_json())
    await brokers.start(load_report=IDLE, web_service_port=port)
    store_of(successor).release_notifications()
    assert await usable(brokers, bundle) is successor


@pytest.mark.parametrize("at_once", [1, 3])
async def test_no_more_bundles_are_repaired_at_once_than_is_set(
    brokers: BrokersOnBadDays, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = replace(brokers.ownership, overrides_at_once=at_once)
    leader = await brokers.start(load_report=IDLE, ownership=options)
    now = most = 0

    async def choose(_: Any, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        nonlocal now, most
        if bundle not in bundles:
            return leader.id  # Of the topics of load data, say.
        now += 1
        most = max(now, most)
        for _ in range(10):
            await asyncio.sleep(0)
        now -= 1
        return leader.id

    bundles = await bundles_of(leader)
    monkeypatch.setattr(StorePlacer, "choose", choose)
    dead = ServiceUnitStateData(
        ServiceUnitState.OWNED, "b9:8080", timestamp_ms=time.time_ns() // 1_000_000, version=1
    )
    for bundle in bundles:
        await records_of(leader).put(f"{RECORDS}/{bundle}", dead.to_json())
    repaired = await leader.parts.bundles.repairs.repair_all()
    assert len(repaired) == len(bundles)
    assert most == at_once


async def test_a_leader_that_lost_its_session_repairs_as_soon_as_it_may(
    brokers: BrokersOnBadDays,
) -> None:
    """What it must not believe at once it looks at when it may, not at its next regular look."""
    leader = await brokers.start(
        load_report=IDLE,
        metadata_store_session_timeout_ms=1_000,
        ownership=replace(brokers.ownership, monitor_interval_s=3_600),
    )
    bundle, *_ = await bundles_of(leader)
    events: list[SessionEvent] = []
    leader.metadata.subscribe_session(events.append)
    store_of(leader).lose_session()
    store_of(leader).come_back()
    await until(
        lambda: leader.is_leader and SessionEvent.SESSION_REESTABLISHED in events,
        "it leads, warily",
    )
    gone = ServiceUnitStateData(
        ServiceUnitState.OWNED, "gone:1", timestamp_ms=time.time_ns() // 1_000_000, version=1
    )
    store_of(leader).hold_notifications()
    await leader.metadata.put(f"{RECORDS}/{bundle}", gone.to_json())
    # Private: no look is due any more but the one that is waited for.
    leader.parts.bundles.repairs._due.clear()
    await until(lambda: leader.parts.bundles.repairs.repaired > 0, "it is repaired")
    assert await usable(brokers, bundle) is leader


async def test_what_changed_since_it_was_judged_is_left_alone(brokers: BrokersOnBadDays) -> None:
    """A tombstone's time is up at the very moment when a broker takes the bundle."""
    leader = await brokers.start(load_report=IDLE)
    bundle, *_ = await bundles_of(leader)
    path = f"{RECORDS}/{bundle}"
    store_of(leader).hold_notifications()
    tombstone = ServiceUnitStateData(ServiceUnitState.FREE, source=leader.id, version=1).to_json()
    await leader.metadata.put(path, tombstone)
    # Private: what was read before the record changed, which lasts no longer than a turn.
    caches = leader.parts.bundles.repairs._values
    (cache,) = (each for root, each in caches.items() if path.startswith(root))
    cache.forget(path)
    assert await cache.get(path) == tombstone
    taken = ServiceUnitStateData(
        ServiceUnitState.OWNED, leader.id, timestamp_ms=time.time_ns() // 1_000_000, version=2
    ).to_json()
    await leader.metadata.put(path, taken)
    assert str(bundle) in {each.bundle for each in await leader.parts.bundles.repairs.repair_all()}
    stored = await leader.metadata.get(path)
    assert stored.value == taken
    store_of(leader).release_notifications()


@pytest.mark.parametrize("owner", [None, "gone:1"], ids=["deleted", "reassigned"])
async def test_a_record_written_while_it_is_repaired_stays(
    brokers: BrokersOnBadDays, owner: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another broker's write arrives just before the leader's."""
    leader = await brokers.start(load_report=IDLE)
    bundle, *_ = await bundles_of(leader)
    path, store, other = f"{RECORDS}/{bundle}", store_of(leader), brokers.tree.open()
    state = ServiceUnitState.FREE if owner is None else ServiceUnitState.OWNED
    now_ms = 0 if owner is None else time.time_ns() // 1_000_000
    old = ServiceUnitStateData(state, owner, leader.id, timestamp_ms=now_ms, version=1)
    await store.put(path, old.to_json())
    taken = ServiceUnitStateData(
        ServiceUnitState.OWNED, leader.id, timestamp_ms=time.time_ns() // 1_000_000, version=2
    ).to_json()
    written = asyncio.Event()

    def overtaken(operation: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def after_another(at: str, *rest: Any, **more: Any) -> Any:
            if at == path and not written.is_set():
                written.set()
                await other.put(path, taken)
            return await operation(at, *rest, **more)

        return after_another

    monkeypatch.setattr(store, "put", overtaken(store.put))
    monkeypatch.setattr(store, "delete", overtaken(store.delete))
    before = leader.parts.bundles.repairs.repaired
    await leader.parts.bundles.repairs.repair_all()
    assert written.is_set(), "the leader began a repair"
    stored = await other.get(path)
    assert stored.value == taken
    assert leader.parts.bundles.repairs.repaired == before


async def test_a_session_lost_while_records_are_read_repairs_nothing(
    brokers: BrokersOnBadDays, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = await brokers.start(load_report=IDLE)
    bundle, *_ = await bundles_of(leader)
    path, store, other = f"{RECORDS}/{bundle}", store_of(leader), brokers.tree.open()
    gone = ServiceUnitStateData(
        ServiceUnitState.OWNED, "gone:1", timestamp_ms=time.time_ns() // 1_000_000, version=1
    ).to_json()
    await store.put(path, gone)
    get, lost = store.get, asyncio.Event()

    async def get_and_lose(at: str) -> Any:
        found = await get(at)
        if at == path and not lost.is_set():
            lost.set()
            store.lose_session()
            store.come_back()
        return found

    monkeypatch.setattr(store, "get", get_and_lose)
    found = await leader.parts.bundles.repairs.repair_all()
    assert lost.is_set()
    assert str(bundle) in {each.bundle for each in found}, "it was judged before"
    stored = await other.get(path)
    assert stored.value == gone


async def test_records_of_a_namespace_that_does_not_exist_are_removed(
    brokers: BrokersOnBadDays,
) -> None:
    leader = await brokers.start(load_report=IDLE)
    bundle, *_ = await bundles_of(leader)
    assert await leader.parts.ownership.bundles.acquire(bundle)
    now_ms = time.time_ns() // 1_000_000
    forged = {
        f"{RECORDS}/{name}/{bundle.range}": ServiceUnitStateData(
            ServiceUnitState.OWNED, leader.id, timestamp_ms=now_ms, version=1
        )
        for name in ("absent/here", "public/absent", "pulsar/gone:8080")
    }
    kept = [f"{RECORDS}/{name}/{bundle.range}" for name in (NAMESPACE, "pulsar/system")]
    kept.append(f"{RECORDS}/pulsar/{leader.id}/{bundle.range}")
    for path, record in {**dict.fromkeys(kept[1:], next(iter(forged.values()))), **forged}.items():
        if not await leader.metadata.exists(path):
            await leader.metadata.put(path, record.to_json())
    repairs = leader.parts.bundles.repairs
    first = await repairs.repair_all()
    assert not [each for each in first if "namespace" in each.why], "it may have just been made"
    found = await repairs.repair_all()
    assert {f"{RECORDS}/{each.bundle}" for each in found} == set(forged)
    for path in forged:
        assert not await leader.metadata.exists(path)
    for path in kept:
        assert await leader.metadata.exists(path)


async def test_003_l371_reports_of_load_count_as_no_cleanup_of_inactive_brokers(
    brokers: BrokersOnBadDays,
) -> None:
    leader, other, third = await brokers.start_many(3, load_report=IDLE)
    cleanups = leader.tally.cleanups

    async def leaves(broker: Broker) -> None:
        before = cleanups.total()
        await brokers.kill(broker)
        await until(lambda: cleanups.total() > before, "the leader looks for its bundles")

    # Whatever the start of the others has made it look for is over by then.
    await leaves(third)
    before = cleanups.total()
    for broker in (leader, other):
        for _ in range(30):
            await broker.parts.balancing.reporter.refresh(force=True)
            await pause()
    await leaves(other)
    assert cleanups.total() - before < 10
