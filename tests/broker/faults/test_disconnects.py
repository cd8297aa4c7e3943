"""A client leaves in the middle of what it asked for, while the store or the disk hangs."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.broker.conftest import NAMESPACE, topic_in
from tests.broker.faults.clients import Wire, found, until_served
from tests.broker.faults.conftest import FaultyBrokers
from tests.waiting import until
from tests.wire import frames
from tests.wire.frames import Type

Say = Callable[[Wire, str], None]
NUMBER = 9_000_000


def say(kind: int, field: str, **values: Any) -> Say:
    def said(wire: Wire, topic: str) -> None:
        named = {"topic": topic} if "topic" in values else {}
        wire.say(kind, field, **{"request_id": 99, **values, **named})

    return said


def send(wire: Wire, _topic: str) -> None:
    wire.write(frames.send(0, 0, frames.entry(b"%08d" % NUMBER)))


NEW: dict[str, Say] = {
    "LOOKUP": say(Type.LOOKUP, "lookup_topic", topic=""),
    "PRODUCER": say(Type.PRODUCER, "producer", topic="", producer_id=0),
    "SUBSCRIBE": say(
        Type.SUBSCRIBE, "subscribe", topic="", subscription="s", consumer_id=0, sub_type=0
    ),
}
"""What asks for something new, and what is about what is there."""
LATER: dict[str, Say] = {
    "SEND": send,
    "SEEK": say(Type.SEEK, "seek", consumer_id=0, message_id={"ledger_id": 0, "entry_id": 0}),
    "UNSUBSCRIBE": say(Type.UNSUBSCRIBE, "unsubscribe", consumer_id=0),
    "CLOSE_PRODUCER": say(Type.CLOSE_PRODUCER, "close_producer", producer_id=0),
    "CLOSE_CONSUMER": say(Type.CLOSE_CONSUMER, "close_consumer", consumer_id=0),
}


@pytest.mark.parametrize("hangs", ["store", "disk"])
@pytest.mark.parametrize("what", [*NEW, *LATER])
async def test_a_client_that_leaves_in_the_middle(
    brokers: FaultyBrokers, what: str, hangs: str
) -> None:
    owner, _ = await brokers.start_many(2)
    bundle, topic = await brokers.owned_bundle(owner)
    if what == "LOOKUP":
        bundle = (await owner.namespaces.bundles(NAMESPACE)).bundles[1]  # without an owner
        topic = topic_in(bundle)
        wire = await Wire.dial(owner.service_url)
    elif what in NEW:
        wire = await found(brokers, topic)
    else:
        producer = {"producer_id": 0}
        wire = await until_served(brokers, topic, Type.PRODUCER, "producer", **producer)
        consumer = {"subscription": "s", "consumer_id": 0, "sub_type": 0}
        await wire.ask(Type.SUBSCRIBE, "subscribe", topic=str(topic), **consumer)
        for _ in range(3):
            send(wire, str(topic))
    await wire.heard()
    store = brokers.store_of(owner)
    if hangs == "store":
        store.answers.clear()
    else:
        disk = brokers.freeze(owner)
    {**NEW, **LATER}[what](wire, str(topic))
    # A LOOKUP asks the store and no disk, whatever is about a topic that is loaded no store.
    if hangs == "store" and what in NEW:
        await until(lambda: store.waiting > 0, "the store is waited for")
    elif hangs == "disk" and what in {"PRODUCER", "SUBSCRIBE", "SEND"}:
        await until(disk.reached.is_set, "the disk is waited for")
    elif what != "LOOKUP":
        await wire.heard()
    bystander = await Wire.dial(owner.service_url)
    beside = asyncio.create_task(
        bystander.ask(Type.PRODUCER, "producer", topic=str(topic), producer_id=5)
        if what in {"PRODUCER", "SUBSCRIBE"}
        else bystander.heard()
    )
    for _ in range(20):
        await asyncio.sleep(0)
    await wire.leave()
    for _ in range(20):
        await asyncio.sleep(0)
    store.answers.set()
    if hangs == "disk":
        disk.released.set()
    await beside  # who asked for the same is answered
    await bystander.leave()
    await brokers.lost_nothing(brokers.publish(topic))
    # Before the topic is closed, which would end whatever was forgotten.
    loaded = [
        broker.topics.loaded[topic] for broker in brokers.all if topic in broker.topics.loaded
    ]
    assert len(loaded) == 1
    for each in loaded:
        await until(lambda each=each: not each.producers.all(), "no producer is left")
        await until(
            lambda each=each: not any(s.consumers for s in each.subscriptions.values()),
            "no consumer is left",
        )
    assert await brokers.moves_on(bundle) == [False, True]
