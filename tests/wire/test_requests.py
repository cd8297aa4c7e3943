"""What a broker sends to another broker as its client, and how it cuts what comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.wire import requests
from counterpoise.wire.encode_transactions import answer, end_on_participant
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import (
    AddToTransaction,
    ConnectCoordinator,
    EndOnParticipant,
    EndTransaction,
    NewTransaction,
)
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import Schema, TransactionId
from tests.wire import frames

UNSET = (1 << 64) - 1
VERSION = {"client_version": "c", "protocol_version": 21}
READER = {
    "subscription": "s",
    "sub_type": 0,
    "consumer_id": 3,
    "request_id": 5,
    "durable": False,
    "initial_position": 1,
    "start_message_id": {"ledger_id": UNSET, "entry_id": UNSET},
}
REQUESTS = [
    (
        requests.connect("c", "token", b"secret"),
        "connect",
        {
            **VERSION,
            "auth_method_name": "token",
            "auth_data": b"secret",
            "feature_flags": {"supports_auth_refresh": True},
        },
    ),
    (
        requests.auth_response("c", "token", b"newer"),
        "auth_response",
        {**VERSION, "response": {"auth_method_name": "token", "auth_data": b"newer"}},
    ),
    (
        requests.look_up("t", 5, authoritative=True),
        "lookup_topic",
        {"topic": "t", "request_id": 5, "authoritative": True},
    ),
    (
        requests.open_producer("t", 3, 5, Schema("n", b"d", 2, (("k", "v"),)), {"a": "b"}),
        "producer",
        {
            "topic": "t",
            "producer_id": 3,
            "request_id": 5,
            "metadata": [{"key": "a", "value": "b"}],
            "schema": {
                "name": "n",
                "schema_data": b"d",
                "type": 2,
                "properties": [{"key": "k", "value": "v"}],
            },
        },
    ),
    (
        requests.open_producer("t", 3, 5),
        "producer",
        {"topic": "t", "producer_id": 3, "request_id": 5},
    ),
    (
        requests.read_from_start("persistent://t/n/x", 3, 5, "s"),
        "subscribe",
        {**READER, "topic": "persistent://t/n/x", "read_compacted": True},
    ),
    (
        requests.read_from_start("non-persistent://t/n/x", 3, 5, "s"),
        "subscribe",
        {**READER, "topic": "non-persistent://t/n/x", "read_compacted": False},
    ),
    (
        requests.subscribe_durably("t", 3, 5, "s"),
        "subscribe",
        {
            "topic": "t",
            "subscription": "s",
            "sub_type": 1,
            "consumer_id": 3,
            "request_id": 5,
            "durable": True,
            "initial_position": 1,
        },
    ),
    (requests.close_consumer(3, 5), "close_consumer", {"consumer_id": 3, "request_id": 5}),
    (requests.permit(3, 100), "flow", {"consumer_id": 3, "message_permits": 100}),
    (requests.last_message_id(3, 5), "get_last_message_id", {"consumer_id": 3, "request_id": 5}),
]


@pytest.mark.parametrize(("frame", "field", "values"), REQUESTS)
def test_requests(frame: bytes, field: str, values: dict[str, object]) -> None:
    assert frames.parse(frame) == (frames.command(field, **values), b"")


def test_an_entry_is_sent_as_it_is() -> None:
    entry = frames.entry(b"x")
    found = frames.parse(requests.send(3, 9, entry))
    assert found == (frames.command("send", producer_id=3, sequence_id=9), entry)


@given(st.lists(st.sampled_from([frame for frame, _, _ in REQUESTS]), max_size=5), st.data())
def test_frames_are_cut_wherever_the_stream_was(stream: list[bytes], data: st.DataObject) -> None:
    stream = [*stream, requests.send(3, 9, frames.entry(b"x" * 50))]
    whole, found, buffer = b"".join(stream), list[tuple[BaseCommand, bytes]](), bytearray()
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        buffer += whole[:size]
        whole = whole[size:]
        found += requests.frames_in(buffer)
    assert found == [frames.parse(each) for each in stream]
    assert buffer == b""
    cut = list(requests.cut_frames(b"".join(stream)))
    assert cut == [(frames.parse(each)[0], each) for each in stream]


ONE = TransactionId(2, 7)
IDS = {"txnid_most_bits": 2, "txnid_least_bits": 7}


@pytest.mark.parametrize(
    ("request_", "field", "values"),
    [
        (ConnectCoordinator(5, 2), "tc_client_connect_response", {}),
        # Of a transaction that was not opened it names the coordinator.
        (NewTransaction(5, 2, 1000), "new_txn_response", {"txnid_most_bits": 2}),
        (AddToTransaction(5, ONE, ("t",)), "add_partition_to_txn_response", IDS),
        (
            AddToTransaction(5, ONE, subscriptions=(("t", "s"),)),
            "add_subscription_to_txn_response",
            IDS,
        ),
        (EndTransaction(5, ONE, True), "end_txn_response", IDS),
        (EndOnParticipant(5, ONE, True, -1, "t"), "end_txn_on_partition_response", IDS),
        (EndOnParticipant(5, ONE, True, -1, "t", "s"), "end_txn_on_subscription_response", IDS),
    ],
)
def test_a_request_about_a_transaction_is_answered_or_refused(
    request_: ConnectCoordinator, field: str, values: dict[str, object]
) -> None:
    expected = {"request_id": 5, **values}
    assert frames.parse(answer(request_))[0] == frames.command(field, **expected)
    refused = {**expected, "error": ServerError.TransactionNotFound.value, "message": "no"}
    found = frames.parse(answer(request_, None, ServerError.TransactionNotFound, "no"))[0]
    assert found == frames.command(field, **refused)


@pytest.mark.parametrize("subscription", [None, "s"])
@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("watermark", [-1, 0, 5])
def test_a_participant_reads_what_the_coordinator_wrote(
    subscription: str | None, commit: bool, watermark: int
) -> None:
    request = EndOnParticipant(5, ONE, commit, watermark, "t", subscription)
    assert frames.opened().receive(end_on_participant(request)) == [request]
