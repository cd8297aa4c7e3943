"""BookKeeper's binary protocol, version 2: encodes requests and decodes responses.

A frame is its length (4 bytes), a header (version 8 bits, opcode 8, flags 16) and a body. A request
has no number: a response names its operation, ledger and entry.
"""

import struct
from typing import Final, NamedTuple

LAST_ENTRY: Final = -1
"""The entry id in a READ that asks for the last entry that the bookie has of the ledger."""
FRAME_MAX: Final = 5_253_120
"""The default of ``nettyMaxFrameSizeBytes`` in Pulsar's bookies: the largest message and 10 KiB."""
MASTER_KEY_SIZE: Final = 20
ADD_OVERHEAD_MAX: Final = 128
"""The most bytes that a frame which adds an entry has besides the payload, whatever the digest."""

ADD: Final = 1
READ: Final = 2

_DO_FENCING: Final = 1
_RECOVERY_ADD: Final = 2
_HIGH_PRIORITY: Final = 4

_VERSION: Final = 2
_HEADER: Final = struct.Struct(">iBBH")
_READ_REQUEST: Final = struct.Struct(">iBBHqq")
_LENGTH: Final = struct.Struct(">i")
_ANSWER: Final = struct.Struct(">iBBHiqq")
_ANSWER_SIZE: Final = _ANSWER.size - _LENGTH.size

_NOT_AUTHORISED: Final = bytes.fromhex("0a060803100918")
"""The first bytes of the second response to START_TLS, of version 3, by which
``BookieAuthZFactory`` refuses a client."""

OK: Final = 0
NO_LEDGER: Final = 1
NO_ENTRY: Final = 2
UNAUTHORISED: Final = 102
FENCED: Final = 104
_REASONS: Final = {
    NO_LEDGER: "it has no such ledger",
    NO_ENTRY: "it has no such entry",
    100: "it refused the request (100)",
    101: "it could not read or write its disk (101)",
    UNAUTHORISED: "it refuses this client (102): the ledger has another password, or the bookie "
    "wants a client with a certificate (bookkeeperTLSClientAuthentication=true, "
    "bookkeeperTLSCertificateFilePath)",
    103: "it does not speak version 2 of the protocol (103)",
    FENCED: "the ledger is fenced (104)",
    105: "it is read-only (105)",
    106: "it has too many requests (106)",
    107: "it does not know the ledger's state (107)",
}


class BadFrame(ValueError):
    """The received bytes are not a bookie's response; the connection cannot be used any more."""


class BookieRequest(NamedTuple):
    """A request; its response has the same operation, ledger and entry."""

    operation: int
    ledger: int
    entry: int
    frame: bytes


class BookieAnswer(NamedTuple):
    """A bookie's response; ``stored`` is empty unless an entry was read.

    A named tuple, since each copy of each entry has one: a frozen dataclass takes four times as
    long to make.
    """

    operation: int
    code: int
    ledger: int
    entry: int
    stored: bytes = b""

    @property
    def reason(self) -> str:
        """What the response's error code means, for a message."""
        return _REASONS.get(self.code, f"it answered {self.code}")


def read_request(ledger: int, entry: int) -> BookieRequest:
    """A READ that changes nothing on the bookie."""
    size = _READ_REQUEST.size - _LENGTH.size
    frame = _READ_REQUEST.pack(size, _VERSION, READ, 0, ledger, entry)
    return BookieRequest(READ, ledger, entry, frame)


def fencing_read_request(ledger: int, entry: int, master_key: bytes) -> BookieRequest:
    """A READ after which the bookie accepts entries of this ledger only from a recovery."""
    size = _READ_REQUEST.size - _LENGTH.size + MASTER_KEY_SIZE
    flags = _DO_FENCING | _HIGH_PRIORITY
    frame = _READ_REQUEST.pack(size, _VERSION, READ, flags, ledger, entry) + master_key
    return BookieRequest(READ, ledger, entry, frame)


def add_request(
    ledger: int, entry: int, master_key: bytes, head: bytes, payload: bytes, *, recovery: bool
) -> BookieRequest:
    """An ADD of a stored entry: its ``head`` and its payload.

    With ``recovery`` a bookie accepts it although the ledger is fenced.
    """
    size = _HEADER.size - _LENGTH.size + MASTER_KEY_SIZE + len(head) + len(payload)
    flags = _RECOVERY_ADD | _HIGH_PRIORITY if recovery else 0
    header = _HEADER.pack(size, _VERSION, ADD, flags)
    return BookieRequest(ADD, ledger, entry, b"".join((header, master_key, head, payload)))


class AnswerDecoder:
    """Parses responses from received bytes; never buffers more than one frame."""

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self._frame_max = frame_max
        self._held = bytearray()

    def receive(self, data: bytes) -> list[BookieAnswer]:
        """Parse received bytes; returns the responses that are complete now. Raises `BadFrame`."""
        held, begin = self._held, 0
        held += data
        answers = []
        while len(held) - begin >= _ANSWER.size:
            size, version, operation, _, code, ledger, entry = _ANSWER.unpack_from(held, begin)
            end = begin + _LENGTH.size + size
            if not _ANSWER_SIZE <= size <= self._frame_max or end > len(held):
                break
            if version != _VERSION or operation not in (ADD, READ):
                raise BadFrame(f"an answer of version {version} to operation {operation}")
            stored = bytes(held[begin + _ANSWER.size : end]) if size > _ANSWER_SIZE else b""
            answers.append(BookieAnswer(operation, code, ledger, entry, stored))
            begin = end
        del held[:begin]
        self._check_size()
        return answers

    def _check_size(self) -> None:
        """Raise `BadFrame` for a size that no bookie's response has, before the frame is
        complete.
        """
        if len(self._held) < _LENGTH.size:
            return
        (size,) = _LENGTH.unpack_from(self._held)
        if _ANSWER_SIZE <= size <= self._frame_max:
            return
        if self._held.startswith(_NOT_AUTHORISED, _LENGTH.size):
            raise BadFrame(
                "a refusal of the client's certificate, whose subject names no role "
                "(OU=0:role) of the bookie's authorizedRoles"
            )
        raise BadFrame(
            f"a frame of {size} bytes, not {_ANSWER_SIZE} to {self._frame_max} "
            "(nettyMaxFrameSizeBytes)"
        )
