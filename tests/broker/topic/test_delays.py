"""Messages that ask for a later delivery, by the policy ``delayedDelivery`` and its settings."""

from collections.abc import Mapping
from typing import Any

import pytest

from counterpoise.broker.topic.options import TopicOptions
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType, TransactionId
from tests.broker.topic.conftest import World, entry, publish

ONE, TWO = TransactionId(0, 0), TransactionId(0, 1)
STORED_TYPES = [SubscriptionType.Shared, SubscriptionType.Key_Shared]


class Delaying:
    """A topic whose policies change, and messages that are due so many milliseconds from now."""

    def __init__(self, now_s: list[float], options: TopicOptions, **policy: Any) -> None:
        self.now_s = now_s
        self.policies: dict[str, Any] = {"delayedDeliveryPolicies": policy} if policy else {}
        self.world = World(
            MemoryLedgerStore(), policies=self.read, live=lambda: options, options=options
        )

    async def read(self, _: TopicName) -> Mapping[str, Any]:
        return self.policies

    async def publish(self, *after_ms: int) -> None:
        producer = await self.world.producer()
        now = round(self.now_s[0] * 1000)
        for each in after_ms:
            await self.world.publish(producer, each, publish_time=now, deliver_at_time=now + each)
        producer.close()

    async def delivered(self) -> list[str]:
        """What has come; a message without a time has come behind all that was due."""
        producer = await self.world.producer()
        ends = self.world.wire.payloads().count("end")
        await self.world.publish(producer, "end")
        await self.world.wire.until(lambda: self.world.wire.payloads().count("end") > ends)
        producer.close()
        return [each for each in self.world.wire.payloads() if each != "end"]


@pytest.mark.parametrize("kind", STORED_TYPES)
@pytest.mark.parametrize(
    ("policy", "options", "at_once"),
    [
        ({}, TopicOptions(), ["0", "1000"]),
        ({}, TopicOptions(delay_is_strict=True), ["0"]),
        ({}, TopicOptions(delay_tick_ms=1500), ["0", "1000", "1500"]),
        ({}, TopicOptions(delays=False), ["0", "1000", "1500", "60000"]),
        ({"active": True, "tickTime": 10}, TopicOptions(delays=False), ["0"]),
        ({"active": False, "tickTime": 10}, TopicOptions(), ["0", "1000", "1500", "60000"]),
        ({"active": True, "tickTime": 1500}, TopicOptions(delay_is_strict=True), ["0"]),
    ],
)
async def test_a_message_waits_but_for_the_tick(
    now_s: list[float],
    kind: SubscriptionType,
    policy: dict[str, Any],
    options: TopicOptions,
    at_once: list[str],
) -> None:
    delaying = Delaying(now_s, options, **policy)
    await delaying.world.consumer(kind)
    await delaying.publish(0, 1000, 1500, 60_000)
    assert await delaying.delivered() == at_once


async def test_a_change_holds_for_what_is_looked_at_after_it(now_s: list[float]) -> None:
    """What waits already goes on waiting, as in Pulsar."""
    delaying = Delaying(now_s, TopicOptions())
    await delaying.world.consumer(SubscriptionType.Shared)
    await delaying.publish(60_000)
    delaying.policies["delayedDeliveryPolicies"] = {"active": False, "tickTime": 1000}
    await delaying.publish(50_000)
    assert await delaying.delivered() == ["50000"]


@pytest.mark.parametrize(
    ("policy", "options", "refused"),
    [
        ({}, TopicOptions(), 0),
        ({}, TopicOptions(delay_max_ms=5000), 1),
        ({"active": True, "tickTime": 1, "maxDeliveryDelayInMillis": 5000}, TopicOptions(), 1),
        ({"active": False, "tickTime": 1, "maxDeliveryDelayInMillis": 5000}, TopicOptions(), 0),
    ],
)
async def test_a_message_that_asks_for_too_long_a_delay_is_refused(
    now_s: list[float], policy: dict[str, Any], options: TopicOptions, refused: int
) -> None:
    delaying = Delaying(now_s, options, **policy)
    world = delaying.world
    producer = await world.producer()
    now = round(now_s[0] * 1000)
    for number, after in enumerate((5000, 5001, 0)):
        publish(producer, number, number, entry(0, publish_time=now, deliver_at_time=now + after))
    await world.wire.until(lambda: len(world.wire.receipted) + len(world.wire.errors) == 3)
    assert [(number, error.code) for _, number, error in world.wire.errors] == [
        (1, ServerError.NotAllowedError)
    ] * refused
    # As it is in Pulsar: clients look for this text.
    why = "Exceeds max allowed delivery delay of 5000 milliseconds"
    assert all(error.message == why for *_, error in world.wire.errors)


@pytest.mark.parametrize("kind", STORED_TYPES)
async def test_a_clock_that_is_set_forward_brings_what_is_due_by_it(
    now_s: list[float], kind: SubscriptionType
) -> None:
    delaying = Delaying(now_s, TopicOptions(delay_is_strict=True))
    consumer = await delaying.world.consumer(kind)
    await delaying.publish(60_000)
    assert delaying.world.wire.payloads() == []
    # A transaction that acknowledged it is aborted meanwhile: it waits on, and is queued once.
    subscription, at = consumer.subscription, [(0, 0, ())]
    await consumer.ack_in_transaction(ONE, at, cumulative=False)
    await subscription.in_transactions().end(ONE, commit=False, low_watermark=-1)
    assert (await delaying.delivered(), subscription.delayed) == ([], 1)
    await consumer.ack_in_transaction(TWO, at, cumulative=False)
    delaying.world.registry.wall.advance(61)
    assert subscription.dispatcher is not None
    subscription.dispatcher.time_passed()
    assert (await delaying.delivered(), subscription.delayed) == ([], 0)
    await subscription.in_transactions().end(TWO, commit=False, low_watermark=-1)
    assert await delaying.delivered() == ["60000"]
