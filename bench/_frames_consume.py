"""A consumer that costs little: a backlog is read by frames, acknowledged as official clients do.

Messages are published beforehand. The clock runs from the first permits to the last message, and
the broker's own counter has to agree. The same code runs against ours and against Apache Pulsar;
it prints one JSON object.
"""

import argparse
import json
import time
import uuid
from collections import defaultdict

from bench._admin import call
from bench._frames import BATCH, FrameClient, FrameConnection, framed, sends
from bench._processes import cpu_seconds
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.commands_pb2 import CommandAck, CommandSubscribe

QUEUE = 1_000
"""Permits of a consumer that has nothing: the official clients' receiver queue."""
KEYS = 1_000
CHUNK = 20_000
"""SENDs that are made at a time, so that a backlog needs little memory here."""
UNANSWERED = {1: 5_000, BATCH: 20}

_Type = BaseCommand.Type
KINDS = {
    "exclusive": CommandSubscribe.Exclusive,
    "shared": CommandSubscribe.Shared,
    "failover": CommandSubscribe.Failover,
    "key-shared": CommandSubscribe.Key_Shared,
}
ACKS = {"individual": CommandAck.Individual, "cumulative": CommandAck.Cumulative}


class ConsumingConnection(FrameConnection):
    """One connection with any number of consumers of one subscription, or of one each."""

    unasked = frozenset({_Type.ACTIVE_CONSUMER_CHANGE})
    first_after_s = 0.0
    """Of the last `read`: seconds until the first entry came."""

    def __init__(
        self,
        url: str,
        topic: str,
        kind: str,
        consumers: int,
        *,
        subscriptions: int = 1,
        name: str = "s",
        compacted: bool = False,
    ) -> None:
        super().__init__(url)
        self._consumers = consumers * subscriptions
        self.look_up(topic)
        for number in range(self._consumers):
            fields = {
                "topic": topic,
                "read_compacted": compacted,
                "subscription": f"{name}{number % subscriptions}",
                "sub_type": KINDS[kind],
                "consumer_id": number,
                "request_id": number + 1,
                "initial_position": CommandSubscribe.Earliest,
            }
            self._ask(BaseCommand(type=_Type.SUBSCRIBE, subscribe=fields), _Type.SUCCESS)

    def read(self, entries: int, batch: int, acks: str) -> float:
        """Take so many entries and acknowledge them, if ``acks`` says how; seconds until the last
        one came.
        """
        permits = max(QUEUE, 4 * batch)
        used: dict[int, int] = defaultdict(int)
        began = time.perf_counter()
        self._socket.sendall(b"".join(_flow(each, permits) for each in range(self._consumers)))
        taken = 0
        while taken < entries:
            found = self._arrived()
            if not found:
                continue
            if not taken:
                self.first_after_s = time.perf_counter() - began
            answers = []
            for consumer, ids in found.items():
                taken += len(ids)
                used[consumer] += len(ids) * batch
                if acks:
                    answers.append(_ack(consumer, ids if acks == "individual" else ids[-1:], acks))
                if used[consumer] >= permits // 2:
                    answers.append(_flow(consumer, used.pop(consumer)))
            self._socket.sendall(b"".join(answers))
        return time.perf_counter() - began

    def have_redelivered(self) -> None:
        """Ask for all that is not acknowledged again."""
        asked = [{"consumer_id": number, "message_ids": []} for number in range(self._consumers)]
        kind = _Type.REDELIVER_UNACKNOWLEDGED_MESSAGES
        self._socket.sendall(
            b"".join(
                framed(BaseCommand(type=kind, redeliver_unacknowledged_messages=each))
                for each in asked
            )
        )

    def _arrived(self) -> dict[int, list[tuple[int, int]]]:
        """The ids of the entries that one read of the socket completes, by consumer."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for command in self._read_once():
            if command.type == _Type.MESSAGE:
                message = command.message
                position = message.message_id
                found[message.consumer_id].append((position.ledger_id, position.entry_id))
            elif command.type == _Type.PING:
                self._socket.sendall(framed(BaseCommand(type=_Type.PONG, pong={})))
            elif command.type != _Type.ACTIVE_CONSUMER_CHANGE:
                raise SystemExit(f"instead of a message came {command!r}")
        return found


def _flow(consumer: int, permits: int) -> bytes:
    return framed(
        BaseCommand(type=_Type.FLOW, flow={"consumer_id": consumer, "message_permits": permits})
    )


def _ack(consumer: int, ids: list[tuple[int, int]], kind: str) -> bytes:
    named = [{"ledger_id": ledger, "entry_id": entry} for ledger, entry in ids]
    ack = {"consumer_id": consumer, "ack_type": ACKS[kind], "message_id": named}
    return framed(BaseCommand(type=_Type.ACK, ack=ack))


def fill(url: str, topic: str, messages: int, batch: int, keys: int, deliver_at_ms: int = 0) -> int:
    """Publish a backlog; gives its entries."""
    client = FrameClient(url, topic)
    for first in range(0, messages, CHUNK * batch):
        count = min(CHUNK, (messages - first) // batch)
        made = sends(first, count, batch=batch, keys=keys, deliver_at_ms=deliver_at_ms)
        client.publish(made, UNANSWERED[batch])
    client.close()
    return messages // batch


def backlog(url: str, admin_url: str, args: argparse.Namespace) -> dict[str, float]:
    """From the first permits to the last message: messages a second, and the microseconds of
    processor time that the broker took for each.
    """
    name = f"public/default/backlog-{uuid.uuid4().hex[:8]}"
    topic, batch = f"persistent://{name}", BATCH if args.batched else 1
    keys = KEYS if args.kind == "key-shared" else 0
    entries = fill(url, topic, args.messages, batch, keys)
    consumers = ConsumingConnection(
        url, topic, args.kind, args.consumers, subscriptions=args.subscriptions
    )
    if args.redelivered:
        consumers.read(entries, batch, "")
        consumers.have_redelivered()
    before = cpu_seconds(args.pid)
    seconds = consumers.read(entries * args.subscriptions, batch, args.acks)
    cpu = cpu_seconds(args.pid) - before
    sent = call("GET", f"{admin_url}/admin/v2/persistent/{name}/stats")["msgOutCounter"]
    consumers.close()
    wanted = entries * batch * args.subscriptions
    if sent < wanted:
        raise SystemExit(f"{wanted} messages were to be delivered, {sent} were")
    return {"messages_per_second": wanted / seconds, "cpu_us": cpu / wanted * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--admin-url", required=True)
    parser.add_argument("--pid", type=int, required=True, help="the broker's, or its parent's")
    parser.add_argument("--kind", choices=sorted(KINDS), default="exclusive")
    parser.add_argument("--acks", choices=sorted(ACKS), default="individual")
    parser.add_argument("--consumers", type=int, default=1)
    parser.add_argument("--subscriptions", type=int, default=1)
    parser.add_argument("--batched", action="store_true")
    parser.add_argument("--redelivered", action="store_true", help="read it once before")
    parser.add_argument("--messages", type=int, default=100_000)
    args = parser.parse_args()
    print(json.dumps(backlog(args.url, args.admin_url, args)))


if __name__ == "__main__":
    main()
