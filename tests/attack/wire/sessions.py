"""What clients say when all is well: commands by template, for a mutation to begin with."""

import random
from collections.abc import Callable
from typing import Any

from counterpoise.wire.entry import build
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from tests.wire.frames import command

Type = BaseCommand.Type
Said = tuple[BaseCommand, bytes]
"""A command and the entry behind it."""
Values = dict[str, Any]

TOPICS = [f"persistent://public/default/attacked-{n}" for n in range(4)] + [
    f"non-persistent://public/default/attacked-{n}" for n in range(2)
]
SUBSCRIPTIONS = ["s0", "s1", "s2"]
PEERS = 4
"""Producer and consumer ids from 0 that a session uses."""
READY = (Type.PRODUCER_SUCCESS, Type.SUCCESS, Type.ERROR)
"""What answers the commands of `opening`."""

AVRO = (
    b'{"type":"record","name":"R","fields":[{"name":"a","type":["null","int"],"default":null},'
    b'{"name":"r","type":["null","R"],"default":null}]}'
)


def connect() -> BaseCommand:
    """The first command."""
    return command("connect", client_version="attacker", protocol_version=21)


def opening(rng: random.Random, who: str) -> list[BaseCommand]:
    """Open some producers and consumers of each kind; ``who`` makes names unique."""
    said = [
        _producer(rng, number, f"{who}-{number}", TOPICS[(number * 3 + rng.randrange(2)) % 6])
        for number in range(PEERS)
    ]
    for number in range(PEERS):
        kind = rng.choice((1, 1, 3, number))
        name = f"{who}-{number}" if kind in (0, 2) else f"kind{kind}"
        said.append(_subscribe(rng, number, name, rng.choice(TOPICS), kind))
    return said


def _producer(rng: random.Random, number: int, name: str, topic: str) -> BaseCommand:
    return command(
        "producer",
        topic=topic,
        producer_id=number,
        request_id=rng.randrange(1 << 20),
        producer_name=name,
        epoch=rng.randrange(3),
    )


def _subscribe(
    rng: random.Random, number: int, subscription: str, topic: str, kind: int
) -> BaseCommand:
    said = command(
        "subscribe",
        topic=topic,
        subscription=subscription,
        sub_type=kind,
        consumer_id=number,
        request_id=rng.randrange(1 << 20),
        durable=rng.random() < 0.5,
        initial_position=rng.randrange(2),
    )
    if kind == 3 and rng.random() < 0.3:
        start = rng.randrange(60000)
        said.subscribe.key_shared_meta.key_shared_mode = 1  # type: ignore[assignment]
        said.subscribe.key_shared_meta.hash_ranges.add(start=start, end=start + 100)
    return said


def _send(rng: random.Random) -> Said:
    count = rng.choice((1, 1, 1, 5))
    metadata = MessageMetadata(
        producer_name="p", sequence_id=rng.randrange(1000), publish_time=1_700_000_000_000
    )
    payload = b"x" * rng.randrange(60)
    if count > 1:
        metadata.num_messages_in_batch = count
        payload = b"\0\0\0\2\x18\0" * count
    if rng.random() < 0.3:
        metadata.partition_key = f"k{rng.randrange(10)}"
        metadata.partition_key_b64_encoded = rng.random() < 0.1
    send: dict[str, Any] = {
        "producer_id": rng.randrange(PEERS),
        "sequence_id": rng.randrange(1 << 20),
    }
    if count > 1:
        send |= {"num_messages": count, "highest_sequence_id": send["sequence_id"] + count - 1}
    return command("send", **send), build(metadata, payload)


def _id(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {"ledger_id": rng.randrange(3), "entry_id": rng.randrange(200)}
    if rng.random() < 0.2:
        found["ack_set"] = [rng.getrandbits(63) for _ in range(rng.randrange(3))]
    return found


def _schema(rng: random.Random) -> dict[str, Any]:
    return {"name": "R", "schema_data": AVRO, "type": rng.choice((0, 1, 2, 4))}


def _reopened(rng: random.Random) -> Said:
    number = rng.randrange(PEERS)
    if rng.random() < 0.5:
        return _producer(rng, number, f"again-{rng.randrange(5)}", rng.choice(TOPICS)), b""
    name = rng.choice(SUBSCRIPTIONS)
    return _subscribe(rng, number, name, rng.choice(TOPICS), rng.randrange(4)), b""


def _topic(rng: random.Random) -> Values:
    return {"topic": rng.choice(TOPICS)}


def _consumer(rng: random.Random) -> Values:
    return {"consumer_id": rng.randrange(PEERS)}


def _ids(rng: random.Random, most: int) -> list[Values]:
    return [_id(rng) for _ in range(rng.randrange(most + 1))]


def _sought(rng: random.Random) -> Values:
    return {"message_id": _id(rng)} if rng.random() < 0.5 else {"message_publish_time": 9}


_NAMESPACE = {"namespace": "public/default"}

COMMANDS: list[tuple[float, str, Callable[[random.Random], Values]]] = [
    (4, "ping", lambda _: {}),
    (2, "pong", lambda _: {}),
    (8, "flow", lambda rng: _consumer(rng) | {"message_permits": 1 + rng.randrange(100)}),
    (
        12,
        "ack",
        lambda rng: _consumer(rng) | {"ack_type": rng.randrange(2), "message_id": _ids(rng, 3)},
    ),
    (
        3,
        "redeliver_unacknowledged_messages",
        lambda rng: _consumer(rng) | {"message_ids": _ids(rng, 2)},
    ),
    (3, "lookup_topic", _topic),
    (3, "partition_metadata", _topic),
    (
        1,
        "get_topics_of_namespace",
        lambda rng: _NAMESPACE | {"mode": rng.randrange(3), "topics_pattern": ".*"},
    ),
    (
        1,
        "watch_topic_list",
        lambda rng: (
            _NAMESPACE | {"watcher_id": rng.randrange(3), "topics_pattern": "public/default/a.*"}
        ),
    ),
    (1, "watch_topic_list_close", lambda rng: {"watcher_id": rng.randrange(3)}),
    (0.1, "close_producer", lambda rng: {"producer_id": rng.randrange(PEERS)}),
    (1, "close_consumer", _consumer),
    (1, "unsubscribe", _consumer),
    (2, "consumer_stats", _consumer),
    (2, "get_last_message_id", _consumer),
    (2, "seek", lambda rng: _consumer(rng) | _sought(rng)),
    (1, "get_schema", _topic),
    (1, "get_or_create_schema", lambda rng: _topic(rng) | {"schema": _schema(rng)}),
    (1, "tc_client_connect_request", lambda _: {"tc_id": 0}),
    (1, "new_txn", lambda _: {}),
]
"""Commands without an entry: how often each is said beside the others, and its fields; those that
ask have a request id."""


def _say(field: str, values: Callable[[random.Random], Values]) -> Callable[[random.Random], Said]:
    message = BaseCommand.DESCRIPTOR.fields_by_name[field].message_type
    asks = "request_id" in message.fields_by_name and field != "ack"

    def say(rng: random.Random) -> Said:
        asked = {"request_id": rng.randrange(1 << 20)} if asks else {}
        return command(field, **asked, **values(rng)), b""

    return say


_MAKERS = [_send, _reopened, *(_say(field, values) for _, field, values in COMMANDS)]
_WEIGHTS = [30, 3, *(weight for weight, _, _ in COMMANDS)]


def something(rng: random.Random) -> Said:
    """Say anything that a connected client may say."""
    (make,) = rng.choices(_MAKERS, _WEIGHTS)
    return make(rng)
