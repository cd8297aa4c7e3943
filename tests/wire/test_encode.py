"""Every answer is one frame that protobuf reads back, field by field."""

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.wire import encode, encode_peers, encode_runs, encode_transactions, events
from counterpoise.wire.encode_peers import ConsumerFigures
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as values
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import MessageId, Schema, TransactionId
from tests.wire import frames
from tests.wire.strategies import uint64

SCHEMA = Schema("n", b"data", 2, (("k", "v"),))
SCHEMA_FIELDS = {
    "name": "n",
    "schema_data": b"data",
    "type": 2,
    "properties": [{"key": "k", "value": "v"}],
}
FIGURES = ConsumerFigures(1.5, 2.5, 0.5, "c", 7, 8, True, "/1:2", "now", "Shared", 0.25, 9, 3.5)
UNASKED = (1 << 64) - 1

CASES: list[tuple[bytes, str, dict[str, object]]] = [
    (
        encode.connected("Pulsar Server4.0.7", 21, 5242880, topic_watchers=True),
        "connected",
        {
            "server_version": "Pulsar Server4.0.7",
            "protocol_version": 21,
            "max_message_size": 5242880,
            "feature_flags": {
                "supports_topic_watchers": True,
                "supports_get_partitioned_metadata_without_auto_creation": True,
                "supports_repl_dedup_by_lid_and_eid": True,
            },
        },
    ),
    (
        encode_transactions.answer(events.EndTransaction(5, TransactionId(2, 7), True)),
        "end_txn_response",
        {"request_id": 5, "txnid_most_bits": 2, "txnid_least_bits": 7},
    ),
    (
        encode_transactions.answer(events.NewTransaction(5, 2, 1000), TransactionId(2, 7)),
        "new_txn_response",
        {"request_id": 5, "txnid_most_bits": 2, "txnid_least_bits": 7},
    ),
    (
        encode_transactions.answer(
            events.NewTransaction(5, 2, 1000), None, ServerError.MetadataError, "no"
        ),
        "new_txn_response",
        {"request_id": 5, "txnid_most_bits": 2, "error": 1, "message": "no"},
    ),
    (encode.PING, "ping", {}),
    (encode.PONG, "pong", {}),
    (encode.success(5), "success", {"request_id": 5}),
    (
        encode.error(5, ServerError.TopicNotFound, "no"),
        "error",
        {"request_id": 5, "error": 11, "message": "no"},
    ),
    (
        encode.partitions(5, 0),
        "partition_metadata_response",
        {"request_id": 5, "partitions": 0, "response": 0},
    ),
    (
        encode.partitions_failed(5, ServerError.MetadataError, "no"),
        "partition_metadata_response",
        {"request_id": 5, "response": 1, "error": 1, "message": "no"},
    ),
    (
        encode.lookup_connect(5, "pulsar://a:1"),
        "lookup_topic_response",
        {
            "request_id": 5,
            "broker_service_url": "pulsar://a:1",
            "response": 1,
            "authoritative": True,
        },
    ),
    (
        encode.lookup_redirect(5, "pulsar://a:1", "pulsar+ssl://a:2", authoritative=False),
        "lookup_topic_response",
        {
            "request_id": 5,
            "broker_service_url": "pulsar://a:1",
            "broker_service_url_tls": "pulsar+ssl://a:2",
            "response": 0,
            "authoritative": False,
        },
    ),
    (
        encode.lookup_failed(5, ServerError.ServiceNotReady, "no"),
        "lookup_topic_response",
        {"request_id": 5, "response": 2, "error": 6, "message": "no"},
    ),
    (
        encode.topics(5, ["a", "b"], "hash", filtered=True, changed=False),
        "get_topics_of_namespace_response",
        {
            "request_id": 5,
            "topics": ["a", "b"],
            "topics_hash": "hash",
            "filtered": True,
            "changed": False,
        },
    ),
    (
        encode.watch_started(5, 6, ["a"], "hash"),
        "watch_topic_list_success",
        {"request_id": 5, "watcher_id": 6, "topic": ["a"], "topics_hash": "hash"},
    ),
    (
        encode.watch_update(6, ["a"], ["b"], "hash"),
        "watch_topic_update",
        {"watcher_id": 6, "new_topics": ["a"], "deleted_topics": ["b"], "topics_hash": "hash"},
    ),
    (
        encode_peers.producer_success(5, "p"),
        "producer_success",
        {
            "request_id": 5,
            "producer_name": "p",
            "last_sequence_id": -1,
            "schema_version": b"",
            "producer_ready": True,
        },
    ),
    (
        encode_peers.producer_success(
            5, "p", last_sequence_id=9, schema_version=b"v", topic_epoch=3, ready=False
        ),
        "producer_success",
        {
            "request_id": 5,
            "producer_name": "p",
            "last_sequence_id": 9,
            "schema_version": b"v",
            "topic_epoch": 3,
            "producer_ready": False,
        },
    ),
    (
        encode_peers.send_error(1, 2, ServerError.ChecksumError, "no"),
        "send_error",
        {"producer_id": 1, "sequence_id": 2, "error": 9, "message": "no"},
    ),
    (
        encode_peers.close_producer(1, "pulsar://a:1"),
        "close_producer",
        {"producer_id": 1, "request_id": UNASKED, "assigned_broker_service_url": "pulsar://a:1"},
    ),
    (encode_peers.close_consumer(1), "close_consumer", {"consumer_id": 1, "request_id": UNASKED}),
    (encode_peers.ack_response(1, 2), "ack_response", {"consumer_id": 1, "request_id": 2}),
    (
        encode_peers.ack_response(1, 2, ServerError.NotAllowedError, "no"),
        "ack_response",
        {"consumer_id": 1, "request_id": 2, "error": 22, "message": "no"},
    ),
    (
        encode_peers.last_message_id(5, MessageId(1, 2, 3, 4), MessageId(-1, -1)),
        "get_last_message_id_response",
        {
            "request_id": 5,
            "last_message_id": {"ledger_id": 1, "entry_id": 2, "partition": 3, "batch_index": 4},
            "consumer_mark_delete_position": {"ledger_id": UNASKED, "entry_id": UNASKED},
        },
    ),
    (
        encode_peers.active_consumer(1, is_active=True),
        "active_consumer_change",
        {"consumer_id": 1, "is_active": True},
    ),
    (encode_peers.reached_end(1), "reached_end_of_topic", {"consumer_id": 1}),
    (
        encode_peers.consumer_stats(5, FIGURES),
        "consumer_stats_response",
        {
            "request_id": 5,
            "msg_rate_out": 1.5,
            "msg_throughput_out": 2.5,
            "msg_rate_redeliver": 0.5,
            "consumer_name": "c",
            "available_permits": 7,
            "unacked_messages": 8,
            "blocked_consumer_on_unacked_msgs": True,
            "address": "/1:2",
            "connected_since": "now",
            "type": "Shared",
            "msg_rate_expired": 0.25,
            "msg_backlog": 9,
            "message_ack_rate": 3.5,
        },
    ),
    (
        encode_peers.consumer_stats_failed(5, ServerError.ConsumerNotFound, "no"),
        "consumer_stats_response",
        {"request_id": 5, "error_code": 13, "error_message": "no"},
    ),
    (
        encode_peers.schema(5, SCHEMA, b"v"),
        "get_schema_response",
        {"request_id": 5, "schema": SCHEMA_FIELDS, "schema_version": b"v"},
    ),
    (
        encode_peers.schema_failed(5, ServerError.TopicNotFound, "no"),
        "get_schema_response",
        {"request_id": 5, "error_code": 11, "error_message": "no"},
    ),
    (
        encode_peers.schema_created(5, b"v"),
        "get_or_create_schema_response",
        {"request_id": 5, "schema_version": b"v"},
    ),
    (
        encode_peers.schema_not_created(5, ServerError.IncompatibleSchema, "no"),
        "get_or_create_schema_response",
        {"request_id": 5, "error_code": 18, "error_message": "no"},
    ),
]


