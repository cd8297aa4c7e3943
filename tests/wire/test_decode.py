"""What each command means, defaults included."""

import pytest
from hypothesis import given

from counterpoise.wire import events
from counterpoise.wire.decode import message_id, pairs_of, schema_of
from counterpoise.wire.proto.values_pb2 import KeyValue, MessageIdData
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.values import MessageId, Schema, TransactionId
from tests.wire import frames
from tests.wire.strategies import client_frames

_TRANSACTION: dict[str, object] = {"txnid_most_bits": 3, "txnid_least_bits": 9}

CASES: list[tuple[str, dict[str, object], events.Event]] = [
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
        {"consumer_id": 0, "ack_type": 1, "message_id": [{"ledger_id": 1, "entry_id": 2**64 - 1}]},
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


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("ping", {}),
        ("lookup_topic", {"topic": "t", "request_id": 5, "authoritative": True}),
        ("producer", {"topic": "t", "producer_id": 7, "request_id": 5}),
        ("seek", {"consumer_id": 0, "request_id": 5, "message_publish_time": 77}),
        ("unsubscribe", {"consumer_id": 0, "request_id": 5, "force": True}),
    ],
)
def test_a_command_that_means_what_it_says_is_its_own_event(
    field: str, values: dict[str, object]
) -> None:
    command = frames.command(field, **values)
    assert frames.opened().receive(frames.frame(command)) == [getattr(command, field)]


def test_what_commands_carry() -> None:
    position = MessageIdData(ledger_id=(1 << 64) - 1, entry_id=(1 << 64) - 1)
    assert message_id(position) == MessageId(-1, -1)
    assert pairs_of([KeyValue(key="k", value="v")]) == (("k", "v"),)
    schema = RawSchema(
        name="s", schema_data=b"d", type=2, properties=[KeyValue(key="k", value="v")]
    )
    assert schema_of(schema) == Schema("s", b"d", 2, (("k", "v"),))


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
