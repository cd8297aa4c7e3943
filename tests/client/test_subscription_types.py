"""Exclusive, Failover, Shared and Key_Shared: who gets what, and who takes over."""

import pulsar
import pytest

from tests.client.conftest import NEVER, SOON, assert_no_more, payloads, receive_all

pytestmark = pytest.mark.client


def take(consumers: list[pulsar.Consumer], count: int) -> list[list[pulsar.Message]]:
    """Receive ``count`` messages from whichever consumer has some; acknowledge each."""
    taken: list[list[pulsar.Message]] = [[] for _ in consumers]
    idle = 0
    while sum(map(len, taken)) < count:
        before = sum(map(len, taken))
        for mine, consumer in zip(taken, consumers, strict=True):
            try:
                while sum(map(len, taken)) < count:
                    message = consumer.receive(NEVER)
                    mine.append(message)
                    consumer.acknowledge(message)
            except pulsar.Timeout:
                pass
        idle = idle + 1 if sum(map(len, taken)) == before else 0
        assert idle < 20, f"only {before} of {count} arrived"
    return taken


def test_exclusive_refuses_a_second_consumer(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s")
    first.close()
    client.subscribe(topic, "s")


def test_the_type_of_a_subscription_in_use_is_fixed(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", pulsar.ConsumerType.Failover)


def test_shared_spreads_messages(client: pulsar.Client, topic: str) -> None:
    consumers = [
        client.subscribe(topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10)
        for _ in range(3)
    ]
    producer = client.create_producer(topic)
    for payload in payloads(300):
        producer.send_async(payload, None)
    producer.flush()
    taken = take(consumers, 300)
    assert sorted(m.data() for mine in taken for m in mine) == sorted(payloads(300))
    assert all(mine for mine in taken)


def test_shared_gives_what_a_closed_consumer_held_to_another(
    client: pulsar.Client, topic: str
) -> None:
    first = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    for payload in payloads(10):
        producer.send(payload)
    for _ in range(10):
        first.receive(SOON)
    second = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    assert_no_more(second)
    first.close()
    assert sorted(receive_all(second, 10)) == sorted(payloads(10))


def test_failover_has_one_active_consumer(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s", pulsar.ConsumerType.Failover, consumer_name="a")
    producer = client.create_producer(topic)
    producer.send(b"one")
    assert receive_all(first, 1) == [b"one"]
    second = client.subscribe(topic, "s", pulsar.ConsumerType.Failover, consumer_name="b")
    taken = []
    for payload in payloads(10):
        producer.send(payload)
    taken = take([first, second], 10)
    assert [] in taken
    active, standby = (first, second) if taken[0] else (second, first)
    assert [m.data() for mine in taken for m in mine] == payloads(10)
    active.close()
    producer.send(b"after")
    assert receive_all(standby, 1) == [b"after"]


def test_failover_hands_over_what_was_not_acknowledged(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s", pulsar.ConsumerType.Failover, consumer_name="a")
    producer = client.create_producer(topic)
    for payload in payloads(10):
        producer.send(payload)
    receive_all(first, 4)
    second = client.subscribe(topic, "s", pulsar.ConsumerType.Failover, consumer_name="b")
    first.close()
    assert receive_all(second, 6) == payloads(6, 4)


def test_key_shared_keeps_a_key_with_one_consumer(client: pulsar.Client, topic: str) -> None:
    consumers = [
        client.subscribe(topic, "s", pulsar.ConsumerType.KeyShared, consumer_name=f"c{number}")
        for number in range(3)
    ]
    producer = client.create_producer(topic)
    keys = [f"key-{number}" for number in range(40)]
    for turn in range(5):
        for key in keys:
            producer.send(b"%d" % turn, partition_key=key)
    taken = take(consumers, 200)
    owner: dict[str, int] = {}
    order: dict[str, list[int]] = {key: [] for key in keys}
    for index, mine in enumerate(taken):
        for message in mine:
            assert owner.setdefault(message.partition_key(), index) == index
            order[message.partition_key()].append(int(message.data()))
    assert all(turns == list(range(5)) for turns in order.values())
    assert set(owner.values()) == {0, 1, 2}


def test_key_shared_by_ordering_key(client: pulsar.Client, topic: str) -> None:
    consumers = [
        client.subscribe(topic, "s", pulsar.ConsumerType.KeyShared, consumer_name=f"c{number}")
        for number in range(2)
    ]
    producer = client.create_producer(topic)
    for number in range(60):
        producer.send(b"%d" % number, partition_key="same", ordering_key=f"o{number % 20}")
    taken = take(consumers, 60)
    owner: dict[str, int] = {}
    for index, mine in enumerate(taken):
        for message in mine:
            assert owner.setdefault(message.ordering_key(), index) == index
    assert set(owner.values()) == {0, 1}


def test_key_shared_with_fixed_ranges(client: pulsar.Client, topic: str) -> None:
    def policy(*ranges: tuple[int, int]) -> pulsar.ConsumerKeySharedPolicy:
        return pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, False, list(ranges))

    low = client.subscribe(
        topic, "s", pulsar.ConsumerType.KeyShared, key_shared_policy=policy((0, 32767))
    )
    high = client.subscribe(
        topic, "s", pulsar.ConsumerType.KeyShared, key_shared_policy=policy((32768, 65535))
    )
    with pytest.raises(pulsar.ConsumerAssignError):
        client.subscribe(
            topic, "s", pulsar.ConsumerType.KeyShared, key_shared_policy=policy((100, 200))
        )
    producer = client.create_producer(topic)
    for number in range(100):
        producer.send(b"x", partition_key=f"key-{number}")
    taken = take([low, high], 100)
    # Where each key goes is a fact of the hash, so it is the same on every run and every broker.
    slots = {message.partition_key(): index for index, mine in enumerate(taken) for message in mine}
    from counterpoise.names.hashing import murmur3_32

    for key, index in slots.items():
        assert index == (murmur3_32(key.encode()) % 65536 > 32767)


def test_unsubscribing_waits_for_the_others(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    second = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    with pytest.raises(pulsar.PulsarException):
        first.unsubscribe()
    second.close()
    first.unsubscribe()
