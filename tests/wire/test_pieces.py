"""A command that lists very many positions is served in pieces, and means what it meant whole."""

import pytest

from counterpoise.wire.decode import PIECE
from counterpoise.wire.events import Ack, Event, Redeliver, Send
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.commands_pb2 import CommandPing
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import PeerChange
from tests.wire import frames
from tests.wire.frames import Type

STEP = 64
PING = frames.frame(BaseCommand(type=Type.PING, ping={}))


def ack(count: int) -> bytes:
    command = BaseCommand(type=Type.ACK, ack={"consumer_id": 0, "ack_type": 0, "request_id": 5})
    for entry in range(count):
        command.ack.message_id.add(ledger_id=3, entry_id=entry)
    return frames.frame(command)


def redeliver(count: int) -> bytes:
    command = BaseCommand(type=Type.REDELIVER_UNACKNOWLEDGED_MESSAGES)
    request = command.redeliver_unacknowledged_messages
    request.consumer_id, request.consumer_epoch = 0, 9
    for entry in range(count):
        request.message_ids.add(ledger_id=3, entry_id=entry)
    return frames.frame(command)


def all_of(protocol: ServerProtocol, data: bytes) -> list[list[Event]]:
    """What each step returns, until nothing waits."""
    steps = [protocol.receive(data, STEP)]
    while protocol.waiting:
        steps.append(protocol.receive(b"", STEP))
    return steps


@pytest.mark.parametrize("count", [1, PIECE, PIECE + 1, 3 * PIECE])
def test_acknowledgements_are_all_there_and_answered_once(count: int) -> None:
    steps = all_of(frames.opened(), ack(count) + PING)
    events = [event for step in steps for event in step]
    acks = [event for event in events if isinstance(event, Ack)]
    assert [each for event in acks for each in event.acked] == [(3, n, ()) for n in range(count)]
    assert [event.request_id for event in acks] == [None] * (len(acks) - 1) + [5]
    assert events[-1] != acks[-1], "what came after it is served after it"
    assert len(events) == len(acks) + 1


def test_what_came_with_the_end_of_a_long_list_is_served_after_it_once() -> None:
    protocol, data = frames.opened(), ack(3 * PIECE) + PING + frames.send(0, 7)
    assert protocol.receive(data[:1000], STEP) == []
    events = [event for step in all_of(protocol, data[1000:]) for event in step]
    assert [type(event) for event in events] == [Ack] * 3 + [CommandPing, Send]


@pytest.mark.parametrize("count", [1, PIECE, PIECE + 1, 3 * PIECE])
def test_redeliveries_are_all_there(count: int) -> None:
    steps = all_of(frames.opened(), redeliver(count))
    events = [event for step in steps for event in step]
    assert all(isinstance(event, Redeliver) and event.epoch == 9 for event in events)
    asked = [each.entry_id for event in events for each in event.message_ids]  # type: ignore[union-attr]
    assert asked == list(range(count))


def test_one_step_reads_one_command_of_many_properties() -> None:
    pairs = [{"key": f"key-{n}" * 5, "value": "v" * 60} for n in range(4000)]
    subscribing = [
        frames.frame(
            BaseCommand(
                type=Type.SUBSCRIBE,
                subscribe={
                    "topic": "t",
                    "subscription": "s",
                    "sub_type": 1,
                    "consumer_id": number,
                    "request_id": number,
                    "subscription_properties": pairs,
                },
            )
        )
        for number in range(5)
    ]
    steps = all_of(frames.opened(), b"".join(subscribing))
    assert max(len(step) for step in steps) == 1
    assert sum(len(step) for step in steps) == 5


@pytest.mark.parametrize("frame", [ack(5 * PIECE), redeliver(5 * PIECE)], ids=["ack", "redeliver"])
def test_one_step_reads_one_piece(frame: bytes) -> None:
    steps = all_of(frames.opened(), frame)
    assert max(len(step) for step in steps) == 1
    assert sum(len(step) for step in steps) == 5


def test_asked_without_a_limit_it_gives_all_pieces() -> None:
    protocol = frames.opened()
    assert len(protocol.receive(ack(5 * PIECE) + PING)) == 6
    assert not protocol.waiting


def test_the_rest_is_dropped_with_its_consumer() -> None:
    protocol = frames.opened()
    assert len(protocol.receive(redeliver(5 * PIECE) + PING, STEP)) == 1
    protocol.change_consumer(0, PeerChange.DETACHED)
    left: list[Event] = []
    while protocol.waiting:
        left += protocol.receive(b"", STEP)
    assert [type(event).__name__ for event in left] == ["CommandPing"]


def test_it_may_come_byte_by_byte_and_with_others_in_between() -> None:
    whole = PING + ack(PIECE + 1) + PING + redeliver(PIECE + 1) + PING
    expected = frames.opened().receive(whole)
    protocol, got = frames.opened(), []
    for at in range(0, len(whole), 1000):
        got += protocol.receive(whole[at : at + 1000], 1)
    while protocol.waiting:
        got += protocol.receive(b"", 1)
    assert got == expected
    assert len(expected) == 7
