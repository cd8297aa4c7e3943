"""The client's end, for tests: commands to frames, and back."""

import struct

from counterpoise.wire.entry import build
from counterpoise.wire.events import Event
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import PeerChange

Type = BaseCommand.Type


def frame(command: BaseCommand, entry: bytes = b"") -> bytes:
    """Return a whole frame."""
    body = command.SerializePartialToString()
    return struct.pack(">II", len(body) + 4 + len(entry), len(body)) + body + entry


def parse(data: bytes) -> tuple[BaseCommand, bytes]:
    """Take one whole frame apart into its command and what follows it."""
    total, size = struct.unpack_from(">II", data)
    assert len(data) == total + 4
    return BaseCommand.FromString(data[8 : 8 + size]), data[8 + size :]


def entry(payload: bytes = b"payload", **metadata: object) -> bytes:
    """Return an entry as a client writes it; ``metadata`` overrides fields."""
    fields = {"producer_name": "p", "sequence_id": 0, "publish_time": 1, **metadata}
    return build(MessageMetadata(**fields), payload)


def command(field: str, **values: object) -> BaseCommand:
    """The command that has this field; the protocol numbers fields as the types of commands."""
    kind = BaseCommand.DESCRIPTOR.fields_by_name[field].number
    return BaseCommand(type=kind, **{field: values})


def connect() -> bytes:
    return frame(command("connect", client_version="c", protocol_version=21))


def producer(producer_id: int = 0, request_id: int = 1) -> bytes:
    return frame(command("producer", topic="t", producer_id=producer_id, request_id=request_id))


def subscribe(consumer_id: int = 0, request_id: int = 1) -> bytes:
    values = {"topic": "t", "subscription": "s", "sub_type": 1, "consumer_id": consumer_id}
    return frame(command("subscribe", **values, request_id=request_id))


def send(producer_id: int, sequence_id: int, body: bytes | None = None, **more: object) -> bytes:
    fields = {"producer_id": producer_id, "sequence_id": sequence_id, **more}
    return frame(BaseCommand(type=Type.SEND, send=fields), entry() if body is None else body)


def opened(producers: int = 3, consumers: int = 3) -> ServerProtocol:
    """Return a connection with so many producers and consumers ready, by ids from 0."""
    protocol = ServerProtocol()
    protocol.receive(connect())
    for number in range(producers):
        protocol.receive(producer(number))
        protocol.change_producer(number, PeerChange.OPENED)
    for number in range(consumers):
        protocol.receive(subscribe(number))
        protocol.change_consumer(number, PeerChange.OPENED)
    return protocol


def feed(protocol: ServerProtocol, *chunks: bytes) -> list[Event]:
    """Return everything that the chunks bring about."""
    return [event for chunk in chunks for event in protocol.receive(chunk)]
