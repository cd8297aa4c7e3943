"""A client that costs next to nothing: SEND frames made beforehand, receipts counted.

With the official client in Python or C++ on a small machine, most of what is measured is the
client. Here the frames are ready before the clock starts, so the time is the broker's. The same
code runs against ours and against Apache Pulsar; it prints one JSON object.
"""

import argparse
import json
import select
import socket
import ssl
import struct
import time
import uuid
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from bench._admin import call
from counterpoise.wire.constants import PROTOCOL_VERSION
from counterpoise.wire.entry import build
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata, SingleMessageMetadata

PAYLOAD = b"x" * 100
BATCH = 1_000
"""Messages in a batch: the official clients' limit."""
UNANSWERED_BATCHES, UNANSWERED_MESSAGES = 20, 5_000
"""SENDs under way, as `_client` lets its producers have."""

_Type = BaseCommand.Type
_SIZES = struct.Struct(">II")
_RECEIPT = bytes((0x08, _Type.SEND_RECEIPT))


def framed(command: BaseCommand, entry: bytes = b"") -> bytes:
    """A frame as a client writes it."""
    body = command.SerializeToString()
    return _SIZES.pack(len(body) + 4 + len(entry), len(body)) + body + entry


class Sends(NamedTuple):
    """SEND frames one after the other, and where each begins (and the last one ends)."""

    data: memoryview
    at: list[int]


def sends(
    first: int,
    count: int,
    *,
    batch: int,
    producer_id: int = 0,
    content: bytes = PAYLOAD,
    keys: int = 0,
    deliver_at_ms: int = 0,
) -> Sends:
    """``count`` SENDs of ``batch`` messages each, with sequence ids from ``first`` on.

    With ``keys`` their partition keys are so many different ones, in turn; with ``deliver_at_ms``
    they are due then.
    """
    now = int(time.time() * 1000)
    data, at = bytearray(), [0]
    for sequence_id in range(first, first + count * batch, batch):
        metadata = MessageMetadata(
            producer_name="frames", sequence_id=sequence_id, publish_time=now
        )
        send = {"producer_id": producer_id, "sequence_id": sequence_id}
        payload = content
        if deliver_at_ms:
            metadata.deliver_at_time = deliver_at_ms
        if keys:
            metadata.partition_key = f"key-{sequence_id % keys}"
        if batch > 1:
            send |= {"num_messages": batch, "highest_sequence_id": sequence_id + batch - 1}
            metadata.num_messages_in_batch = batch
            metadata.highest_sequence_id = sequence_id + batch - 1
            single = SingleMessageMetadata(payload_size=len(content)).SerializeToString()
            payload = (struct.pack(">I", len(single)) + single + content) * batch
        data += framed(BaseCommand(type=_Type.SEND, send=send), build(metadata, payload))
        at.append(len(data))
    return Sends(memoryview(data), at)


