"""What a broker sends to another broker as its client, and how it cuts what comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.wire.encode import frame
from counterpoise.wire.encode_transactions import answer, end_on_participant
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant
from counterpoise.wire.frames import cut_frames, frames_in
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import TransactionId
from tests.wire import frames

FRAMES = [
    frames.frame(frames.command("ping")),
    frames.frame(frames.command("close_consumer", consumer_id=3, request_id=5)),
    frames.frame(frames.command("flow", consumer_id=3, message_permits=100)),
]


@given(st.lists(st.sampled_from(FRAMES), max_size=5), st.data())
def test_frames_are_cut_wherever_the_stream_was(stream: list[bytes], data: st.DataObject) -> None:
    stream = [*stream, frames.send(3, 9)]
    whole, found, buffer = b"".join(stream), list[tuple[BaseCommand, bytes]](), bytearray()
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        buffer += whole[:size]
        whole = whole[size:]
        found += frames_in(buffer)
    assert found == [frames.parse(each) for each in stream]
    assert buffer == b""
    cut = list(cut_frames(b"".join(stream)))
    assert cut == [(frames.parse(each)[0], each) for each in stream]


ONE = TransactionId(2, 7)
IDS = {"txnid_most_bits": 2, "txnid_least_bits": 7}


@pytest.mark.parametrize(
    ("request_", "field", "values"),
    [
        (
            commands.CommandTcClientConnectRequest(request_id=5, tc_id=2),
            "tc_client_connect_response",
            {},
        ),
        # Of a transaction that was not opened it names the coordinator.
        (
            commands.CommandNewTxn(request_id=5, tc_id=2, txn_ttl_seconds=1000),
            "new_txn_response",
            {"txnid_most_bits": 2},
        ),
        (
            commands.CommandAddPartitionToTxn(request_id=5, **IDS, partitions=["t"]),
            "add_partition_to_txn_response",
            IDS,
        ),
        (
            commands.CommandAddSubscriptionToTxn(request_id=5, **IDS),
            "add_subscription_to_txn_response",
            IDS,
        ),
        (commands.CommandEndTxn(request_id=5, **IDS), "end_txn_response", IDS),
        (EndOnParticipant(5, ONE, True, -1, "t"), "end_txn_on_partition_response", IDS),
        (EndOnParticipant(5, ONE, True, -1, "t", "s"), "end_txn_on_subscription_response", IDS),
    ],
)
def test_a_request_about_a_transaction_is_answered_or_refused(
    request_: object, field: str, values: dict[str, object]
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
    command = end_on_participant(request)
    command.request_id = request.request_id
    assert frames.opened().receive(frame(command)) == [request]
