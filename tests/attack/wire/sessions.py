"""What clients say when all is well: commands by template, for a mutation to begin with."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from counterpoise.wire.entry import build
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata

Type = BaseCommand.Type
#: A command and the entry behind it.
Said = tuple[BaseCommand, bytes]

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
    return BaseCommand(
        type=Type.CONNECT, connect={"client_version": "attacker", "protocol_version": 21}
    )


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
    return BaseCommand(
        type=Type.PRODUCER,
        producer={
            "topic": topic,
            "producer_id": number,
            "request_id": rng.randrange(1 << 20),
            "producer_name": name,
            "epoch": rng.randrange(3),
        },
    )


def _subscribe(
    rng: random.Random, number: int, subscription: str, topic: str, kind: int
) -> BaseCommand:
    command = BaseCommand(
        type=Type.SUBSCRIBE,
        subscribe={
            "topic": topic,
            "subscription": subscription,
            "sub_type": kind,
            "consumer_id": number,
            "request_id": rng.randrange(1 << 20),
            "durable": rng.random() < 0.5,
            "initial_position": rng.randrange(2),
        },
    )
    if kind == 3 and rng.random() < 0.3:
        start = rng.randrange(60000)
        command.subscribe.key_shared_meta.key_shared_mode = 1  # type: ignore[assignment]
        command.subscribe.key_shared_meta.hash_ranges.add(start=start, end=start + 100)
    return command


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
    return BaseCommand(type=Type.SEND, send=send), build(metadata, payload)


def _id(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {"ledger_id": rng.randrange(3), "entry_id": rng.randrange(200)}
    if rng.random() < 0.2:
        found["ack_set"] = [rng.getrandbits(63) for _ in range(rng.randrange(3))]
    return found


def _schema(rng: random.Random) -> dict[str, Any]:
    return {"name": "R", "schema_data": AVRO, "type": rng.choice((0, 1, 2, 4))}


def _with_consumer(kind: int, field: str, more: Callable[[random.Random], dict[str, Any]]):  # type: ignore[no-untyped-def]
    def make(rng: random.Random) -> Said:
        values = {"consumer_id": rng.randrange(PEERS), **more(rng)}
        return BaseCommand(type=kind, **{field: values}), b""

    return make


def _asking(kind: int, field: str, more: Callable[[random.Random], dict[str, Any]]):  # type: ignore[no-untyped-def]
    def make(rng: random.Random) -> Said:
        values = {"request_id": rng.randrange(1 << 20), **more(rng)}
        return BaseCommand(type=kind, **{field: values}), b""

    return make


def _plain(kind: int, field: str):  # type: ignore[no-untyped-def]
    return lambda _: (BaseCommand(type=kind, **{field: {}}), b"")


def _reopened(rng: random.Random) -> Said:
    number = rng.randrange(PEERS)
    if rng.random() < 0.5:
        return _producer(rng, number, f"again-{rng.randrange(5)}", rng.choice(TOPICS)), b""
    name = rng.choice(SUBSCRIPTIONS)
    return _subscribe(rng, number, name, rng.choice(TOPICS), rng.randrange(4)), b""


def _request(rng: random.Random) -> dict[str, Any]:
    return {"consumer_id": rng.randrange(PEERS), "request_id": rng.randrange(1 << 20)}


_TOPIC: Callable[[random.Random], dict[str, Any]] = lambda rng: {"topic": rng.choice(TOPICS)}  # noqa: E731
_NAMESPACE = {"namespace": "public/default"}

#: Each kind of command, and how often it is said beside the others.
TEMPLATES: list[tuple[float, Callable[[random.Random], Said]]] = [
    (30, _send),
    (4, _plain(Type.PING, "ping")),
    (2, _plain(Type.PONG, "pong")),
    (8, _with_consumer(Type.FLOW, "flow", lambda rng: {"message_permits": 1 + rng.randrange(100)})),
    (
        12,
        _with_consumer(
            Type.ACK,
            "ack",
            lambda rng: {
                "ack_type": rng.randrange(2),
                "message_id": [_id(rng) for _ in range(rng.randrange(4))],
            },
        ),
    ),
    (
        3,
        _with_consumer(
            Type.REDELIVER_UNACKNOWLEDGED_MESSAGES,
            "redeliver_unacknowledged_messages",
            lambda rng: {"message_ids": [_id(rng) for _ in range(rng.randrange(3))]},
        ),
    ),
    (3, _asking(Type.LOOKUP, "lookup_topic", _TOPIC)),
    (3, _asking(Type.PARTITIONED_METADATA, "partition_metadata", _TOPIC)),
    (
        1,
        _asking(
            Type.GET_TOPICS_OF_NAMESPACE,
            "get_topics_of_namespace",
            lambda rng: {**_NAMESPACE, "mode": rng.randrange(3), "topics_pattern": ".*"},
        ),
    ),
    (
        1,
        _asking(
            Type.WATCH_TOPIC_LIST,
            "watch_topic_list",
            lambda rng: {
                **_NAMESPACE,
                "watcher_id": rng.randrange(3),
                "topics_pattern": "public/default/a.*",
            },
        ),
    ),
    (
        1,
        _asking(
            Type.WATCH_TOPIC_LIST_CLOSE,
            "watch_topic_list_close",
            lambda rng: {"watcher_id": rng.randrange(3)},
        ),
    ),
    (3, _reopened),
    (
        0.1,
        _asking(
            Type.CLOSE_PRODUCER,
            "close_producer",
            lambda rng: {"producer_id": rng.randrange(PEERS)},
        ),
    ),
    (1, _asking(Type.CLOSE_CONSUMER, "close_consumer", _request)),
    (1, _asking(Type.UNSUBSCRIBE, "unsubscribe", _request)),
    (2, _asking(Type.CONSUMER_STATS, "consumer_stats", _request)),
    (2, _asking(Type.GET_LAST_MESSAGE_ID, "get_last_message_id", _request)),
    (
        2,
        _asking(
            Type.SEEK,
            "seek",
            lambda rng: {
                **_request(rng),
                **({"message_id": _id(rng)} if rng.random() < 0.5 else {"message_publish_time": 9}),
            },
        ),
    ),
    (1, _asking(Type.GET_SCHEMA, "get_schema", _TOPIC)),
    (
        1,
        _asking(
            Type.GET_OR_CREATE_SCHEMA,
            "get_or_create_schema",
            lambda rng: {**_TOPIC(rng), "schema": _schema(rng)},
        ),
    ),
    (
        1,
        _asking(
            Type.TC_CLIENT_CONNECT_REQUEST, "tc_client_connect_request", lambda _: {"tc_id": 0}
        ),
    ),
    (1, _asking(Type.NEW_TXN, "new_txn", lambda _: {})),
]
_MAKERS = [make for _, make in TEMPLATES]
_WEIGHTS = [weight for weight, _ in TEMPLATES]


def something(rng: random.Random) -> Said:
    """Say anything that a connected client may say."""
    (make,) = rng.choices(_MAKERS, _WEIGHTS)
    return make(rng)