@pytest.mark.parametrize(("frame", "field", "values"), CASES, ids=[case[1] for case in CASES])
def test_answers(frame: bytes, field: str, values: dict[str, object]) -> None:
    command, rest = frames.parse(frame)
    assert rest == b""
    expected = frames.command(field, **values)
    assert command == expected
    assert command.HasField(field)
    # Every field of the case is really there, defaults too.
    assert set(json_format.MessageToDict(command)) == set(json_format.MessageToDict(expected))


@given(
    uint64,
    uint64,
    st.integers(0, 1 << 40),
    st.lists(st.tuples(st.none(), uint64, uint64), max_size=5),
)
def test_receipts_are_what_protobuf_writes(
    producer: int, ledger: int, entry: int, published: list[tuple[None, int, int]]
) -> None:
    expected = b""
    for offset, (_, sequence, highest) in enumerate(published):
        receipt = commands.CommandSendReceipt(
            producer_id=producer,
            sequence_id=sequence,
            message_id={"ledger_id": ledger, "entry_id": entry + offset},
            highest_sequence_id=highest or None,
        )
        expected += encode.frame(receipt)
    assert encode_runs.send_receipts(producer, ledger, entry, published) == expected


def test_a_dropped_entry_is_confirmed_as_minus_one() -> None:
    command, _ = frames.parse(encode_runs.send_receipt(1, 2, 0, -1, -1))
    assert command.send_receipt.message_id.ledger_id == UNASKED
    assert command.send_receipt.message_id.entry_id == UNASKED


deliveries = st.tuples(
    st.sampled_from([0, 5, 300, 1 << 40]),
    uint64,
    st.integers(0, (1 << 32) - 1),
    st.binary(max_size=300),
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20),
)


@given(
    uint64,
    st.integers(-1, 10_000),
    st.none() | uint64,
    st.lists(deliveries, max_size=6),
)
def test_messages_are_what_protobuf_writes(
    consumer: int,
    partition: int,
    epoch: int | None,
    burst: list[tuple[int, int, int, bytes, list[int]]],
) -> None:
    expected = b""
    for ledger, entry, redeliveries, body, ack_set in burst:
        position = {"ledger_id": ledger, "entry_id": entry}
        if partition >= 0:
            position["partition"] = partition
        message = {"consumer_id": consumer, "message_id": position, "ack_set": ack_set}
        if redeliveries:
            message["redelivery_count"] = redeliveries
        if epoch is not None:
            message["consumer_epoch"] = epoch
        expected += frames.frame(BaseCommand(type=frames.Type.MESSAGE, message=message), body)
    pieces, size = encode_runs.messages(consumer, partition, epoch, burst)
    assert b"".join(pieces) == expected
    assert size == len(expected)


def test_errors_have_the_numbers_of_the_protocol() -> None:
    """Each its own: a client throws the exception of the number that it reads."""
    ours = {name: error.value for name, error in ServerError.__members__.items()}
    assert ours == dict(values.ServerError.items())
