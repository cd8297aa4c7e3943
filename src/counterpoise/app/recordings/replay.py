"""Replays clients' recorded commands against a broker, and compares its responses."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from counterpoise.app.recordings.replayed_answers import Answer, AnswerKey, AnswerLog, answer_of
from counterpoise.faults.recording import RecordKind, TrafficRecord
from counterpoise.wire.encode import PONG, frame_of
from counterpoise.wire.frames import cut_frames, frames_in
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.values_pb2 import MessageIdData

_CHUNK: Final = 1 << 16
_KEEP_ALIVE: Final = (BaseCommand.PING, BaseCommand.PONG)
_NAMING_MESSAGES: Final = (
    BaseCommand.ACK,
    BaseCommand.SEEK,
    BaseCommand.SUBSCRIBE,
    BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES,
)


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The broker to replay a recording against, and how fast."""

    host: str
    port: int
    speed: float | None
    """How fast to replay: 1 keeps the recorded pauses between commands; None: as soon as answers
    allow."""
    patience_s: float
    """How many seconds to wait for each response that was recorded."""


class ReplayedConnection:
    """One connection of a recording: sends the recorded commands, and collects the responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.log = AnswerLog()
        self._reader = reader
        self._writer = writer
        self._changed = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def send(self, frame: bytes) -> None:
        """Send a frame; if the broker has closed the connection, count it as not sent instead."""
        if self._reading.done():
            self.log.unsent += 1
            return
        self._writer.write(frame)
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def wait_for(self, key: AnswerKey, within_s: float) -> None:
        """Wait until as many responses with this key have come as have been recorded so far.

        After `within_s` seconds, or if the broker disconnects, gives up the missing ones.
        """
        log = self.log
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while log.missing(key) and not self._reading.done():
                    self._changed.clear()
                    await self._changed.wait()
        log.give_up(key)

    async def close(self) -> None:
        """Disconnect from the broker."""
        self._reading.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        buffer = bytearray()
        try:
            while data := await self._reader.read(_CHUNK):
                buffer += data
                for command, _ in frames_in(buffer):
                    if command.type == BaseCommand.PING:
                        self._writer.write(PONG)
                    elif (answer := answer_of(command)) is not None:
                        self.log.now[answer.key].append(answer)
                self._changed.set()
        except ConnectionError:
            pass
        finally:
            self._changed.set()


@dataclass(slots=True)
class Replay:
    """One replay of a recording against one broker."""

    options: ReplayOptions
    logs: dict[int, AnswerLog] = field(default_factory=dict)
    commands: int = 0
    _open: dict[int, ReplayedConnection] = field(default_factory=dict)
    positions: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """For positions of messages in the recording, (ledger id, entry id), those in the replay."""

    async def run(self, records: Iterable[TrafficRecord]) -> None:
        """Replay all records in order; raises `OSError` if the broker cannot be reached."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            for record in records:
                if self.options.speed is not None:
                    due = began + record.at_us / 1e6 / self.options.speed
                    await asyncio.sleep(max(0.0, due - loop.time()))
                await self._take(record)
        finally:
            for connection in self._open.values():
                await connection.close()

    async def _take(self, record: TrafficRecord) -> None:
        if record.kind is RecordKind.OPENED:
            streams = await asyncio.open_connection(self.options.host, self.options.port)
            opened = self._open[record.connection] = ReplayedConnection(*streams)
            self.logs[record.connection] = opened.log
            return
        connection = self._open.get(record.connection)
        if connection is None:
            return
        if record.kind is RecordKind.CLOSED:
            await self._open.pop(record.connection).close()
        elif record.kind is RecordKind.FROM_CLIENT:
            frame = self._again(record.data, connection.log)
            if frame:
                self.commands += 1
                await connection.send(frame)
        else:
            answer = answer_of(BaseCommand.FromString(record.data))
            if answer is not None:
                connection.log.then[answer.key].append(answer)
                await connection.wait_for(answer.key, self.options.patience_s)
                self._pair(answer, connection.log)

    def _again(self, frame: bytes, log: AnswerLog) -> bytes:
        """Return a recorded frame in which positions of messages are those of the replay.

        Empty for a keep-alive, which is not sent. The log of its connection learns the names of
        producers and consumers.
        """
        [(command, _)] = cut_frames(frame)
        log.name_peers(command)
        if command.type in _KEEP_ALIVE:
            return b""
        if command.type not in _NAMING_MESSAGES:
            return frame
        for position in _positions_in(command):
            new = self.positions.get((position.ledger_id, position.entry_id))
            if new is not None:
                position.ledger_id, position.entry_id = new
        return frame_of(command)

    def _pair(self, then: Answer, log: AnswerLog) -> None:
        """Remember a message's position in the replay, from its receipt or else from its delivery.

        A receipt names its message; deliveries are matched by their order, which may differ.
        """
        now = log.counterpart(then.key)
        if now is None or now.position is None or then.position is None:
            return
        if then.key[0] == "send":
            self.positions[then.position] = now.position
        else:
            self.positions.setdefault(then.position, now.position)

    def differences(self) -> list[str]:
        """The responses that differ from the recording, one sentence each."""
        found: list[str] = []
        for number, log in sorted(self.logs.items()):
            sentences = log.differences(self.positions)
            found.extend(f"connection {number}: {sentence}" for sentence in sentences)
        return found


def _positions_in(command: BaseCommand) -> Iterator[MessageIdData]:
    if command.type == BaseCommand.ACK:
        yield from command.ack.message_id
    elif command.type == BaseCommand.SEEK and command.seek.HasField("message_id"):
        yield command.seek.message_id
    elif command.type == BaseCommand.SUBSCRIBE and command.subscribe.HasField("start_message_id"):
        yield command.subscribe.start_message_id
    elif command.type == BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES:
        yield from command.redeliver_unacknowledged_messages.message_ids
