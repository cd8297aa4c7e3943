"""What a replay sends to a broker, and when: to one that answers as a test says."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from counterpoise.app.recordings.replay import Replay, ReplayOptions
from counterpoise.faults.recording import RecordKind, TrafficRecord
from counterpoise.wire.encode import frame_of
from counterpoise.wire.frames import cut_frames
from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.wire.frames import command

THEN, NOW, LATER = (3, 4), (9, 8), (7, 7)


class Broker:
    """Gives the answers of a script, one after each command that has any."""

    def __init__(self, answers: Sequence[Sequence[BaseCommand]], *, leaves: bool = False) -> None:
        self.answers = list(answers)
        self.leaves = leaves
        self.came: list[BaseCommand] = []
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            for each, _ in cut_frames(data):
                self.came.append(each)
                for answer in self.answers.pop(0) if self.answers else ():
                    writer.write(frame_of(answer))
            if self.leaves:
                break
        writer.close()
        self.left.set()


@asynccontextmanager
async def replayed(
    broker: Broker, speed: float | None = None, patience_s: float = 60.0
) -> AsyncIterator[Replay]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        yield Replay(ReplayOptions(host, port, speed, patience_s))


def sent(given: BaseCommand, at_us: int = 0) -> TrafficRecord:
    return TrafficRecord(RecordKind.FROM_CLIENT, 1, at_us, frame_of(given))


def answered(given: BaseCommand) -> TrafficRecord:
    return TrafficRecord(RecordKind.TO_CLIENT, 1, 0, given.SerializeToString())


def placed(field: str, at: tuple[int, int], **values: object) -> BaseCommand:
    given = command(field, **values)
    about = getattr(given, field)
    named = about.message_id
    named = named.add() if field == "ack" else named
    named.ledger_id, named.entry_id = at
    return given


def starting(at: tuple[int, int]) -> BaseCommand:
    given = command("subscribe", topic="t", subscription="s", consumer_id=1, request_id=3)
    given.subscribe.sub_type = 0
    given.subscribe.start_message_id.ledger_id, given.subscribe.start_message_id.entry_id = at
    return given


OPENED = TrafficRecord(RecordKind.OPENED, 1, 0)


async def test_messages_are_named_where_they_are_now_and_receipts_say_where() -> None:
    """A delivery may be of another message than then, and says so of one that no receipt placed."""
    receipt = {"producer_id": 1, "sequence_id": 0}
    message = {"consumer_id": 1}
    broker = Broker(
        [
            [placed("message", LATER, **message)],
            [placed("send_receipt", NOW, **receipt)],
            [placed("message", LATER, **message)],
        ]
    )
    one = command("flow", consumer_id=1, message_permits=1)
    story = [
        OPENED,
        sent(one),
        answered(placed("message", THEN, **message)),
        sent(one),
        answered(placed("send_receipt", THEN, **receipt)),
        sent(one),
        answered(placed("message", THEN, **message)),
        sent(command("ping")),
        sent(command("pong")),
        sent(starting(THEN)),
        sent(placed("ack", THEN, consumer_id=1, ack_type=0)),
        sent(placed("ack", (5, 5), consumer_id=1, ack_type=0)),
        TrafficRecord(RecordKind.CLOSED, 1, 0),
    ]
    async with replayed(broker) as replay:
        await replay.run(story)
        await broker.left.wait()
    kinds = [each.type for each in broker.came]
    assert kinds == [BaseCommand.FLOW] * 3 + [BaseCommand.SUBSCRIBE] + [BaseCommand.ACK] * 2
    assert replay.commands == 6
    start = broker.came[3].subscribe.start_message_id
    [first], [second] = (each.ack.message_id for each in broker.came[4:])
    found = [(each.ledger_id, each.entry_id) for each in (start, first, second)]
    assert found == [NOW, NOW, (5, 5)]


@pytest.mark.parametrize(("speed", "waits"), [(None, []), (1.0, [2.0, 3.0]), (2.0, [1.0, 1.5])])
async def test_a_replay_keeps_the_pauses_as_fast_as_was_said(
    monkeypatch: pytest.MonkeyPatch, speed: float | None, waits: list[float]
) -> None:
    asked: list[float] = []
    turn = asyncio.sleep

    async def sleep(seconds: float) -> None:
        asked.append(seconds)
        await turn(0)

    async with replayed(Broker([]), speed) as replay:
        monkeypatch.setattr(asyncio, "sleep", sleep)
        flow = command("flow", consumer_id=1, message_permits=1)
        await replay.run([OPENED, sent(flow, 2_000_000), sent(flow, 3_000_000)])
    assert asked[1:] == pytest.approx(waits, abs=0.5)


async def test_what_a_broker_that_left_is_not_sent_is_a_difference() -> None:
    flow = command("flow", consumer_id=1, message_permits=1)
    receipt = placed("send_receipt", THEN, producer_id=1, sequence_id=0)
    broker = Broker([], leaves=True)
    async with replayed(broker) as replay:
        await replay.run([OPENED, sent(flow), answered(receipt), sent(flow), sent(flow)])
    assert replay.differences() == [
        "connection 1: the broker disconnected now; 2 commands could not be sent",
        "connection 1: message 0 of send 1 was answered with done then, with nothing now",
    ]
