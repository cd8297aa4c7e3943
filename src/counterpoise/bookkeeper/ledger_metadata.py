"""A ledger's metadata, as BookKeeper stores them in formats 2 and 3 (``LedgerMetadataSerDe``).

A ledger is an append-only list of entries that has one writer. An ensemble of E bookies stores it.
Each entry is on W of them (the write quorum), and acknowledged when A have it (the ack quorum).
When a bookie fails while a ledger is written, a new segment begins with another ensemble.
"""

import enum
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from counterpoise.bookkeeper.errors import UnreadableNode
from counterpoise.bookkeeper.proto.ledgers_pb2 import LedgerMetadataFormat
from counterpoise.wire.varint import varint

_MAGIC: Final = b"BookieMetadataFormatVersion\t"
_VARINT_SHIFT_MAX: Final = 28
NO_ENTRY: Final = -1
"""The id of the last entry if a ledger has none, or if its last entry is not known."""


class LedgerState(enum.Enum):
    """Whether a ledger is open, in recovery, or closed."""

    OPEN = LedgerMetadataFormat.OPEN
    IN_RECOVERY = LedgerMetadataFormat.IN_RECOVERY
    CLOSED = LedgerMetadataFormat.CLOSED


class DigestType(enum.Enum):
    """The kind of checksum of a ledger's entries."""

    CRC32 = LedgerMetadataFormat.CRC32
    HMAC = LedgerMetadataFormat.HMAC
    CRC32C = LedgerMetadataFormat.CRC32C
    DUMMY = LedgerMetadataFormat.DUMMY


@dataclass(frozen=True, slots=True)
class LedgerSegment:
    """From entry ``first`` up to the next segment: the bookies (ensemble) of the entries."""

    first: int
    ensemble: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """The metadata of one ledger. ``length`` and ``last_entry`` are valid only if it is closed."""

    ledger: int
    state: LedgerState
    write_quorum: int
    ack_quorum: int
    length: int
    last_entry: int
    segments: tuple[LedgerSegment, ...]
    digest: DigestType
    password: bytes
    created_ms: int
    """When it was created, milliseconds since 1970; 0 if neither metadata nor store has it."""
    custom: Mapping[str, bytes]
    """The application's keys and values; Pulsar's name the topic or cursor that the ledger belongs
    to."""
    token: int = 0
    """A random number by which the creator recognises its own node if the response to the creation
    was lost; 0 for none."""

    @property
    def closed(self) -> bool:
        """Whether the ledger is closed, so that its last entry is known."""
        return self.state is LedgerState.CLOSED

    @property
    def ensemble_size(self) -> int:
        """The number of bookies of each segment."""
        return len(self.segments[0].ensemble)

    def write_set(self, entry: int) -> tuple[str, ...]:
        """The bookies that have an entry, in the order in which to ask them.

        Java's ``RoundRobinDistributionSchedule``: entry e is on members (e + i) mod E.
        """
        at = bisect_right(self.segments, entry, key=lambda each: each.first) - 1
        ensemble = self.segments[max(at, 0)].ensemble
        return tuple(ensemble[(entry + step) % len(ensemble)] for step in range(self.write_quorum))

    def bookies(self) -> tuple[str, ...]:
        """Every bookie in the ensemble of any segment, sorted."""
        return tuple(sorted({each for segment in self.segments for each in segment.ensemble}))

    def spans(self, last_entry: int) -> Iterator[tuple[LedgerSegment, int]]:
        """Each segment with the number of entries in it, up to ``last_entry``."""
        ends = [each.first for each in self.segments[1:]] + [last_entry + 1]
        for segment, end in zip(self.segments, ends, strict=True):
            yield segment, max(0, min(end, last_entry + 1) - segment.first)


def read_ledger_metadata(
    ledger: int, path: str, value: bytes, created_ms: int = 0
) -> LedgerMetadata:
    """Parse the value of a ledger's node; raises `UnreadableNode`.

    ``created_ms``: when the node was created, since Pulsar's brokers do not write it into the
    metadata.
    """
    found = LedgerMetadataFormat()
    try:
        version, body = _version_and_body(value)
        if version == 3:
            found.ParseFromString(_delimited(body))
        elif version == 2:
            text_format.Parse(body.decode(), found, allow_unknown_field=True)
        else:
            raise ValueError(f"format {version} of a ledger's metadata is not 2 or 3")
        if not found.IsInitialized():
            raise ValueError("a field that each has is missing")
        return _checked(ledger, found, created_ms)
    except (ValueError, DecodeError, text_format.ParseError, RecursionError) as error:
        raise UnreadableNode(path, f"not a ledger's metadata: {error}") from None


