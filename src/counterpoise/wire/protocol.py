"""The server's end of a client connection, without any I/O: bytes in, events out.

Rules that hold here:

- `ServerProtocol.receive` never raises for what a peer sent. A frame that breaks the protocol
  becomes a `Violation`, the last event there will ever be; the events before it stand.
- A command that lists very many positions becomes several events, each a piece of the list.
- The events do not depend on how the stream was cut into chunks, nor on how many of them are taken
  at a time: bytes whose turn has not come wait here, undecoded.
- Whether a command may come is decided by the tables of `states` alone. What the broker itself
  does to a producer or a consumer is reported by `change_producer` and `change_consumer`.
"""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError

from counterpoise.wire import entry as entries
from counterpoise.wire.checks import COMMAND_SIZE_MAX, what_is_wrong
from counterpoise.wire.constants import DEFAULT_MAX_MESSAGE_SIZE, FRAME_PADDING
from counterpoise.wire.decode import IN_PIECES, PIECE, READERS
from counterpoise.wire.decode_sends import decode_sends
from counterpoise.wire.errors import ProtocolViolationError, ServerError
from counterpoise.wire.events import (
    Event,
    RequestRefused,
    Send,
    SendRefused,
    TransactionSend,
    Violation,
)
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.receive_buffer import LENGTH_SIZE, ReceiveBuffer
from counterpoise.wire.states import (
    CONNECTION,
    CONSUMER,
    PRODUCER,
    ConnectionState,
    PeerChange,
    PeerState,
)

_Pieces = tuple[Iterator[Event], Any, int, int]
"""What is left of a command read in pieces: events, the command, its type, its frame's offset."""
_ALL = 1 << 62
PIECE_WEIGHT: Final = 64
"""A piece of a long list counts as this many frames of ``most`` in `ServerProtocol.receive`."""
FRAME_SHIFT: Final = 12
"""A frame counts as one more for every 2 to this power bytes (four kilobytes).

Ten thousand properties take long to decode."""
_Type = BaseCommand.Type
# Looked up once: they are compared at every read, and looking up an enum's member costs a call.
_CONNECTING: Final = ConnectionState.CONNECTING
_OPEN: Final = ConnectionState.OPEN
_FAILED: Final = ConnectionState.FAILED
_PRODUCER_COMMANDS = frozenset(key for _, key in PRODUCER if not isinstance(key, PeerChange))
_CONSUMER_COMMANDS = frozenset(key for _, key in CONSUMER if not isinstance(key, PeerChange))


