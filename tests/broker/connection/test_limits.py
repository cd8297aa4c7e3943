"""How many may connect, and ask, at once."""

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.lookup_result import LookupConnect
from counterpoise.broker.connection import ConnectionConfig
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from tests.broker.connection.one_broker import Everything, OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.broker.connection.test_departures import SlowOwner
from tests.waiting import until
from tests.wire.frames import Type


async def gone(broker: OneBroker, left: int) -> None:
    await until(lambda: broker.listener.connections <= left)


def check_that_two_may_connect(config: ConnectionConfig, words: str) -> None:
    with OneBroker(config=config) as broker:
        first, second = (RawClient(broker.service_url) for _ in range(2))
        for client in (first, second):
            client.connect()
        with RawClient(broker.service_url) as third:
            refused = third.receive(Type.ERROR).error
            assert refused.error == ServerError.NotAllowedError
            assert refused.message == words
            assert third.closed()
        first.close()
        broker.run(gone(broker, 1))
        with RawClient(broker.service_url) as again:
            again.connect()
            assert broker.listener.connections == 2
        second.close()


def test_no_more_connections_than_allowed() -> None:
    check_that_two_may_connect(
        ConnectionConfig(connections_max=2), "Reached the maximum number of connections"
    )


def test_no_more_connections_from_one_address_than_allowed() -> None:
    check_that_two_may_connect(
        ConnectionConfig(connections_max_per_ip=2),
        "Reached the maximum number of connections on address127.0.0.1",
    )


def test_no_more_lookups_at_once_than_allowed(topic: str) -> None:
    world = SlowOwner()
    at_once = LookupConnect("localhost:0", "pulsar://localhost:0")
    config = ConnectionConfig(lookups_max=2)
    with OneBroker(config=config, world=world) as broker, RawClient(broker.service_url) as client:
        client.connect()
        for number in range(3):
            client.command("lookup_topic", topic=topic, request_id=number)
        answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
        assert (answer.request_id, answer.error) == (2, ServerError.TooManyRequests)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world, "lookup_now", lambda _topic: at_once)
            client.command("lookup_topic", topic=topic, request_id=3)
            answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
            assert (answer.request_id, answer.error) == (3, ServerError.TooManyRequests)

        async def finish() -> None:
            world.go_on.set()

        broker.run(finish())
        answers = [client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response for _ in range(2)]
        assert sorted(each.request_id for each in answers) == [0, 1]
        client.command("lookup_topic", topic=topic, request_id=9)
        last = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
        assert last.response == last.Connect


def test_the_limit_of_lookups_may_change(topic: str) -> None:
    world = SlowOwner()
    config = ConnectionConfig(lookups_max=1)
    with OneBroker(config=config, world=world) as broker, RawClient(broker.service_url) as client:
        client.connect()

        async def set_limit(most: int) -> None:
            broker.listener.set_limits(ConnectionConfig(lookups_max=most))

        broker.run(set_limit(2))
        for number in range(3):
            client.command("lookup_topic", topic=topic, request_id=number)
        answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
        assert (answer.request_id, answer.error) == (2, ServerError.TooManyRequests)
        broker.run(set_limit(1))
        client.command("lookup_topic", topic=topic, request_id=3)
        answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
        assert (answer.request_id, answer.error) == (3, ServerError.TooManyRequests)

        async def finish() -> None:
            world.go_on.set()

        broker.run(finish())
        answers = [client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response for _ in range(2)]
        assert sorted(each.request_id for each in answers) == [0, 1]


def test_a_lookup_that_fails_takes_nothing_of_the_limit(topic: str) -> None:
    class Failing(Everything):
        async def lookup(self, topic: TopicName, *, authoritative: bool = False) -> LookupConnect:
            raise BrokerError(ServerError.ServiceNotReady, "no broker may own it now")

    config = ConnectionConfig(lookups_max=1)
    with (
        OneBroker(config=config, world=Failing()) as broker,
        RawClient(broker.service_url) as client,
    ):
        client.connect()
        for number in range(3):
            client.command("lookup_topic", topic=topic, request_id=number)
            answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
            assert (answer.request_id, answer.error) == (number, ServerError.ServiceNotReady)
