"""Every number of every command at its extremes: it is served, refused, or ends its connection.

Whatever it does to the client that sent it, the next one publishes to the topic and consumes from
it, and nothing that a client said becomes a traceback.
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from counterpoise.wire.decode import READERS
from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.wire import frames
from tests.wire.frames import Type

EXTREMES = {
    FieldDescriptor.TYPE_INT32: (-(1 << 31), -1, (1 << 31) - 1),
    FieldDescriptor.TYPE_UINT32: (0, 1 << 31, (1 << 32) - 1),
    FieldDescriptor.TYPE_INT64: (-(1 << 63), -1, (1 << 63) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
}
NAMES = ("request_id", "producer_id", "consumer_id", "watcher_id")
"""Numbers that mean whatever they say."""
LEFT_OUT = ("schema", "first_chunk_message_id")
INSTEAD_OF = {
    "message_publish_time": "message_id",
    "start_message_rollback_duration_sec": "start_message_id",
}
"""A number that counts where something else is not said."""
VARIED = (
    Type.PRODUCER,
    Type.SUBSCRIBE,
    Type.FLOW,
    Type.ACK,
    Type.SEEK,
    Type.REDELIVER_UNACKNOWLEDGED_MESSAGES,
)
"""What is tried with each type of subscription, or each access mode."""
PUBLISHER, CONSUMER, NEWCOMER = 0, 1, 90


def fill(message: Any, topic: str) -> None:
    """Set what a client sets."""
    for field in message.DESCRIPTOR.fields:
        name = field.name
        if name in LEFT_OUT:
            continue
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            inner = getattr(message, name)
            if not field.is_repeated:
                inner.SetInParent()
            fill(inner.add() if field.is_repeated else inner, topic)
        elif field.is_required:
            if field.type == FieldDescriptor.TYPE_STRING:
                known = {"topic": topic, "namespace": "public/default"}
                setattr(message, name, known.get(name, "another"))
            elif field.type in EXTREMES:
                known_numbers = {"consumer_id": CONSUMER, "producer_id": PUBLISHER}
                setattr(message, name, known_numbers.get(name, 7))


def numbers(message: Any) -> Iterator[tuple[Any, FieldDescriptor]]:
    """The numbers in a message and in those inside it."""
    for field in message.DESCRIPTOR.fields:
        if field.type in EXTREMES and field.name not in NAMES:
            yield message, field
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            inner = getattr(message, field.name)
            if field.is_repeated or message.HasField(field.name):
                yield from numbers(inner[0] if field.is_repeated else inner)


def extremes(kind: int, variety: int, topic: str) -> Iterator[tuple[str, BaseCommand]]:
    """The command with one number at an extreme, and all the rest as a client has it.

    ``variety``: of subscription or of access, where it has one.
    """
    name, _ = READERS[kind]
    at = 0
    while True:
        command = BaseCommand(type=kind)
        request = getattr(command, name)
        request.SetInParent()
        fill(request, topic)
        if kind == Type.SUBSCRIBE:
            request.sub_type, request.consumer_id = variety, NEWCOMER
            request.durable = variety > 0
        if kind == Type.PRODUCER:
            request.producer_access_mode, request.producer_id = variety, NEWCOMER
        if kind == Type.ACK:
            request.ack_type = variety % 2
        whole = [
            (message, field, value)
            for message, field in numbers(request)
            for value in EXTREMES[field.type]
        ]
        if at == len(whole):
            return
        message, field, value = whole[at]
        if field.name in INSTEAD_OF:
            request.ClearField(INSTEAD_OF[field.name])
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
        at += 1
        yield f"{field.name} = {value}", command


def say(url: str, topic: str, subscription_type: int, command: BaseCommand) -> None:
    """Publish, consume, say it, and wait until it is served, or the connection ends."""
    with RawClient(url) as client:
        client.connect()
        client.produce(topic, PUBLISHER)
        for number in range(3):
            client.send(frames.send(PUBLISHER, number))
            client.receive(Type.SEND_RECEIPT)
        client.subscribe(topic, CONSUMER, sub_type=subscription_type, initial_position=1)
        client.command("flow", consumer_id=CONSUMER, message_permits=2)
        while client.receive().type != Type.MESSAGE:
            pass
        if command.type == Type.PRODUCER:
            client.command("close_producer", producer_id=PUBLISHER, request_id=1)
        client.send(frames.frame(command, frames.entry() if command.type == Type.SEND else b""))
        client.command("ping")
        with contextlib.suppress(ConnectionError):
            while client.receive().type != Type.PONG:
                pass


def works(url: str, topic: str, access: int) -> bool:
    """Whether a newcomer's messages are stored, and delivered to it."""
    with RawClient(url) as client:
        client.connect()
        client.produce(topic, producer_access_mode=access)
        client.send(frames.send(PUBLISHER, 1, frames.entry(b"still")))
        client.receive(Type.SEND_RECEIPT)
        client.subscribe(topic, name="newcomer", initial_position=1)
        client.command("flow", consumer_id=0, message_permits=1000)
        while True:
            command, entry = client.receive_with_entry()
            if command.type == Type.MESSAGE and entry.endswith(b"still"):
                return True


@pytest.mark.parametrize(
    ("kind", "variety"),
    [(kind, variety) for kind in READERS for variety in range(4 if kind in VARIED else 1)],
    ids=lambda value: Type.Name(value) if value > 3 else str(value),
)
def test_an_extreme_number_harms_no_other_client(
    broker: OneBroker, caplog: pytest.LogCaptureFixture, topic: str, kind: int, variety: int
) -> None:
    caplog.set_level(logging.WARNING)
    for number, (what, command) in enumerate(extremes(kind, variety, topic)):
        own = f"{topic}-{number}"
        request = getattr(command, READERS[kind][0])
        if "topic" in request.DESCRIPTOR.fields_by_name:
            request.topic = own
        say(broker.service_url, own, variety, command)
        assert works(broker.service_url, own, variety if kind == Type.PRODUCER else 0), what
        failed = [record for record in caplog.records if record.exc_info]
        assert not failed, f"{what}: {failed[0].getMessage()}"
