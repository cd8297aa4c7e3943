"""Every answer is one frame that protobuf reads back, field by field."""

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.wire import encode, encode_runs, encode_transactions
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as values
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import MessageId, TransactionId
from tests.wire import frames
from tests.wire.strategies import uint64

UNASKED = (1 << 64) - 1

CASES: list[tuple[bytes, str, dict[str, object]]] = [
    (
        encode_transactions.answer(
            commands.CommandEndTxn(request_id=5, txnid_most_bits=2, txnid_least_bits=7)
        ),
        "end_txn_response",
        {"request_id": 5, "txnid_most_bits": 2, "txnid_least_bits": 7},
    ),
    (
        encode_transactions.answer(
            commands.CommandNewTxn(request_id=5, tc_id=2), TransactionId(2, 7)
        ),
        "new_txn_response",
        {"request_id": 5, "txnid_most_bits": 2, "txnid_least_bits": 7},
    ),
    (
        encode_transactions.answer(
            commands.CommandNewTxn(request_id=5, tc_id=2), None, ServerError.MetadataError, "no"
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
        encode.refuse(
            commands.CommandPartitionedTopicMetadata(request_id=5), ServerError.MetadataError, "no"
        ),
        "partition_metadata_response",
        {"request_id": 5, "response": 1, "error": 1, "message": "no"},
    ),
    (
        encode.refuse(commands.CommandLookupTopic(request_id=5), ServerError.ServiceNotReady, "no"),
        "lookup_topic_response",
        {"request_id": 5, "response": 2, "error": 6, "message": "no"},
    ),
    (
        encode.refuse(commands.CommandSeek(request_id=5), ServerError.MetadataError, "no"),
        "error",
        {"request_id": 5, "error": 1, "message": "no"},
    ),
    (
        encode.producer_success(5, "p"),
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
        encode.producer_success(
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
        encode.send_error(1, 2, ServerError.ChecksumError, "no"),
        "send_error",
        {"producer_id": 1, "sequence_id": 2, "error": 9, "message": "no"},
    ),
    (
        encode.close_producer(1, "pulsar://a:1"),
        "close_producer",
        {"producer_id": 1, "request_id": UNASKED, "assigned_broker_service_url": "pulsar://a:1"},
    ),
    (encode.close_consumer(1), "close_consumer", {"consumer_id": 1, "request_id": UNASKED}),
    (encode.ack_response(1, 2), "ack_response", {"consumer_id": 1, "request_id": 2}),
    (
        encode.ack_response(1, 2, ServerError.NotAllowedError, "no"),
        "ack_response",
        {"consumer_id": 1, "request_id": 2, "error": 22, "message": "no"},
    ),
    (
        encode.last_message_id(5, MessageId(1, 2, 3, 4), MessageId(-1, -1)),
        "get_last_message_id_response",
        {
            "request_id": 5,
            "last_message_id": {"ledger_id": 1, "entry_id": 2, "partition": 3, "batch_index": 4},
            "consumer_mark_delete_position": {"ledger_id": UNASKED, "entry_id": UNASKED},
        },
    ),
    (
        encode.refuse(
            commands.CommandConsumerStats(request_id=5), ServerError.ConsumerNotFound, "no"
        ),
        "consumer_stats_response",
        {"request_id": 5, "error_code": 13, "error_message": "no"},
    ),
    (
        encode.refuse(commands.CommandGetSchema(request_id=5), ServerError.TopicNotFound, "no"),
        "get_schema_response",
        {"request_id": 5, "error_code": 11, "error_message": "no"},
    ),
    (
        encode.refuse(
            commands.CommandGetOrCreateSchema(request_id=5), ServerError.IncompatibleSchema, "no"
        ),
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
    command, _ = frames.parse(encode_runs.send_receipts(1, -1, -1, [(None, 2, 0)]))
    assert command.send_receipt.message_id.ledger_id == UNASKED
    assert command.send_receipt.message_id.entry_id == UNASKED


deliveries = st.tuples(
    st.sampled_from([0, 5, 300, 1 << 40]),
    uint64,
    st.integers(0, (1 << 32) - 1),
    st.binary(max_size=300),
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20),
)


@given(uint64, st.integers(-1, 10_000), st.none() | uint64, st.lists(deliveries, max_size=6))
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
