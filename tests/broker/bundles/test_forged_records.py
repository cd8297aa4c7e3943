"""A client that writes to the brokers' own topics: refused, or its records do no harm."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pulsar
import pytest

from counterpoise.broker.base.cluster_key import NODE, PROPERTY
from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.options import ON_TOPIC, StateChannelOptions
from counterpoise.names.bundle import BundleName
from counterpoise.names.system_topics import (
    BROKER_LOAD_DATA,
    SERVICE_UNIT_STATE,
    TOP_BUNDLES_LOAD_DATA,
)
from counterpoise.names.topic import TopicName
from counterpoise.ownership.protocols import PROTOCOLS
from tests.broker.bundles.test_bad_days import BrokersOnBadDays, bundles_of, usable

_, EXTENSIBLE = PROTOCOLS
FAR_MS = 95_617_584_000_000
"""The year 5000."""
THOUSANDS = {f"0x{n:08x}_0x{n + 1:08x}": None for n in range(100_000)}


@pytest.fixture
async def brokers() -> AsyncIterator[BrokersOnBadDays]:
    async with BrokersOnBadDays("memory:", EXTENSIBLE, ON_TOPIC) as made:
        yield made


def write(url: str, topic: str, messages: list[tuple[str, dict[str, Any]]], key: str = "") -> None:
    """Publish as the official client does; raises what it raises."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        properties = {PROPERTY: key} if key else {}
        producer = client.create_producer(topic, properties=properties)
        for name, value in messages:
            producer.send(json.dumps(value).encode(), partition_key=name)
    finally:
        client.close()


@pytest.mark.parametrize("topic", [SERVICE_UNIT_STATE, BROKER_LOAD_DATA, TOP_BUNDLES_LOAD_DATA])
async def test_no_client_writes_to_the_brokers_own_topics(
    brokers: BrokersOnBadDays, topic: str
) -> None:
    broker = await brokers.start()
    bundle, *_ = await bundles_of(broker)
    for key in ("", "guessed"):
        with pytest.raises(pulsar.AuthorizationError):
            await asyncio.to_thread(write, broker.service_url, topic, [], key)
    await usable(brokers, bundle)


async def test_the_key_of_the_brokers_is_in_no_statistics(brokers: BrokersOnBadDays) -> None:
    leader, other = await brokers.start_many(2)
    bundle, *_ = await bundles_of(leader)
    await other.parts.ownership.bundles.acquire(bundle)
    stored = await leader.metadata.get(NODE)
    assert stored is not None
    topic = await leader.topics.get(TopicName.parse(SERVICE_UNIT_STATE))
    shown = [producer.request.properties for producer in topic.producers.by_name.values()]
    assert len(shown) == 2
    assert all(stored.value.decode() not in str(each) for each in shown)


def forgeries(bundle: BundleName, owner: Broker, other: Broker) -> dict[str, dict[str, Any]]:
    """What a client may claim of a bundle; each once stopped bundles, or might have."""
    now_ms = time.time_ns() // 1_000_000
    half = f"0x{bundle.range.lower:08x}_0x{bundle.range.lower + 1:08x}"
    return {
        "released in the year 5000": {
            "state": "Releasing", "dstBroker": other.id, "sourceBroker": owner.id,
            "timestamp": FAR_MS,
        },
        "split into what is no range": {
            "state": "Splitting", "sourceBroker": owner.id, "timestamp": now_ms,
            "splitServiceUnitToDestBroker": {"no range": None},
        },
        "split into 100,000": {
            "state": "Splitting", "sourceBroker": owner.id, "timestamp": now_ms,
            "splitServiceUnitToDestBroker": THOUSANDS,
        },
        "split into a half": {
            "state": "Splitting", "sourceBroker": owner.id, "timestamp": now_ms,
            "splitServiceUnitToDestBroker": {half: None},
        },
        "owned by nothing": {"state": "Owned", "dstBroker": "no:1", "timestamp": now_ms},
        "owned by nothing in the year 5000": {
            "state": "Owned", "dstBroker": "no:1", "timestamp": FAR_MS,
        },
        "assigned to nothing": {
            "state": "Assigning", "dstBroker": "no:1", "sourceBroker": owner.id,
            "timestamp": FAR_MS,
        },
        "assigned in the year 5000": {
            "state": "Assigning", "dstBroker": other.id, "timestamp": FAR_MS,
        },
        "released to nothing": {
            "state": "Releasing", "dstBroker": "no:1", "sourceBroker": owner.id,
            "timestamp": now_ms,
        },
        "released by nothing": {
            "state": "Releasing", "dstBroker": other.id, "sourceBroker": "no:1",
            "timestamp": now_ms,
        },
        "deleted by nothing": {
            "state": "Deleted", "sourceBroker": "no:1", "timestamp": now_ms,
        },
        "deleted in the year 5000": {
            "state": "Deleted", "sourceBroker": owner.id, "timestamp": FAR_MS,
        },
        "free in the year 5000": {
            "state": "Free", "sourceBroker": owner.id, "timestamp": FAR_MS,
        },
    }  # fmt: skip


async def test_forged_records_stop_no_bundle(brokers: BrokersOnBadDays) -> None:
    """Thirteen records, on a cluster whose system topics are open to clients."""
    options = StateChannelOptions(table_view=ON_TOPIC, clients_may_write=True)
    leader, other = await brokers.start_many(2, ownership=options)
    bundle, *_ = await bundles_of(leader)
    for number, said in enumerate(forgeries(bundle, other, leader)):
        await usable(brokers, bundle)
        owner = next(
            each for each in (leader, other) if each.parts.ownership.bundles.serves(bundle)
        )
        successor = other if owner is leader else leader
        record = forgeries(bundle, owner, successor)[said]
        forged = {**record, "force": True, "versionId": 1000 * (number + 1)}
        await asyncio.to_thread(
            write, leader.service_url, SERVICE_UNIT_STATE, [(str(bundle), forged)]
        )
        async with asyncio.timeout(12):
            assert await usable(brokers, bundle) in (leader, other), said