def _version_and_body(value: bytes) -> tuple[int, bytes]:
    head, mark, body = value.partition(b"\n")
    version = head.removeprefix(_MAGIC)
    if not mark or not head.startswith(_MAGIC) or not version.isdigit() or len(version) > 4:
        raise ValueError(f"it begins with {value[:40]!r}")
    return int(version), body


def _delimited(body: bytes) -> bytes:
    """Return the message behind a variable-length integer that states its size."""
    size = shift = at = 0
    while True:
        if at >= len(body) or shift > _VARINT_SHIFT_MAX:
            raise ValueError("its size cannot be read")
        size |= (body[at] & 0x7F) << shift
        at += 1
        if body[at - 1] < 0x80:
            break
        shift += 7
    if size > len(body) - at:
        raise ValueError(f"{size} bytes announced, {len(body) - at} there: it is cut off")
    return body[at : at + size]


def _checked(ledger: int, found: LedgerMetadataFormat, created_ms: int) -> LedgerMetadata:
    """Convert a parsed message to `LedgerMetadata`; raises `ValueError` for an invalid field."""
    segments = tuple(
        LedgerSegment(each.firstEntryId, tuple(each.ensembleMember)) for each in found.segment
    )
    firsts = [each.first for each in segments]
    if not segments or firsts[0] != 0 or firsts != sorted(set(firsts)):
        raise ValueError(f"its segments begin at {firsts}, not at 0 and upwards")
    if any(len(each.ensemble) != found.ensembleSize for each in segments):
        raise ValueError(f"an ensemble that has not {found.ensembleSize} bookies")
    ack_quorum = found.ackQuorumSize if found.HasField("ackQuorumSize") else found.quorumSize
    if not 1 <= ack_quorum <= found.quorumSize <= found.ensembleSize:
        raise ValueError(
            f"ensemble {found.ensembleSize}, write quorum {found.quorumSize} and ack quorum "
            f"{ack_quorum} are not in descending order from 1 on"
        )
    closed = found.state == LedgerMetadataFormat.CLOSED
    if closed and (found.length < 0 or found.lastEntryId < NO_ENTRY):
        raise ValueError(f"closed at entry {found.lastEntryId} with {found.length} bytes")
    return LedgerMetadata(
        ledger,
        LedgerState(found.state),
        found.quorumSize,
        ack_quorum,
        found.length if closed else 0,
        found.lastEntryId if closed and found.HasField("lastEntryId") else NO_ENTRY,
        segments,
        # Java takes both from its own settings where the metadata has no password.
        DigestType(found.digestType) if found.HasField("password") else DigestType.CRC32C,
        found.password,
        found.ctime or created_ms,
        {each.key: each.value for each in found.customMetadata},
        found.cToken,
    )


def write_ledger_metadata(ledger: LedgerMetadata) -> bytes:
    """The value of a ledger's node, in format 3."""
    made = LedgerMetadataFormat(
        quorumSize=ledger.write_quorum,
        ensembleSize=ledger.ensemble_size,
        length=ledger.length if ledger.closed else 0,
        lastEntryId=ledger.last_entry if ledger.closed else NO_ENTRY,
        state=ledger.state.value,
        digestType=ledger.digest.value,
        # Java takes digest and password from its own settings where the metadata has no password.
        password=ledger.password,
        ackQuorumSize=ledger.ack_quorum,
    )
    if ledger.created_ms:
        made.ctime = ledger.created_ms
    if ledger.token:
        made.cToken = ledger.token
    for segment in ledger.segments:
        made.segment.add(firstEntryId=segment.first, ensembleMember=segment.ensemble)
    for key, value in ledger.custom.items():
        made.customMetadata.add(key=key, value=value)
    body = made.SerializeToString()
    return b"%s3\n%s%s" % (_MAGIC, varint(len(body)), body)