class FrameConnection:
    """One connection; what is asked is answered before anything else is sent."""

    unasked: frozenset[int] = frozenset()
    """Commands that may come from the broker before an answer."""

    def __init__(self, url: str, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        where = urlsplit(url)
        self._socket = socket.create_connection((where.hostname, where.port), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=where.hostname)
        self._received = b""
        connect = {"client_version": "frames", "protocol_version": PROTOCOL_VERSION}
        if token:
            connect |= {"auth_method_name": "token", "auth_data": token.encode()}
        self._ask(BaseCommand(type=_Type.CONNECT, connect=connect), _Type.CONNECTED)

    def look_up(self, topic: str, request_id: int = 0) -> None:
        """Look a topic up, which must be this broker's."""
        lookup = {"topic": topic, "request_id": request_id}
        self._ask(BaseCommand(type=_Type.LOOKUP, lookup_topic=lookup), _Type.LOOKUP_RESPONSE)

    def _ask(self, command: BaseCommand, answer: int) -> None:
        self._socket.sendall(framed(command))
        for found in self._frames():
            if found.type == answer:
                return
            if found.type == _Type.PING:
                self._socket.sendall(framed(BaseCommand(type=_Type.PONG, pong={})))
            elif found.type not in self.unasked:
                raise SystemExit(f"{_Type.Name(command.type)} was answered with {found!r}")

    def _frames(self) -> Iterator[BaseCommand]:
        """The commands that have come, and then those that come."""
        while True:
            yield from self._complete()
            self._read()

    def _read_once(self) -> list[BaseCommand]:
        """The commands that one read of the socket completes."""
        self._read()
        return list(self._complete())

    def _read(self) -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise SystemExit("the broker closed the connection")
        self._received += data

    def _complete(self) -> Iterator[BaseCommand]:
        """The commands whose frames are complete; what is not taken stays."""
        data, at = self._received, 0
        try:
            while len(data) - at >= 8:
                total, size = _SIZES.unpack_from(data, at)
                if len(data) - at < 4 + total:
                    break
                begin, at = at + 8, at + 4 + total
                yield BaseCommand.FromString(data[begin : begin + size])
        finally:
            self._received = data[at:]

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class FrameClient(FrameConnection):
    """One connection with one producer."""

    def __init__(self, url: str, topic: str, token: str = "") -> None:
        super().__init__(url, token)
        self.open_producer(topic, 0)

    def open_producer(self, topic: str, producer_id: int) -> None:
        """Look a topic up, which must be this broker's, and publish to it from now on."""
        base = 3 * producer_id
        partitions = {"topic": topic, "request_id": base}
        self._ask(
            BaseCommand(type=_Type.PARTITIONED_METADATA, partition_metadata=partitions),
            _Type.PARTITIONED_METADATA_RESPONSE,
        )
        self.look_up(topic, base + 1)
        producer = {"topic": topic, "producer_id": producer_id, "request_id": base + 2}
        self._ask(BaseCommand(type=_Type.PRODUCER, producer=producer), _Type.PRODUCER_SUCCESS)

    def publish(self, sends: Sends, unanswered: int) -> float:
        """Send all, never more than ``unanswered`` ahead of the receipts; seconds until the last.

        As a client with a full queue does, it goes on when half of them are answered.
        """
        conn = self._socket
        conn.setblocking(False)
        poll = select.poll()
        poll.register(conn, select.POLLIN | select.POLLOUT)
        data, at = sends
        sent, answered, count = 0, 0, len(at) - 1
        waiting = data[:0]
        began = time.perf_counter()
        while answered < count:
            if not waiting and sent - answered <= unanswered // 2:
                upto = min(count, answered + unanswered)
                waiting, sent = data[at[sent] : at[upto]], upto
            poll.modify(conn, select.POLLIN | (select.POLLOUT if waiting else 0))
            for _, ready in poll.poll(30_000) or self._silent(answered, sent):
                if ready & select.POLLIN:
                    answered += self._receipts(conn.recv(1 << 18))
                if ready & select.POLLOUT:
                    waiting = waiting[conn.send(waiting) :]
        seconds = time.perf_counter() - began
        conn.setblocking(True)
        return seconds

    def _silent(self, answered: int, sent: int) -> list[tuple[int, int]]:
        raise SystemExit(f"nothing came for 30 s; {answered} of {sent} SENDs were answered")

    def _receipts(self, data: bytes) -> int:
        """Count the receipts that ``data`` completes; anything else must be a PING."""
        if not data:
            raise SystemExit("the broker closed the connection")
        data = self._received + data
        at, last, count = 0, len(data) - 10, 0
        unpack, receipt = _SIZES.unpack_from, _RECEIPT
        while at <= last:
            total, size = unpack(data, at)
            if at + 4 + total > len(data):
                break
            if data[at + 8 : at + 10] == receipt:
                count += 1
            else:
                command = BaseCommand.FromString(data[at + 8 : at + 8 + size])
                if command.type != _Type.PING:
                    raise SystemExit(f"a SEND was answered with {command!r}")
                self._socket.send(framed(BaseCommand(type=_Type.PONG, pong={})))
            at += 4 + total
        self._received = data[at:]
        return count


def throughput(url: str, admin_url: str, *, batched: bool, messages: int) -> dict[str, float]:
    """Messages a second until the last receipt; the broker's own counter must agree."""
    topic = f"public/default/frames-{uuid.uuid4().hex[:8]}"
    batch, unanswered = (BATCH, UNANSWERED_BATCHES) if batched else (1, UNANSWERED_MESSAGES)
    count = messages // batch
    rounds = [sends(first, count, batch=batch) for first in (0, messages)]
    client = FrameClient(url, f"persistent://{topic}")
    # As many again to begin with: Java compiles, both grow their memory.
    _, seconds = [client.publish(each, unanswered) for each in rounds]
    arrived = call("GET", f"{admin_url}/admin/v2/persistent/{topic}/stats")["msgInCounter"]
    client.close()
    sent = len(rounds) * count * batch
    if arrived != sent:
        raise SystemExit(f"{sent} messages were sent, {arrived} have arrived")
    return {"messages_per_second": count * batch / seconds}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--admin-url", required=True)
    parser.add_argument("--batched", action="store_true")
    parser.add_argument("--messages", type=int, default=100_000)
    args = parser.parse_args()
    result = throughput(args.url, args.admin_url, batched=args.batched, messages=args.messages)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
