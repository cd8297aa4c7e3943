"""However the stream is cut, damaged or cut off, the events are those of its whole frames."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from counterpoise.wire.events import Event, Violation
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import ConnectionState
from tests.wire import frames
from tests.wire.strategies import FIELDS, chunkings, client_frames, streams


def same(left: list[Event], right: list[Event]) -> bool:
    """Compare events; two violations are the same if they say the same."""
    return [_comparable(event) for event in left] == [_comparable(event) for event in right]


def _comparable(event: Event) -> object:
    return ("violation", str(event.error)) if isinstance(event, Violation) else event


@given(st.data(), streams)
def test_cutting_a_stream_changes_nothing(data: st.DataObject, stream: list[bytes]) -> None:
    whole = b"".join(stream)
    expected = frames.opened().receive(whole)
    cuts = data.draw(chunkings(len(whole)))
    got = frames.feed(frames.opened(), *(whole[a:b] for a, b in pairwise(cuts)))
    assert same(got, expected)


@given(streams)
@settings(max_examples=40)
def test_byte_by_byte(stream: list[bytes]) -> None:
    whole = b"".join(stream)
    got = frames.feed(frames.opened(), *(whole[at : at + 1] for at in range(len(whole))))
    assert same(got, frames.opened().receive(whole))


@given(streams)
def test_a_frame_at_a_time(stream: list[bytes]) -> None:
    assert same(frames.feed(frames.opened(), *stream), frames.opened().receive(b"".join(stream)))


@given(st.data(), streams, st.integers(1, 5))
def test_taking_turns_changes_nothing(data: st.DataObject, stream: list[bytes], most: int) -> None:
    """However few events are asked for at a time, and whatever comes while some wait."""
    whole = b"".join(stream)
    protocol, got = frames.opened(), []
    cuts = data.draw(chunkings(len(whole)))
    for a, b in pairwise(cuts):
        turn = protocol.receive(whole[a:b], most)
        assert len(turn) <= most
        got += turn
        for _ in range(data.draw(st.integers(0, 3))):
            got += protocol.receive(b"", most)
    while protocol.waiting:
        got += protocol.receive(b"", most)
    assert same(got, frames.opened().receive(whole))


def test_frames_that_say_nothing_take_turns_too() -> None:
    """A FLOW for a consumer that is gone is no event, but it is work."""
    gone = frames.frame(
        frames.BaseCommand(type=frames.Type.FLOW, flow={"consumer_id": 99, "message_permits": 1})
    )
    protocol = frames.opened()
    assert protocol.receive(gone * 10, 4) == []
    assert protocol.waiting
    turns = 1
    while protocol.waiting:
        assert protocol.receive(b"", 4) == []
        turns += 1
    assert turns == 3


def test_a_frame_that_came_in_two_counts_among_those_of_its_turn() -> None:
    gone = frames.frame(
        frames.BaseCommand(type=frames.Type.FLOW, flow={"consumer_id": 99, "message_permits": 1})
    )
    protocol, turns = frames.opened(), 1
    protocol.receive(gone[:9])
    assert protocol.receive(gone[9:] + gone * 8, 4) == []
    while protocol.waiting:
        assert protocol.receive(b"", 4) == []
        turns += 1
    assert turns == 3


@pytest.mark.parametrize("kind", sorted(FIELDS), ids=frames.Type.Name)
def test_every_command_byte_by_byte_and_truncated(kind: int) -> None:
    @given(client_frames(kind))
    @settings(max_examples=15)
    def check(frame: bytes) -> None:
        expected = frames.opened().receive(frame)
        assert not any(isinstance(event, Violation) for event in expected)
        protocol = frames.opened()
        for at in range(len(frame) - 1):
            assert protocol.receive(frame[at : at + 1]) == []
        assert protocol.receive(frame[-1:]) == expected
        for length in range(len(frame)):
            cut_off = frames.opened()
            assert cut_off.receive(frame[:length]) == []
            assert cut_off.state is ConnectionState.OPEN

    check()


@given(streams, st.data())
@settings(max_examples=300)
def test_damage_is_never_raised(stream: list[bytes], data: st.DataObject) -> None:
    """Whatever bytes come, events come before the damage as ever, and nothing after a violation."""
    whole = bytearray(b"".join(stream))
    at = data.draw(st.integers(0, len(whole)))
    damage = data.draw(st.binary(min_size=1, max_size=8))
    if data.draw(st.booleans()):
        whole[at : at + len(damage)] = damage
    else:
        whole[at:at] = damage
    protocol = frames.opened()
    got = protocol.receive(bytes(whole))
    intact = frames.opened().receive(bytes(whole[:at]))
    assert same(got[: len(intact)], intact)
    assert not any(isinstance(event, Violation) for event in got[:-1])
    if got and isinstance(got[-1], Violation):
        assert protocol.state is ConnectionState.FAILED
        assert protocol.receive(frames.connect() + bytes(whole)) == []


@given(st.binary(max_size=200))
@example(b"\x00\x00\x00\x04\x00\x00\x00\x00")
@example(b"\x00\x00\x00\x00")
@example(b"\xff\xff\xff\xff")
def test_noise_is_no_client(noise: bytes) -> None:
    protocol = ServerProtocol()
    for event in protocol.receive(noise):
        assert isinstance(event, Violation)
        assert "byte 0 of the stream" in event.error.where


def test_a_violation_says_what_and_where() -> None:
    protocol = ServerProtocol()
    protocol.receive(frames.connect())
    before = len(frames.connect())
    ping = frames.frame(frames.BaseCommand(type=frames.Type.PING, ping={}))
    events = protocol.receive(ping + frames.send(7, 0))
    assert isinstance(events[-1], Violation)
    assert str(events[-1].error) == (
        f"id 7 is ABSENT (in a SEND frame at byte {before + len(ping)} of the stream)"
    )


def test_a_violation_is_in_the_same_place_and_the_last_however_the_stream_is_cut() -> None:
    good, bad = frames.send(1, 0), frames.send(7, 0)
    for stream in (good + good + bad, good + bad + good):
        expected = frames.opened().receive(stream)
        assert isinstance(expected[-1], Violation)
        for cut in range(1, len(stream)):
            got = frames.feed(frames.opened(), stream[:cut], stream[cut:])
            assert same(got, expected), f"cut at {cut}"


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes, the limit is 1010240"),
        (b"\x00\x00\x00\x03", "a frame of 3 bytes has no room for a command"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x02\x08", "a command of 2 bytes in a frame of 5"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x63", "the command lacks type"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\xff", "the command cannot be read"),
        (
            frames.frame(frames.BaseCommand(type=frames.Type.FLOW, flow={"consumer_id": 1})),
            "the command lacks flow.message_permits",
        ),
        (b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x04", "its field 'subscribe' is missing"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x03", "not allowed while OPEN"),
        (frames.connect(), "not allowed while OPEN"),
        (frames.send(0, 1, b""), "0 bytes end before the size of the metadata"),
        (
            frames.send(0, 1, b"\x0e\x01\0\0\0\0\0\0\0\x09abc"),
            "metadata of 9 bytes in an entry that has 3 left",
        ),
    ],
)
def test_every_kind_of_broken_frame(broken: bytes, what: str) -> None:
    protocol = ServerProtocol(max_message_size=1_000_000)
    protocol.receive(frames.connect() + frames.producer(0))
    protocol.change_producer(0, frames.PeerChange.OPENED)
    events = protocol.receive(broken)
    assert len(events) == 1
    assert isinstance(events[0], Violation)
    assert what in str(events[0].error)


def test_the_limit_itself_is_allowed() -> None:
    body = frames.entry(b"x" * 900)
    limit = len(frames.send(0, 1, body)) - 4
    protocol = ServerProtocol(max_message_size=limit - 10 * 1024)
    protocol.receive(frames.connect() + frames.producer(0))
    protocol.change_producer(0, frames.PeerChange.OPENED)
    (event,) = protocol.receive(frames.send(0, 1, body))
    assert not isinstance(event, Violation)
    (event,) = protocol.receive(frames.send(0, 1, body + b"x"))
    assert isinstance(event, Violation)