class ServerProtocol:
    """The broker's side of one client connection: turns received bytes into events. Does no I/O.

    ``max_message_size`` is in bytes.
    """

    __slots__ = (
        "_authenticates",
        "_begin",
        "_buffer",
        "_consumers",
        "_frame_size_max",
        "_pieces",
        "_position",
        "_producers",
        "_state",
        "waiting",
    )

    def __init__(
        self, max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE, *, authenticates: bool = False
    ) -> None:
        """``authenticates``: requests after CONNECT wait until `admit` is called."""
        self._authenticates = authenticates
        self._frame_size_max = max_message_size + FRAME_PADDING
        self._buffer = ReceiveBuffer()
        self._state = ConnectionState.AWAITING_CONNECT
        self._producers: dict[int, PeerState] = {}
        self._consumers: dict[int, PeerState] = {}
        self.waiting = b""
        """Received bytes that are not decoded yet: while there are any, call `receive` again,
        without bytes."""
        self._begin = 0
        """The offset in `waiting` at which the next frame begins."""
        self._pieces: _Pieces | None = None
        """What is left of a command that is read in pieces, and its place in the stream."""
        self._position = 0
        """Offset in the stream of the next byte to read, or of the first in `waiting`; for error
        messages."""

    @property
    def state(self) -> ConnectionState:
        """The state of the connection."""
        return self._state

    def admit(self) -> None:
        """Accept the client after its CONNECT was authenticated: its further commands are decoded
        from now on.
        """
        if self._state is ConnectionState.CONNECTING:
            self._state = ConnectionState.OPEN

    def producer_state(self, producer_id: int) -> PeerState:
        """The state of the producer with this id; `PeerState.ABSENT` if there is none."""
        return self._producers.get(producer_id, PeerState.ABSENT)

    def consumer_state(self, consumer_id: int) -> PeerState:
        """The state of the consumer with this id; `PeerState.ABSENT` if there is none."""
        return self._consumers.get(consumer_id, PeerState.ABSENT)

    def change_producer(self, producer_id: int, change: PeerChange) -> None:
        """Record what the broker did to a producer; KeyError if its state forbids that."""
        step = PRODUCER[self.producer_state(producer_id), change]
        _enter(self._producers, producer_id, step.next)

    def change_consumer(self, consumer_id: int, change: PeerChange) -> None:
        """Record what the broker did to a consumer; KeyError if its state forbids that."""
        step = CONSUMER[self.consumer_state(consumer_id), change]
        _enter(self._consumers, consumer_id, step.next)

    def receive(self, data: bytes, most: int = _ALL) -> list[Event]:
        """Decode the next bytes of the stream, and return the events that they complete.

        At most ``most`` events are returned; undecoded bytes stay in `waiting`.
        """
        events: list[Event] = []
        if self._state is _FAILED:
            return events
        if self._state is _CONNECTING:
            self.waiting += data
            return events
        if self.waiting:
            data, begin = self.waiting + data, self._begin
            self.waiting, self._begin = b"", 0
            self._serve(data, begin, events, most)
            return events
        at = 0
        if self._buffer.buffered:
            begun, at = self._buffer.take(data)
            if begun:
                self._serve(begun, 0, events, most)
                # That frame counts towards ``most``.
                most -= 1
            if self.waiting:
                self.waiting += data[at:]
                return events
            if self.state is _FAILED:
                return events
        if at < len(data):
            self._position -= at
            self._serve(data, at, events, most)
        return events

    def _serve(self, data: bytes, begin: int, events: list[Event], most: int) -> None:
        """Decode frames from ``begin`` on into ``events``, at most ``most``.

        The rest waits for a later call, or for the bytes that complete it. ``_position`` is the
        offset of ``data`` in the stream, and afterwards that of what follows.
        """
        end = len(data)
        needed = LENGTH_SIZE
        odd = 0
        try:
            while begin < end or self._pieces is not None:
                connecting = self._state is _CONNECTING
                if len(events) >= most or odd >= most or connecting:
                    self.waiting, self._begin = data, begin
                    return
                if self._pieces is not None:
                    odd += PIECE_WEIGHT
                    self._next_piece(self._pieces, events)
                    continue
                if self._state is _OPEN:
                    begin = decode_sends(
                        data, begin, end, self._frame_size_max, self._producers, events, most
                    )
                    if len(events) >= most:
                        continue
                needed = self._frame_size(data, begin, end)
                if needed > end - begin:
                    break
                odd += 1 + (needed >> FRAME_SHIFT)
                self._frame(data[begin + LENGTH_SIZE : begin + needed], begin, events)
                begin += needed
        except ProtocolViolationError as error:
            self._state = _FAILED
            events.append(Violation(error))
            return
        self._position += begin
        if begin < end:
            self._buffer.keep(data[begin:], needed)

    def _frame_size(self, data: bytes, begin: int, end: int) -> int:
        """How many bytes the frame at ``begin`` takes, its length field included."""
        if end - begin < LENGTH_SIZE:
            return LENGTH_SIZE
        total = int.from_bytes(data[begin : begin + LENGTH_SIZE], "big")
        if total > self._frame_size_max:
            raise self._broken(
                f"a frame of {total} bytes, the limit is {self._frame_size_max}", begin
            )
        if total < LENGTH_SIZE:
            raise self._broken(f"a frame of {total} bytes has no room for a command", begin)
        return LENGTH_SIZE + total

    def _frame(self, frame: bytes, begin: int, events: list[Event]) -> None:
        size = int.from_bytes(frame[:LENGTH_SIZE], "big")
        command_end = LENGTH_SIZE + size
        if command_end > len(frame):
            raise self._broken(f"a command of {size} bytes in a frame of {len(frame)}", begin)
        if size > COMMAND_SIZE_MAX:
            raise self._broken(f"a command of {size} bytes, the limit is {COMMAND_SIZE_MAX}", begin)
        try:
            command = BaseCommand.FromString(frame[LENGTH_SIZE:command_end])
        except DecodeError as error:
            raise self._broken(f"the command cannot be read: {error}", begin) from None
        # The parser lets missing fields pass; an unknown type of command counts as missing.
        if not command.IsInitialized():
            missing = ", ".join(command.FindInitializationErrors())  # type: ignore[attr-defined]
            raise self._broken(f"the command lacks {missing}", begin)
        kind = command.type
        following = CONNECTION.get((self._state, kind))
        if following is None:
            raise self._broken(f"not allowed while {self._state.name}", begin, kind)
        field, read = READERS[kind]
        if not command.HasField(field):
            raise self._broken(f"its field {field!r} is missing", begin, kind)
        request = getattr(command, field)
        wrong = what_is_wrong(kind, request)
        if wrong is not None:
            raise self._broken(wrong, begin, kind)
        if kind == _Type.CONNECT and self._authenticates:
            following = ConnectionState.CONNECTING
        self._state = following
        if kind in IN_PIECES:
            listed, in_pieces = IN_PIECES[kind]
            if len(getattr(request, listed)) > PIECE:
                self._pieces = in_pieces(request), request, kind, begin
                return
        self._admit(read(request, frame[command_end:]), request, kind, begin, events)

    def _next_piece(self, pieces: _Pieces, events: list[Event]) -> None:
        """Append the event of the next piece, if its producer or consumer still exists."""
        events_of, request, kind, begin = pieces
        event = next(events_of, None)
        if event is None:
            self._pieces = None
        else:
            self._admit(event, request, kind, begin, events)

    def _admit(
        self, event: Event, request: Any, kind: int, begin: int, events: list[Event]
    ) -> None:
        """Append the event if the state table of its producer or consumer allows it."""
        if kind in _PRODUCER_COMMANDS:
            table, peers, peer = PRODUCER, self._producers, request.producer_id
        elif kind in _CONSUMER_COMMANDS:
            table, peers, peer = CONSUMER, self._consumers, request.consumer_id
        else:
            events.append(event)
            return
        state = peers.get(peer, PeerState.ABSENT)
        step = table.get((state, kind))
        if step is None:
            raise self._broken(f"id {peer} is {state.name}", begin, kind)
        _enter(peers, peer, step.next)
        if step.discard:
            return
        if step.refuse is not None:
            events.append(RequestRefused(request.request_id, *step.refuse))
        elif isinstance(event, Send):
            events.append(self._checked(event, begin))
        elif isinstance(event, TransactionSend):
            checked = self._checked(event.send, begin)
            events.append(event._replace(send=checked) if isinstance(checked, Send) else checked)
        else:
            events.append(event)

    def _checked(self, send: Send, begin: int) -> Send | SendRefused:
        try:
            entries.split(send.entry)
        except entries.BadEntry as error:
            raise self._broken(str(error), begin, _Type.SEND) from None
        code, why = ServerError.ChecksumError, "Checksum failed on the broker"
        if entries.verify_checksum(send.entry):
            try:
                return send._replace(messages=entries.messages_in(send.entry))
            except entries.BadEntry as error:
                code, why = ServerError.NotAllowedError, f"The entry is refused: {error}"
        return SendRefused(send.producer_id, send.sequence_id, code, why)

    def _broken(self, what: str, begin: int, kind: int | None = None) -> ProtocolViolationError:
        name = "a frame" if kind is None else f"a {_Type.Name(kind)} frame"
        return ProtocolViolationError(
            what, f"{name} at byte {self._position + begin} of the stream"
        )


def _enter(peers: dict[int, PeerState], peer: int, state: PeerState) -> None:
    """Set the state of a producer or consumer; one that is absent is removed from ``peers``."""
    if state is PeerState.ABSENT:
        peers.pop(peer, None)
    else:
        peers[peer] = state
