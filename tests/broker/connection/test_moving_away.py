"""A topic that leaves for another broker, as its client sees it: nothing it says gets lost."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from counterpoise.broker.connection.round_trips import RoundTrips
from counterpoise.broker.topic import topic as topic_module
from counterpoise.broker.topic.ports import ServiceUrls
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.broker.connection.test_consumers import ack, flow, publish, take
from tests.waiting import WITHIN_S
from tests.wire import frames
from tests.wire.frames import Type

NEXT = ServiceUrls("pulsar://127.0.0.1:1", None)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_module, "FAREWELL_S", WITHIN_S)
    monkeypatch.setattr(topic_module, "ACKS_S", 0)


@contextmanager
def unloading(broker: OneBroker, topic: str) -> Iterator[None]:
    """The topic is sent on; it has left when the block has ended."""
    name = TopicName.parse(topic)
    work = broker.topics.unload_bundle(broker.everything.bundle_of(name), NEXT)
    leaving = broker.begin(work)
    broker.run(begun(broker, name))
    yield
    assert leaving.result(WITHIN_S) >= 1


async def begun(broker: OneBroker, name: TopicName) -> None:
    topic = broker.topics.loaded[name]
    for _ in range(50):
        # What it does for each subscription is a task of its own.
        await asyncio.sleep(0)
    assert topic.leaving


def backlog(broker: OneBroker, topic: str) -> int:
    loaded = broker.run(broker.topics.get(TopicName.parse(topic)))
    return int(loaded.subscriptions["s"].backlog)


def consuming(client: RawClient, topic: str, count: int) -> int:
    """A consumer that was sent so many messages; returns their ledger."""
    client.subscribe(topic)
    publish(client, topic, count)
    flow(client, count)
    take(client, count - 1)
    last, _ = client.receive_with_entry(Type.MESSAGE)
    return int(last.message.message_id.ledger_id)


def test_what_was_acknowledged_before_the_client_heard_of_it_counts(
    broker: OneBroker, client: RawClient, topic: str
) -> None:
    ledger = consuming(client, topic, 3)
    with unloading(broker, topic):
        close = client.receive(Type.CLOSE_CONSUMER).close_consumer
        assert close.assigned_broker_service_url == NEXT.plain
        for entry in range(3):
            ack(client, entry, ledger_id=ledger)
        client.receive(Type.PING)
        client.command("pong")
    assert backlog(broker, topic) == 0


def test_a_consumer_is_served_until_it_acknowledges_and_then_sent_on(
    broker: OneBroker,
    client: RawClient,
    dial: Callable[[], RawClient],
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients gather acknowledgements: there is no better moment than when they have just come."""
    monkeypatch.setattr(topic_module, "ACKS_S", 10 * WITHIN_S)
    ledger = consuming(client, topic, 3)
    producing = dial()
    producing.connect()
    producing.produce(topic, producer_id=1)
    with unloading(broker, topic):
        flow(client, 1)
        producing.send(frames.send(1, 0, frames.entry(b"stored, and sent as ever")))
        producing.receive(Type.SEND_RECEIPT)
        client.receive(Type.MESSAGE)
        ack(client, 1, ledger_id=ledger)
        client.receive(Type.CLOSE_CONSUMER)
        client.receive(Type.PING)
        ack(client, 0, ledger_id=ledger)
        producing.send(frames.send(1, 1, frames.entry(b"for the next owner")))
        producing.receive(Type.SEND_RECEIPT)
        client.command("pong")
        producing.receive(Type.CLOSE_PRODUCER)
    # Of those that were sent two, and the last one, which was not.
    assert backlog(broker, topic) == 3


