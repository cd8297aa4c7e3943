"""The beginning and the end of a connection: CONNECT, keep-alive, and clients that misbehave."""

import logging
import time
from collections.abc import Callable

import pytest

from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.broker.connection.raw_client import RawClient
from tests.broker.connection.unwired import UnwiredClient
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.waiting import WITHIN_S
from tests.wire import frames
from tests.wire.frames import Type

Dial = Callable[[], RawClient]
CONNECT = {"client_version": "unwired", "protocol_version": 21}


@pytest.mark.parametrize(("asked", "agreed"), [(21, 21), (19, 19), (99, 21)])
def test_connected(dial: Dial, asked: int, agreed: int) -> None:
    connected = dial().connect(asked).connected
    assert connected.server_version == "Pulsar Server4.0.7"
    assert connected.protocol_version == agreed
    assert connected.max_message_size == 5 * 1024 * 1024
    flags = connected.feature_flags
    assert flags.supports_topic_watchers
    assert flags.supports_get_partitioned_metadata_without_auto_creation
    assert flags.supports_repl_dedup_by_lid_and_eid
    assert not flags.HasField("supports_auth_refresh")
    assert not flags.HasField("supports_broker_entry_metadata")
    assert not flags.HasField("supports_partial_producer")


def test_ping_is_answered_even_before_connect(dial: Dial) -> None:
    client = dial()
    client.ping()
    client.connect()
    client.ping()


BROKEN = {
    "oversized": b"\x7f\xff\xff\xff",
    "command beyond its frame": b"\0\0\0\x08\0\0\0\x09\x08\x12\x92\x01",
    "noise": b"GET / HTTP/1.1\r\n\r\n",
    "no type": frames.frame(BaseCommand()),
    "a broker's command": frames.frame(BaseCommand(type=Type.SUCCESS, success={"request_id": 1})),
    "a second CONNECT": frames.connect(),
    "SEND without PRODUCER": frames.send(5, 0),
    "SEND with a torn entry": frames.send(0, 0, b"\x0e\x01\0\0\0\0\0\0\x01\0"),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_frame_closes_its_connection_and_harms_no_other(
    dial: Dial, topic: str, broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "counterpoise.broker")
    bad, good = dial(), dial()
    for client in (bad, good):
        client.connect()
    bad.produce(f"{topic}-bad")
    good.produce(topic)
    good.subscribe(topic)
    good.command("flow", consumer_id=0, message_permits=10)
    # What came before the broken frame is served: the message is stored.
    bad.send(frames.send(0, 0) + broken)
    while not bad.closed(otherwise=Type.SEND_RECEIPT):
        pass
    for number in range(5):
        good.send(frames.send(0, number))
    got = [good.receive().type for _ in range(10)]
    assert sorted(got) == [Type.SEND_RECEIPT] * 5 + [Type.MESSAGE] * 5
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "Closing the connection of /127.0.0.1:" in record.getMessage()
    assert "of the stream)" in record.getMessage()


def test_a_name_is_free_again_when_its_connection_is_gone(dial: Dial, topic: str) -> None:
    first = dial()
    first.connect()
    first.produce(topic, producer_name="mine")
    first.close()
    second = dial()
    second.connect()
    deadline = time.monotonic() + WITHIN_S
    while True:
        second.command("producer", topic=topic, producer_id=1, request_id=1, producer_name="mine")
        if second.receive().type == Type.PRODUCER_SUCCESS:
            return
        assert time.monotonic() < deadline


def test_transactions_are_refused_not_left_hanging(client: RawClient) -> None:
    client.command("tc_client_connect_request", request_id=7, tc_id=0)
    error = client.receive(Type.ERROR).error
    assert (error.request_id, error.error) == (7, 22)
    client.command("new_txn", request_id=8)
    assert client.receive(Type.ERROR).error.request_id == 8
    client.produce("persistent://t/n/in-a-transaction")
    of = {"txnid_most_bits": 0, "txnid_least_bits": 1}
    client.send(frames.send(0, 3, frames.entry(b"a", sequence_id=3, **of), **of))
    error = client.receive(Type.SEND_ERROR).send_error
    assert (error.producer_id, error.sequence_id) == (0, 3)
    assert error.error == ServerError.NotAllowedError


class TestKeepAlive:
    """Who is heard stays; who is silent, or never says CONNECT, goes."""

    @on_jumping_loop
    async def test_a_client_that_answers_stays(self) -> None:
        async with UnwiredClient() as client:
            client.say("connect", **CONNECT)
            await pass_time(1)
            assert client.heard() == [Type.CONNECTED]
            for _ in range(3):
                await pass_time(30)
                assert client.heard() == [Type.PING]
                client.say("pong")
            assert not client.is_disconnected

    @on_jumping_loop
    async def test_a_silent_client_is_disconnected(self, caplog: pytest.LogCaptureFixture) -> None:
        async with UnwiredClient() as client:
            client.say("connect", **CONNECT)
            await pass_time(59)
            assert client.heard() == [Type.CONNECTED, Type.PING]
            assert not client.is_disconnected
            await pass_time(1)
            assert client.is_disconnected
        assert "silent for 30 s after a ping" in caplog.text

    @on_jumping_loop
    async def test_a_client_that_never_connects_is_disconnected(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with UnwiredClient() as client:
            await pass_time(29)
            assert not client.is_disconnected
            await pass_time(1)
            assert client.is_disconnected
        assert "no CONNECT within 30 s" in caplog.text
