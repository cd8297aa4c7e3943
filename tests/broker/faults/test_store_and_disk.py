"""The metadata store and the disk fail at once, under publishes."""

import asyncio
import errno

import pytest

from tests.broker.faults.conftest import FaultyBrokers
from tests.storage.faults import Failing
from tests.waiting import until


@pytest.mark.parametrize("first", ["store", "disk"])
@pytest.mark.parametrize("session", ["kept", "lost"])
async def test_a_store_that_is_away_while_the_disk_hangs(
    brokers: FaultyBrokers, session: str, first: str
) -> None:
    """Nothing is acknowledged until the disk answers, and all goes on when both are back."""
    owner, _ = await brokers.start_many(2)
    bundle, topic = await brokers.owned_bundle(owner)
    publisher = brokers.publish(topic)
    await publisher.more()
    hanging = await brokers.hang(owner)
    acknowledged = publisher.acknowledged
    for broker in brokers.all:
        store = brokers.store_of(broker)
        store.go_away() if session == "kept" else store.lose_session()
    for _ in range(50):
        await asyncio.sleep(0)
    assert publisher.acknowledged == acknowledged
    if first == "disk":
        hanging.released.set()
        for _ in range(50):
            await asyncio.sleep(0)
    for broker in brokers.all:
        brokers.store_of(broker).come_back()
    if first == "store":
        for _ in range(50):
            await asyncio.sleep(0)
        assert publisher.by.get(owner.service_url) == acknowledged
        hanging.released.set()
    await brokers.lost_nothing(publisher)
    assert await brokers.moves_on(bundle) == [False, True]


async def test_a_publish_hangs_while_its_broker_loses_the_session_and_the_topic(
    brokers: FaultyBrokers,
) -> None:
    """What comes back from the disk after another broker has the topic is not acknowledged."""
    owner, successor = await brokers.start_many(2)
    bundle, topic = await brokers.owned_bundle(owner)
    publisher = brokers.publish(topic)
    await publisher.more()
    hanging = await brokers.hang(owner)
    acknowledged = publisher.by[owner.service_url]
    brokers.store_of(owner).lose_session()
    # A new client is served elsewhere; the disk still has what the other one published.
    other = brokers.publish(topic, start=1_000_000)
    await other.more()
    assert other.by.keys() == {successor.service_url}
    assert successor.parts.ownership.bundles.serves(bundle)
    hanging.released.set()
    await publisher.more()
    assert publisher.by[owner.service_url] == acknowledged
    brokers.store_of(owner).come_back()
    await brokers.lost_nothing(publisher)
    await brokers.lost_nothing(other)
    assert await brokers.moves_on(bundle) == [False, True]


@pytest.mark.parametrize("whose", ["owner", "both"])
async def test_a_disk_that_is_full_during_an_unload(
    brokers: FaultyBrokers, whose: str, expected_errors: list[str]
) -> None:
    expected_errors.append("No space left on device")
    owner, successor = await brokers.start_many(2)
    bundle, topic = await brokers.owned_bundle(owner)
    publisher = brokers.publish(topic)
    await publisher.more()
    full = Failing("write", "", errno.ENOSPC)
    for broker in [owner] if whose == "owner" else [owner, successor]:
        brokers.disk_of(broker).before = full
    await until(lambda: full.times > 0, "a broker met the full disk")
    unloading = asyncio.create_task(owner.namespaces.moves.unload(bundle, successor.id))
    met = full.times
    await until(lambda: unloading.done() or full.times > met + 3, "and again, on its way")
    full.on = False
    await asyncio.gather(unloading, return_exceptions=True)
    await brokers.lost_nothing(publisher)
    assert await brokers.moves_on(bundle) == [False, True]


@pytest.mark.parametrize("session", ["kept", "lost"])
async def test_a_successor_that_dies_while_the_store_is_away_from_the_former_owner(
    brokers: FaultyBrokers, session: str
) -> None:
    owner, third, successor = await brokers.start_many(3)
    bundle, topic = await brokers.owned_bundle(owner)
    publisher = brokers.publish(topic)
    await publisher.more()
    hanging = await brokers.hang(owner)
    unloading = asyncio.create_task(owner.namespaces.moves.unload(bundle, successor.id))
    await until(lambda: not owner.parts.ownership.bundles.serves(bundle), "it is on its way")
    store = brokers.store_of(owner)
    store.go_away() if session == "kept" else store.lose_session()
    await brokers.kill(successor)
    hanging.released.set()
    for _ in range(50):
        await asyncio.sleep(0)
    store.come_back()
    await asyncio.gather(unloading, return_exceptions=True)
    await brokers.lost_nothing(publisher)
    assert await brokers.moves_on(bundle) == [False, True]
    assert brokers.owner(bundle) in {owner, third}