def test_a_consumer_that_owes_nothing_is_sent_on_at_once(
    broker: OneBroker, client: RawClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_module, "ACKS_S", 10 * WITHIN_S)
    ledger = consuming(client, topic, 1)
    ack(client, 0, ledger_id=ledger, request_id=5)
    client.receive(Type.ACK_RESPONSE)
    with unloading(broker, topic):
        client.receive(Type.CLOSE_CONSUMER)
        client.receive(Type.PING)
        client.command("pong")
    assert backlog(broker, topic) == 0


def test_producers_go_on_until_consumers_have_heard_of_it(
    broker: OneBroker, client: RawClient, topic: str
) -> None:
    consuming(client, topic, 1)
    client.produce(topic, producer_id=1)
    with unloading(broker, topic):
        client.receive(Type.CLOSE_CONSUMER)
        client.receive(Type.PING)
        client.send(frames.send(1, 0, frames.entry(b"goes on")))
        client.receive(Type.SEND_RECEIPT)
        client.command("pong")
        client.receive(Type.CLOSE_PRODUCER)
    assert backlog(broker, topic) == 2


def test_a_client_that_is_silent_is_not_waited_for_long(
    broker: OneBroker, client: RawClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_module, "FAREWELL_S", 0.01)
    consuming(client, topic, 1)
    with unloading(broker, topic):
        client.receive(Type.CLOSE_CONSUMER)
        client.receive(Type.PING)
    assert backlog(broker, topic) == 1


def test_an_acknowledgement_that_comes_too_late_is_not_confirmed(
    broker: OneBroker, client: RawClient, topic: str
) -> None:
    ledger = consuming(client, topic, 2)
    with unloading(broker, topic):
        client.receive(Type.CLOSE_CONSUMER)
        ack(client, 0, ledger_id=ledger, request_id=7)
        client.receive(Type.PING)
        answer = client.receive(Type.ACK_RESPONSE).ack_response
        assert (answer.request_id, answer.HasField("error")) == (7, False)
        client.command("pong")
    ack(client, 1, ledger_id=ledger, request_id=8)
    answer = client.receive(Type.ACK_RESPONSE).ack_response
    assert (answer.request_id, answer.error) == (8, ServerError.ServiceNotReady)
    assert backlog(broker, topic) == 1


def test_a_consumers_id_that_is_used_again_has_its_own_time_to_acknowledge(
    broker: OneBroker, client: RawClient, topic: str
) -> None:
    """The client hears of the first departure after the second one has begun."""
    again = f"{topic}-2"
    consuming(client, topic, 1)
    with unloading(broker, topic):
        client.receive(Type.CLOSE_CONSUMER)
        client.receive(Type.PING)
        ledger = consuming(client, again, 1)
        with unloading(broker, again):
            client.receive(Type.CLOSE_CONSUMER)
            client.receive(Type.PING)
            client.command("pong")
            ack(client, 0, ledger_id=ledger, request_id=7)
            answer = client.receive(Type.ACK_RESPONSE).ack_response
            assert (answer.request_id, answer.HasField("error")) == (7, False)
            client.command("pong")
    assert backlog(broker, topic) == 1
    assert backlog(broker, again) == 0


def test_a_client_that_goes_away_is_not_waited_for(
    broker: OneBroker, client: RawClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than `unloading` waits: who is waited for all the same fails the test.
    monkeypatch.setattr("counterpoise.broker.topic.topic.FAREWELL_S", 10 * WITHIN_S)
    consuming(client, topic, 1)
    with unloading(broker, topic):
        client.receive(Type.CLOSE_CONSUMER)
        client.close()


async def test_an_answer_belongs_to_the_ping_it_answers() -> None:
    sent: list[None] = []
    trips = RoundTrips(asyncio.get_running_loop(), lambda: sent.append(None))
    trips.pong()
    trips.ping()
    first, second = trips.begin(), trips.begin()
    trips.pong()
    assert (first.done(), second.done()) == (False, False)
    trips.pong()
    assert (first.done(), second.done()) == (True, False)
    trips.end()
    assert second.done()
    assert len(sent) == 3
