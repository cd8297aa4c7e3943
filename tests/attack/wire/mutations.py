"""What goes wrong with a command: a field, its encoding, the entry behind it, or the frame."""

import random
import struct
from collections.abc import Callable
from typing import Any

import crc32c
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from tests.attack.wire.sessions import Said, Type, something

_F = FieldDescriptor
_SIZES = struct.Struct(">II")
_VARINTS = frozenset(
    (_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM)
)

NUMBERS = [
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    65535,
    65536,
    1_000_000,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 53) + 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 2,
    (1 << 64) - 1,
]
_NAMES = "persistent://public/default/"
TEXTS = [
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    *(
        text.encode()
        for text in (
            "",
            " ",
            "\0",
            "a\0b",
            "\n",
            "a\nb",
            ".",
            "..",
            "../..",
            "/",
            "//",
            "a/b",
            "%00",
            "%",
            "*",
            "(",
            "(a+)+b",
            "[",
            "\\",
            '"',
            "'",
            "{}",
            "\x7f",
            "\u00e9",
            "\u202e",
            "x" * 255,
            "x" * 256,
            "y" * 4096,
            "persistent://",
            "persistent://a",
            "a://b/c/d",
            "public/default",
            "public//default",
            "public/default/.",
            "public/default/a/b/c",
            _NAMES,
            _NAMES + "..",
            _NAMES + "a\nb",
            _NAMES + "%00",
            _NAMES + "z" * 300,
            _NAMES + "x-partition-0",
            "t-partition-2147483648",
            "non-persistent://a/b/c",
            "persistent://no/such/t",
            "pulsar/system",
            "persistent://pulsar/system/x",
        )
    ),
]
RARE_TEXTS = [b"w" * 100_000, b"a/" * 50_000, b"(" * 20_000, b"[" * 20_000, "ü".encode() * 50_000]


def varint(value: int) -> bytes:
    """An encoding of 64 bits."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def frame(body: bytes, entry: bytes = b"") -> bytes:
    """A frame around a command's bytes."""
    return _SIZES.pack(len(body) + 4 + len(entry), len(body)) + body + entry


def mutated(rng: random.Random) -> bytes:
    """A frame of a client that may say anything, with something wrong about it.

    Most of what is wrong leaves the frame readable: a connection that is closed at once attacks
    nothing else.
    """
    said = something(rng)
    (how,) = rng.choices(_HOWS, _WEIGHTS)
    return how(rng, said)


def untouched(rng: random.Random) -> bytes:
    """A frame as it should be."""
    command, entry = something(rng)
    return frame(command.SerializePartialToString(), entry)


def _field_of(command: BaseCommand) -> tuple[FieldDescriptor, Message]:
    field = next(each for each, _ in command.ListFields() if each.name != "type")
    return field, getattr(command, field.name)


def _wrapped(command: BaseCommand, field: FieldDescriptor, body: bytes, entry: bytes) -> bytes:
    kind = b"\x08" + varint(command.type)
    return frame(kind + varint(field.number << 3 | 2) + varint(len(body)) + body, entry)


def _odd_value(rng: random.Random, field: FieldDescriptor) -> bytes:
    """A field's encoding with an extreme value, now and then of another wire type."""
    if field.type in _VARINTS and rng.random() < 0.998:
        value = rng.choice(NUMBERS) if rng.random() < 0.8 else rng.getrandbits(64)
        return varint(field.number << 3) + varint(value)
    if field.type == _F.TYPE_MESSAGE and rng.random() < 0.99:
        inner = b"".join(
            _odd_value(rng, each)
            for each in field.message_type.fields
            if each.is_required or rng.random() < 0.3
        )
        return varint(field.number << 3 | 2) + varint(len(inner)) + inner
    text = rng.choice(TEXTS) if rng.random() < 0.995 else rng.choice(RARE_TEXTS)
    return varint(field.number << 3 | 2) + varint(len(text)) + text


def _odd_field(rng: random.Random, said: Said) -> bytes:
    command, entry = said
    field, message = _field_of(command)
    body = message.SerializePartialToString()
    inner = field.message_type.fields
    if command.type == Type.SEND and rng.random() < 0.95:
        # A SEND of a producer that is not there ends the connection.
        inner = [each for each in inner if each.name != "producer_id"]
    for _ in range(rng.choice((1, 1, 1, 2, 5)) if inner else 0):
        body += _odd_value(rng, rng.choice(inner))
    return _wrapped(command, field, body, entry)


def _missing(rng: random.Random, said: Said) -> bytes:
    command, entry = said
    _, message = _field_of(command)
    given = message.ListFields()
    if given:
        message.ClearField(rng.choice(given)[0].name)
    return frame(command.SerializePartialToString(), entry)


def _many(rng: random.Random, said: Said) -> bytes:
    command, entry = said
    field, message = _field_of(command)
    body = message.SerializePartialToString()
    repeated = [each for each in field.message_type.fields if each.is_repeated]
    if repeated:
        chosen = rng.choice(repeated)
        body += b"".join(_odd_value(rng, chosen) for _ in range(rng.choice((2, 20, 500))))
    return _wrapped(command, field, body, entry)


def _other_command(rng: random.Random, said: Said) -> bytes:
    command, entry = said
    kind = rng.choice([*Type.values(), 1000, (1 << 32) - 1])
    return frame(command.SerializePartialToString() + b"\x08" + varint(kind), entry)


def _odd_entry(rng: random.Random, said: Said) -> bytes:
    command, entry = said
    if not entry:
        return _odd_field(rng, said)
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    raw = metadata.SerializeToString()
    for _ in range(rng.randrange(1, 4)):
        raw += _odd_value(rng, rng.choice(MessageMetadata.DESCRIPTOR.fields))
    if rng.random() < 0.1:
        raw = rng.randbytes(rng.randrange(40))
    payload = rng.choice((b"", b"x" * 50, b"\0\0\0\2\x18\0" * 3, rng.randbytes(30)))
    body = struct.pack(">I", len(raw)) + raw + payload
    return frame(
        command.SerializePartialToString(),
        b"\x0e\x01" + struct.pack(">I", crc32c.crc32c(body)) + body,
    )


def _damaged(rng: random.Random, said: Said) -> bytes:
    """Bytes changed, lost, added: seldom, since it usually ends the connection."""
    command, entry = said
    data = bytearray(frame(command.SerializePartialToString(), entry))
    how = rng.randrange(5)
    if how == 0:
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif how == 1:
        del data[rng.randrange(len(data)) :]
    elif how == 2:
        at = rng.randrange(len(data))
        data[at:at] = rng.randbytes(rng.randrange(20))
    elif how == 3:
        struct.pack_into(">I", data, rng.choice((0, 4)), rng.choice(NUMBERS) & 0xFFFFFFFF)
    else:
        data = bytearray(rng.randbytes(rng.randrange(1, 300)))
    return bytes(data)


_KINDS: list[tuple[float, Callable[[random.Random, Said], bytes]]] = [
    (60, _odd_field),
    (20, _odd_entry),
    (8, _many),
    (0.7, _missing),
    (0.5, _other_command),
    (0.5, _damaged),
]
_HOWS: list[Any] = [how for _, how in _KINDS]
_WEIGHTS = [weight for weight, _ in _KINDS]
