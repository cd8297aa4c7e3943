"""BookKeeper's binary protocol, version 2, as far as a reader needs it: bytes in, answers out.

A frame is its length (4 bytes), a header (version 8 bits, opcode 8, flags 16) and a body.
A READ request here never has a flag: ``DO_FENCING`` would end the ledger for its writer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

LAST_ENTRY: Final = -1
"""The entry to ask for to get the last one that a bookie has of a ledger."""
FRAME_MAX: Final = 5_253_120
"""What Pulsar gives bookies as ``nettyMaxFrameSizeBytes``: its largest message and 10 KiB."""

_VERSION: Final = 2
_READ: Final = 2
_REQUEST: Final = struct.Struct(">iBBHqq")
_LENGTH: Final = struct.Struct(">i")
_ANSWER: Final = struct.Struct(">BBHiqq")

OK: Final = 0
NO_LEDGER: Final = 1
NO_ENTRY: Final = 2
REASONS: Final = {
    NO_LEDGER: "it has no such ledger",
    NO_ENTRY: "it has no such entry",
    100: "it refused the request (100)",
    101: "it could not read its disk (101)",
    102: "it refuses who asks (102): it wants a client that authenticates",
    103: "it does not speak version 2 of the protocol (103)",
    104: "the ledger is fenced (104)",
    105: "it is read-only (105)",
    106: "it has too many requests (106)",
    107: "it does not know the ledger's state (107)",
}


class BadFrame(ValueError):
    """Bytes that no bookie sends; the connection cannot go on."""


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """What a bookie answered to a READ; ``stored`` is empty unless the code is `OK`."""

    code: int
    ledger: int
    entry: int
    stored: bytes


def read_request(ledger: int, entry: int) -> bytes:
    """A READ that changes nothing on the bookie."""
    return _REQUEST.pack(_REQUEST.size - _LENGTH.size, _VERSION, _READ, 0, ledger, entry)


class AnswerDecoder:
    """Cuts what a connection receives into answers; never holds more than one frame's bytes."""

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self._frame_max = frame_max
        self._held = bytearray()

    def receive(self, data: bytes) -> list[ReadAnswer]:
        """The answers that are complete now; raises `BadFrame`."""
        self._held += data
        answers = []
        begin = 0
        while len(self._held) - begin >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._held, begin)
            if not _ANSWER.size <= size <= self._frame_max:
                raise BadFrame(
                    f"a frame of {size} bytes, not {_ANSWER.size} to {self._frame_max} "
                    "(nettyMaxFrameSizeBytes)"
                )
            begin += _LENGTH.size
            if len(self._held) - begin < size:
                begin -= _LENGTH.size
                break
            answers.append(_answer(self._held, begin, size))
            begin += size
        del self._held[:begin]
        return answers


def _answer(held: bytearray, begin: int, size: int) -> ReadAnswer:
    version, opcode, _, code, ledger, entry = _ANSWER.unpack_from(held, begin)
    if (version, opcode) != (_VERSION, _READ):
        raise BadFrame(f"an answer of version {version} to operation {opcode}")
    return ReadAnswer(code, ledger, entry, bytes(held[begin + _ANSWER.size : begin + size]))
