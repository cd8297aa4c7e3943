"""The cost of the hot frames, ours beside protobuf's general way, in one run."""

from collections.abc import Callable
from pathlib import Path
from unittest import mock

from bench._frames import framed
from bench.figures import Figure, median_seconds
from counterpoise.wire import encode_runs, protocol
from counterpoise.wire.entry import build
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import PeerChange

RUN = 500
"""Frames at a time, about what one read of a socket brings."""


def _publishing() -> ServerProtocol:
    server = ServerProtocol()
    connect = {"client_version": "bench", "protocol_version": 21}
    server.receive(framed(BaseCommand(type=BaseCommand.Type.CONNECT, connect=connect)))
    producer = {"topic": "t", "producer_id": 0, "request_id": 1}
    server.receive(framed(BaseCommand(type=BaseCommand.Type.PRODUCER, producer=producer)))
    server.change_producer(0, PeerChange.OPENED)
    subscribe = {
        "topic": "t",
        "subscription": "s",
        "sub_type": 1,
        "consumer_id": 0,
        "request_id": 2,
    }
    server.receive(framed(BaseCommand(type=BaseCommand.Type.SUBSCRIBE, subscribe=subscribe)))
    server.change_consumer(0, PeerChange.OPENED)
    return server


def _receipt(sequence_id: int) -> bytes:
    position = {"ledger_id": 77, "entry_id": sequence_id}
    receipt = {"producer_id": 3, "sequence_id": sequence_id, "message_id": position}
    return framed(BaseCommand(type=BaseCommand.Type.SEND_RECEIPT, send_receipt=receipt))


def _message(entry_id: int, entry: bytes) -> bytes:
    position = {"ledger_id": 77, "entry_id": entry_id}
    message = {"consumer_id": 3, "message_id": position}
    return framed(BaseCommand(type=BaseCommand.Type.MESSAGE, message=message), entry)


def _nanoseconds(work: Callable[[], object], rounds: int) -> float:
    """Median cost of one of the `RUN` frames of ``work``."""
    return median_seconds(work, rounds) / RUN * 1e9


def _beside(name: str, ours: float, general: float) -> Figure:
    bar = "half of protobuf's"
    return Figure(name, ours, "ns", "protobuf", general, bar, ours <= general / 2)


def _sends(entry: bytes, **counts: int) -> bytes:
    sends = [{"producer_id": 0, "sequence_id": 100_000 + i, **counts} for i in range(RUN)]
    return b"".join(framed(BaseCommand(type=BaseCommand.Type.SEND, send=s), entry) for s in sends)


def _read(name: str, server: ServerProtocol, sends: bytes, rounds: int) -> Figure:
    fast = _nanoseconds(lambda: server.receive(sends), rounds)
    with mock.patch.object(protocol, "decode_sends", lambda _data, begin, *_: begin):
        general = _nanoseconds(lambda: server.receive(sends), rounds)
    return _beside(name, fast, general)


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    rounds = 20 if quick else 100
    entry = build(MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), b"x" * 100)
    single, batch = _sends(entry), _sends(entry, num_messages=10, highest_sequence_id=200_000)
    ids = [{"ledger_id": 77, "entry_id": 100_000 + i} for i in range(RUN)]
    acks = framed(
        BaseCommand(
            type=BaseCommand.Type.ACK, ack={"consumer_id": 0, "ack_type": 0, "message_id": ids}
        )
    )
    server = _publishing()
    published = [(None, 100_000 + i, 0) for i in range(RUN)]
    deliveries = [(77, 100_000 + i, 0, entry, ()) for i in range(RUN)]
    return [
        _read("a SEND of 100 bytes, read and verified", server, single, rounds),
        _read("a SEND of a batch, read and verified", server, batch, rounds),
        _beside(
            "a SEND_RECEIPT, written",
            _nanoseconds(lambda: encode_runs.send_receipts(3, 77, 100_000, published), rounds),
            _nanoseconds(lambda: [_receipt(100_000 + i) for i in range(RUN)], rounds),
        ),
        _beside(
            "a MESSAGE of 100 bytes, written",
            _nanoseconds(
                lambda: b"".join(encode_runs.messages(3, -1, None, deliveries)[0]), rounds
            ),
            _nanoseconds(lambda: [_message(100_000 + i, entry) for i in range(RUN)], rounds),
        ),
        Figure(
            "an acknowledged entry, read", _nanoseconds(lambda: server.receive(acks), rounds), "ns"
        ),
    ]
