"""Faults that a connection's clients see: each request that wants an answer has its own refusal."""

from collections.abc import Iterator

import pytest

from counterpoise.faults import EffectKind, FaultEffect, Occurrence, Operation
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.wire import frames
from tests.wire.frames import Type

REFUSED = FaultEffect(EffectKind.ERROR, ServerError.TooManyRequests, "on purpose")


class Refusing:
    """Refuses every operation of one kind."""

    broker = "b"

    def __init__(self) -> None:
        self.operation: Operation | None = None

    def on(self, seen: Occurrence) -> FaultEffect | None:
        return REFUSED if seen.operation is self.operation else None

    def lost(self, address: str) -> None:
        return


@pytest.fixture(scope="module")
def refusing() -> Refusing:
    return Refusing()


@pytest.fixture(scope="module")
def broker(refusing: Refusing) -> Iterator[OneBroker]:
    async def intercept() -> None:
        broker.listener.intercept(refusing)

    with OneBroker() as broker:
        broker.run(intercept())
        yield broker


SCHEMA = {"name": "n", "schema_data": b"", "type": 1}
ACK = {"consumer_id": 0, "ack_type": 0, "message_id": [{"ledger_id": 0, "entry_id": 0}]}
ID = {"request_id": 7}
OF_CONSUMER = {"consumer_id": 0, **ID}
LISTED = {"namespace": "public/default"}
WATCH = {"watcher_id": 1, "topics_pattern": ".*"}
SUBSCRIBE = {"subscription": "t", "sub_type": 1, "consumer_id": 5}


@pytest.mark.parametrize(
    ("operation", "field", "values", "answer", "code"),
    [
        (Operation.PARTITIONS, "partition_metadata", ID, "partition_metadata_response", "error"),
        (Operation.LOOKUP, "lookup_topic", ID, "lookup_topic_response", "error"),
        (Operation.TOPICS, "get_topics_of_namespace", {**ID, **LISTED}, "error", "error"),
        (Operation.TOPICS, "watch_topic_list", {**ID, **LISTED, **WATCH}, "error", "error"),
        (Operation.SCHEMA, "get_schema", ID, "get_schema_response", "error_code"),
        (
            Operation.SCHEMA,
            "get_or_create_schema",
            {**ID, "schema": SCHEMA},
            "get_or_create_schema_response",
            "error_code",
        ),
        (Operation.PRODUCER, "producer", {**ID, "producer_id": 5}, "error", "error"),
        (Operation.SUBSCRIBE, "subscribe", {**ID, **SUBSCRIBE}, "error", "error"),
        (Operation.ACK, "ack", {**ID, **ACK}, "ack_response", "error"),
        (Operation.ACK, "ack", ACK, None, ""),
        (Operation.SEEK, "seek", {**OF_CONSUMER, "message_publish_time": 0}, "error", "error"),
        (Operation.LAST_MESSAGE_ID, "get_last_message_id", OF_CONSUMER, "error", "error"),
        (Operation.UNSUBSCRIBE, "unsubscribe", OF_CONSUMER, "error", "error"),
    ],
)
def test_what_is_refused_has_the_answer_of_its_kind(
    client: RawClient,
    topic: str,
    refusing: Refusing,
    operation: Operation,
    field: str,
    values: dict[str, object],
    answer: str | None,
    code: str,
) -> None:
    """And what the refused request was about goes on as if it had not been made."""
    client.subscribe(topic)
    fields = BaseCommand.DESCRIPTOR.fields_by_name
    request = {**values}
    if "topic" in fields[field].message_type.fields_by_name:
        request["topic"] = topic
    refusing.operation = operation
    client.command(field, **request)
    client.command("ping")
    if answer is not None:
        response = getattr(client.receive(fields[answer].number), answer)
        assert response.request_id == 7
        assert (getattr(response, code), response.HasField(code)) == (REFUSED.code, True)
        said = response.error_message if code == "error_code" else response.message
        assert said == "on purpose"
    client.receive(Type.PONG)
    refusing.operation = None
    client.command("close_consumer", consumer_id=0, request_id=8)
    assert client.receive(Type.SUCCESS).success.request_id == 8
    client.produce(topic, producer_id=5)
    client.subscribe(topic, consumer_id=5, name="t")


def test_a_message_of_a_transaction_is_refused_as_any_other(
    client: RawClient, topic: str, refusing: Refusing
) -> None:
    client.produce(topic, producer_id=1)
    refusing.operation = Operation.SEND
    client.send(frames.send(1, 4, txnid_most_bits=0, txnid_least_bits=9))
    refused = client.receive(Type.SEND_ERROR).send_error
    refusing.operation = None
    assert (refused.producer_id, refused.sequence_id) == (1, 4)
    assert (refused.error, refused.message) == (REFUSED.code, "on purpose")
