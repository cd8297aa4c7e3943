"""What each command means, defaults included."""

import pytest
from hypothesis import given

from counterpoise.wire import events
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.values import (
    AccessMode,
    InitialPosition,
    KeyShared,
    MessageId,
    Schema,
    SubscriptionType,
    TopicsMode,
    TransactionId,
)
from tests.wire import frames
from tests.wire.strategies import client_frames

_TRANSACTION: dict[str, object] = {"txnid_most_bits": 3, "txnid_least_bits": 9}

CASES: list[tuple[str, dict[str, object], events.Event]] = [
    ("ping", {}, events.Ping()),
    ("pong", {}, events.Pong()),
    (
        "partition_metadata",
        {"topic": "t", "request_id": 5},
        events.PartitionedMetadata(5, "t", True),
    ),
    (
        "partition_metadata",
        {"topic": "t", "request_id": 5, "metadata_auto_creation_enabled": False},
        events.PartitionedMetadata(5, "t", False),
    ),
    ("lookup_topic", {"topic": "t", "request_id": 5}, events.Lookup(5, "t", False, None)),
    (
        "lookup_topic",
        {"topic": "t", "request_id": 5, "authoritative": True, "advertised_listener_name": "l"},
        events.Lookup(5, "t", True, "l"),
    ),
    (
        "get_topics_of_namespace",
        {"request_id": 5, "namespace": "a/b"},
        events.GetTopics(5, "a/b", TopicsMode.PERSISTENT, None, None),
    ),
    (
        "get_topics_of_namespace",
        {
            "request_id": 5,
            "namespace": "a/b",
            "mode": 2,
            "topics_pattern": ".*",
            "topics_hash": "h",
        },
        events.GetTopics(5, "a/b", TopicsMode.ALL, ".*", "h"),
    ),
    (
        "watch_topic_list",
        {"request_id": 5, "watcher_id": 6, "namespace": "a/b", "topics_pattern": ".*"},
        events.WatchTopics(5, 6, "a/b", ".*", None),
    ),
    ("watch_topic_list_close", {"request_id": 5, "watcher_id": 6}, events.CloseWatch(5, 6)),
    ("producer", {"topic": "t", "producer_id": 7, "request_id": 5}, events.OpenProducer(5, 7, "t")),
    (
        "producer",
        {
            "topic": "t",
            "producer_id": 7,
            "request_id": 5,
            "producer_name": "n",
            "user_provided_producer_name": False,
            "epoch": 3,
            "producer_access_mode": 2,
            "topic_epoch": 4,
            "encrypted": True,
            "metadata": [{"key": "k", "value": "v"}],
            "schema": {"name": "s", "schema_data": b"d", "type": 2},
            "txn_enabled": True,
            "initial_subscription_name": "i",
        },
        events.OpenProducer(
            5,
            7,
            "t",
            "n",
            False,
            3,
            AccessMode.WaitForExclusive,
            4,
            True,
            (("k", "v"),),
            Schema("s", b"d", 2),
            True,
            "i",
        ),
    ),
    ("close_producer", {"producer_id": 0, "request_id": 5}, events.CloseProducer(5, 0)),
    (
        "subscribe",
        {"topic": "t", "subscription": "s", "sub_type": 0, "consumer_id": 7, "request_id": 5},
        events.Subscribe(5, 7, "t", "s", SubscriptionType.Exclusive),
    ),
    (
        "subscribe",
        {
            "topic": "t",
            "subscription": "s",
            "sub_type": 3,
            "consumer_id": 7,
            "request_id": 5,
            "consumer_name": "c",
            "priority_level": 2,
            "durable": False,
            "start_message_id": {"ledger_id": (1 << 64) - 1, "entry_id": (1 << 64) - 1},
            "start_message_rollback_duration_sec": 60,
            "initial_position": 1,
            "read_compacted": True,
            "replicate_subscription_state": True,
            "force_topic_creation": False,
            "key_shared_meta": {
                "key_shared_mode": 1,
                "hash_ranges": [{"start": 0, "end": 9}],
                "allow_out_of_order_delivery": True,
            },
            "metadata": [{"key": "k", "value": "v"}],
            "subscription_properties": [{"key": "x", "value": "y"}],
            "schema": {"name": "s", "schema_data": b"d", "type": 2},
            "consumer_epoch": 8,
        },
        events.Subscribe(
            5,
            7,
            "t",
            "s",
            SubscriptionType.Key_Shared,
            "c",
            2,
            False,
            MessageId(-1, -1),
            60,
            InitialPosition.Earliest,
            True,
            True,
            False,
            KeyShared(True, ((0, 9),), True),
            (("k", "v"),),
            (("x", "y"),),
            Schema("s", b"d", 2),
            8,
        ),
    ),
    ("flow", {"consumer_id": 0, "message_permits": 9}, events.Flow(0, 9)),
    (
        "ack",
        {"consumer_id": 0, "ack_type": 0, "message_id": [{"ledger_id": 1, "entry_id": 2}]},
        events.Ack(0, False, ((1, 2, ()),)),
    ),
    (
        "ack",
        {
            "consumer_id": 0,
            "ack_type": 1,
            "message_id": [
                {
                    "ledger_id": 1,
                    "entry_id": 2,
                    "partition": 3,
                    "batch_index": 4,
                    "ack_set": [-1, 5],
                    "batch_size": 66,
                    "first_chunk_message_id": {"ledger_id": 1, "entry_id": 0},
                }
            ],
            "validation_error": 2,
            "properties": [{"key": "k", "value": 9}],
            "request_id": 5,
        },
        events.Ack(0, True, ((1, 2, (-1, 5)),), 2, (("k", 9),), 5),
    ),
    (
        "ack",
        {
            "consumer_id": 0,
            "ack_type": 1,
            "message_id": [{"ledger_id": 1, "entry_id": 2**64 - 1}],
        },
        events.Ack(0, True, ((1, -1, ()),)),
    ),
    (
        "ack",
        {"consumer_id": 0, "ack_type": 0, "txnid_most_bits": 3, "txnid_least_bits": 9},
        events.Ack(0, False, (), transaction=TransactionId(3, 9)),
    ),
    (
        "redeliver_unacknowledged_messages",
        {"consumer_id": 0, "message_ids": [{"ledger_id": 1, "entry_id": 2}]},
        events.Redeliver(0, (MessageId(1, 2),), None),
    ),
    (
        "seek",
        {"consumer_id": 0, "request_id": 5, "message_id": {"ledger_id": 1, "entry_id": 2}},
        events.Seek(5, 0, MessageId(1, 2), None),
    ),
    (
        "seek",
        {"consumer_id": 0, "request_id": 5, "message_publish_time": 77},
        events.Seek(5, 0, None, 77),
    ),
    ("get_last_message_id", {"consumer_id": 0, "request_id": 5}, events.GetLastMessageId(5, 0)),
    ("consumer_stats", {"consumer_id": 0, "request_id": 5}, events.ConsumerStats(5, 0)),
    (
        "unsubscribe",
        {"consumer_id": 0, "request_id": 5, "force": True},
        events.Unsubscribe(5, 0, True),
    ),
    ("close_consumer", {"consumer_id": 0, "request_id": 5}, events.CloseConsumer(5, 0)),
    (
        "get_schema",
        {"request_id": 5, "topic": "t", "schema_version": b""},
        events.GetSchema(5, "t", None),
    ),
    (
        "get_or_create_schema",
        {"request_id": 5, "topic": "t", "schema": {"name": "s", "schema_data": b"d", "type": 4}},
        events.GetOrCreateSchema(5, "t", Schema("s", b"d", 4)),
    ),
    ("tc_client_connect_request", {"request_id": 5, "tc_id": 3}, events.ConnectCoordinator(5, 3)),
    (
        "new_txn",
        {"request_id": 5, "tc_id": 3, "txn_ttl_seconds": 4000},
        events.NewTransaction(5, 3, 4000),
    ),
    (
        "add_partition_to_txn",
        {"request_id": 5, **_TRANSACTION, "partitions": ["a", "b"]},
        events.AddToTransaction(5, TransactionId(3, 9), ("a", "b")),
    ),
    (
        "add_subscription_to_txn",
        {"request_id": 5, **_TRANSACTION, "subscription": [{"topic": "a", "subscription": "s"}]},
        events.AddToTransaction(5, TransactionId(3, 9), (), (("a", "s"),)),
    ),
    (
        "end_txn",
        {"request_id": 5, **_TRANSACTION, "txn_action": 1},
        events.EndTransaction(5, TransactionId(3, 9), False),
    ),
    (
        "end_txn_on_partition",
        {"request_id": 5, **_TRANSACTION, "topic": "a", "txn_action": 0},
        events.EndOnParticipant(5, TransactionId(3, 9), True, -1, "a"),
    ),
    (
        "end_txn_on_subscription",
        {
            "request_id": 5,
            **_TRANSACTION,
            "subscription": {"topic": "a", "subscription": "s"},
            "txn_action": 1,
            "txnid_least_bits_of_low_watermark": (1 << 64) - 1,
        },
        events.EndOnParticipant(5, TransactionId(3, 9), False, -1, "a", "s"),
    ),
]


@pytest.mark.parametrize(("field", "values", "event"), CASES, ids=[case[0] for case in CASES])
def test_commands(field: str, values: dict[str, object], event: events.Event) -> None:
    frame = frames.frame(frames.command(field, **values))
    assert frames.opened().receive(frame) == [event]


def test_connect() -> None:
    values = {
        "client_version": "Pulsar-CPP-v4",
        "protocol_version": 20,
        "feature_flags": {"supports_topic_watchers": True},
    }
    assert ServerProtocol().receive(frames.frame(frames.command("connect", **values))) == [
        events.Connect("Pulsar-CPP-v4", 20, False, True, None)
    ]


@given(client_frames())
def test_fields_of_a_later_protocol_are_skipped(frame: bytes) -> None:
    """Unknown fields of a command are no error: newer clients may send them."""
    command, entry = frames.parse(frame)
    extended = command.SerializeToString() + b"\xfa\x7f\x01x"  # field 2047, one byte of text
    size = len(extended).to_bytes(4, "big")
    whole = (len(extended) + 4 + len(entry)).to_bytes(4, "big") + size + extended + entry
    assert frames.opened().receive(whole) == frames.opened().receive(frame)
