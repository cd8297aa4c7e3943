"""The fast path of SEND gives exactly what the general reader gives, and checks as much."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.wire import protocol as general
from counterpoise.wire.entry import split
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Event, Send, SendRefused, Violation
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import PeerChange
from tests.wire import frames
from tests.wire.strategies import entries, uint64


@contextmanager
def without_fast_path() -> Iterator[None]:
    with mock.patch.object(general, "decode_sends", lambda _data, begin, *_: begin):
        yield


def taken_fast(protocol: ServerProtocol, data: bytes) -> list[Event]:
    """Return what the fast path takes from ``data``, alone."""
    events: list[Event] = []
    # Private: the fast path alone; the whole protocol takes it and the other.
    general.decode_sends(data, 0, len(data), 1 << 20, protocol._producers, events, 1 << 30)
    return events


@pytest.mark.parametrize("sequence_id", [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 2**28 - 1])
def test_plain_sends_take_the_fast_path(sequence_id: int) -> None:
    body = frames.entry()
    assert taken_fast(frames.opened(), frames.send(2, sequence_id, body)) == [
        Send(2, sequence_id, 0, 1, False, body)
    ]


@pytest.mark.parametrize("sequence_id", [2**28, 2**35, 2**63, 2**64 - 1])
def test_enormous_sequence_ids_are_read_all_the_same(sequence_id: int) -> None:
    body = frames.entry()
    assert frames.opened().receive(frames.send(2, sequence_id, body)) == [
        Send(2, sequence_id, 0, 1, False, body)
    ]


@pytest.mark.parametrize("sequence_id", [0, 127, 128, 2**21, 2**28, 2**63 - 1])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"num_messages": 2},
        {"num_messages": 1000, "highest_sequence_id": 2**40},
        {"highest_sequence_id": 0},
    ],
    ids=["single", "batch", "batch with its end", "an explicit zero"],
)
def test_batches_take_the_fast_path(sequence_id: int, more: dict[str, int]) -> None:
    body = frames.entry()
    highest = more.get("highest_sequence_id", 0)
    assert taken_fast(frames.opened(), frames.send(2, sequence_id, body, **more)) == [
        Send(2, sequence_id, highest, 1, False, body)
    ]


@pytest.mark.parametrize("count", [1, 2, 1000])
@pytest.mark.parametrize("claim", [None, 1, 2, 1001])
def test_messages_are_counted_by_the_entry_whatever_the_command_says(
    count: int, claim: int | None
) -> None:
    body = frames.entry(b"123456" * count, num_messages_in_batch=count)
    data = frames.send(2, 7, body, **({} if claim is None else {"num_messages": claim}))
    assert taken_fast(frames.opened(), data) == [Send(2, 7, 0, count, False, body)]
    with without_fast_path():
        assert frames.opened().receive(data) == [Send(2, 7, 0, count, False, body)]


def test_what_only_looks_like_a_batch_is_one_message() -> None:
    body = frames.entry(b"XXX", partition_key="X")
    assert taken_fast(frames.opened(), frames.send(2, 7, body)) == [Send(2, 7, 0, 1, False, body)]


@pytest.mark.parametrize("count", [-1, 0, 2**31 - 1])
def test_an_entry_that_lies_about_its_messages_is_refused_and_nothing_else(count: int) -> None:
    lie, good = frames.entry(b"lie", num_messages_in_batch=count), frames.entry()
    sends = frames.opened().receive(frames.send(1, 5, lie) + frames.send(1, 6, good))
    (refused, taken) = sends
    assert isinstance(refused, SendRefused)
    assert (refused.producer_id, refused.sequence_id) == (1, 5)
    assert refused.code is ServerError.NotAllowedError
    assert f"holds {count} messages" in refused.message
    assert taken == Send(1, 6, 0, 1, False, good)


def test_metadata_that_cannot_be_read_is_refused_by_both_paths() -> None:
    raw = b"\x58"  # a field's tag and no value
    entry = b"\x00\x00\x00\x01" + raw + b"payload"
    checked = b"\x0e\x01" + crc32c(entry).to_bytes(4, "big") + entry
    (refused,) = frames.opened().receive(frames.send(1, 5, checked))
    assert isinstance(refused, SendRefused)
    assert "the metadata cannot be read" in refused.message


@pytest.mark.parametrize(
    "more", [{"is_chunk": True}, {"txnid_least_bits": 1}, {"num_messages": -1}], ids=str
)
def test_anything_else_is_left_to_the_general_reader(more: dict[str, int]) -> None:
    data = frames.send(2, 7, frames.entry(), **more)
    assert taken_fast(frames.opened(), data) == []


@pytest.mark.parametrize("zeros", [7, 8, 9, 20])
def test_a_count_may_be_as_long_as_protobuf_reads(zeros: int) -> None:
    """Ten bytes are read even if most say nothing; the eleventh is an error on both paths."""
    fields = b"\x08\x02\x10\x07\x18" + b"\x83" + b"\x80" * zeros + b"\x00"
    command = bytes((0x08, 6, 0x32, len(fields))) + fields
    rest = len(command).to_bytes(4, "big") + command + frames.entry()
    data = len(rest).to_bytes(4, "big") + rest
    fast = frames.opened().receive(data)
    with without_fast_path():
        slow = frames.opened().receive(data)
    assert [repr(event) for event in fast] == [repr(event) for event in slow]
    assert isinstance(fast[0], Send) is (zeros + 2 <= 10)


@given(st.lists(st.tuples(st.integers(0, 2), uint64, entries), max_size=10))
def test_both_paths_agree(sends: list[tuple[int, int, bytes]]) -> None:
    data = b"".join(frames.send(*each) for each in sends)
    fast = frames.opened().receive(data)
    with without_fast_path():
        slow = frames.opened().receive(data)
    assert fast == slow
    wanted: list[Event] = []
    for producer, seq, body in sends:
        metadata, payload = split(body)
        count = MessageMetadata.FromString(metadata).num_messages_in_batch
        if count == 1 or count * 6 <= len(payload):
            wanted.append(Send(producer, seq, 0, count, False, body))
        else:
            why = f"a batch of {len(payload)} bytes says that it holds {count} messages"
            code = ServerError.NotAllowedError
            wanted.append(SendRefused(producer, seq, code, f"The entry is refused: {why}"))
    assert fast == wanted


@given(
    st.integers(0, 2),
    uint64,
    st.dictionaries(
        st.sampled_from(["num_messages", "highest_sequence_id"]), st.integers(0, 2**31 - 1)
    ),
    st.integers(0, 60),
    st.binary(min_size=1, max_size=6),
)
def test_both_paths_agree_about_damage(
    producer: int, sequence_id: int, more: dict[str, int], at: int, damage: bytes
) -> None:
    data = bytearray(frames.send(producer, sequence_id, frames.entry(b"x" * 40), **more))
    data[at : at + len(damage)] = damage
    data += frames.send(0, 5)
    fast = frames.opened().receive(bytes(data))
    with without_fast_path():
        slow = frames.opened().receive(bytes(data))
    assert [repr(event) for event in fast] == [repr(event) for event in slow]


@given(
    st.integers(128, 1 << 40).flatmap(
        lambda peer: st.tuples(st.just(peer), st.sampled_from([peer & 0x7F, peer & 0x7F | 0x80]))
    ),
    st.integers(0, 1 << 30),
)
def test_a_large_producer_id_is_not_mistaken_for_a_small_one(
    peers: tuple[int, int], sequence_id: int
) -> None:
    protocol = ServerProtocol()
    protocol.receive(frames.connect())
    for peer in set(peers):
        protocol.receive(frames.producer(peer))
        protocol.change_producer(peer, PeerChange.OPENED)
    (event,) = protocol.receive(frames.send(peers[0], sequence_id))
    assert isinstance(event, Send)
    assert (event.producer_id, event.sequence_id) == (peers[0], sequence_id)


def test_a_batch_is_read_with_its_counts() -> None:
    body = frames.entry(b"123456" * 9, num_messages_in_batch=9)
    data = frames.send(1, 5, body, num_messages=9, highest_sequence_id=13, is_chunk=True)
    assert frames.opened().receive(data) == [Send(1, 5, 13, 9, True, body)]


@pytest.mark.parametrize(
    "more", [{}, {"num_messages": 3}, {"is_chunk": True}], ids=["one", "batch", "chunk"]
)
def test_a_wrong_checksum_is_refused_and_the_connection_goes_on(more: dict[str, int]) -> None:
    body = bytearray(frames.entry())
    body[-1] ^= 1
    good = frames.entry()
    data = frames.send(1, 5, bytes(body), **more) + frames.send(1, 6, good)
    assert frames.opened().receive(data) == [
        SendRefused(1, 5, ServerError.ChecksumError, "Checksum failed on the broker"),
        Send(1, 6, 0, 1, False, good),
    ]


def test_an_entry_without_checksum_is_taken_as_it_is() -> None:
    body = frames.entry()[6:]
    assert frames.opened().receive(frames.send(0, 1, body)) == [Send(0, 1, 0, 1, False, body)]


def test_late_sends_of_a_producer_the_broker_closed_are_dropped() -> None:
    protocol = frames.opened()
    protocol.change_producer(1, PeerChange.DETACHED)
    good = frames.entry()
    data = frames.send(1, 5) + frames.send(2, 6, good) + frames.send(1, 7)
    assert protocol.receive(data) == [Send(2, 6, 0, 1, False, good)]


def test_a_send_before_its_producer_is_a_violation() -> None:
    protocol = frames.opened()
    protocol.receive(frames.producer(9))
    events = protocol.receive(frames.send(9, 0))
    assert isinstance(events[-1], Violation)
    assert "id 9 is OPENING" in str(events[-1].error)
