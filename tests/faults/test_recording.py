"""The file of a recording: what is written is read back, and damage is refused by its place."""

import io
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.faults.errors import InvalidRecording
from counterpoise.faults.recording import HEADER, RecordKind, TrafficRecord, read_recording

records = st.builds(
    TrafficRecord,
    st.sampled_from(RecordKind),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=20),
)
OPENED = TrafficRecord(RecordKind.OPENED, 1, 5)
SENT = TrafficRecord(RecordKind.FROM_CLIENT, 258, 77, b"frame")


def read(data: bytes) -> list[TrafficRecord]:
    return list(read_recording(io.BytesIO(HEADER + data)))


@given(st.lists(records))
def test_records_are_read_back_and_know_their_size(written: list[TrafficRecord]) -> None:
    data = [each.to_bytes() for each in written]
    assert read(b"".join(data)) == written
    assert [each.size for each in written] == list(map(len, data))


def test_a_record_is_laid_out_as_the_format_says() -> None:
    """Length and checksum; kind, connection and microseconds, the higher bytes first; the frame."""
    body = b"\x02" + b"\0\0\x01\x02" + b"\0" * 7 + b"\x4d" + b"frame"
    assert SENT.to_bytes() == struct.pack(">II", len(body), zlib.crc32(body)) + body


@given(st.integers(0, SENT.size - 1))
def test_a_last_record_that_is_cut_off_is_left_out(kept: int) -> None:
    assert read(OPENED.to_bytes() + SENT.to_bytes()[:kept]) == [OPENED]


def changed(body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return struct.pack(">II", size, zlib.crc32(body)) + body


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (SENT.to_bytes()[:-1] + b"x", "its checksum does not match"),
        (changed(b"\x09" + bytes(12)), "its kind is 9"),
        (changed(bytes(13)), "its kind is 0"),
        (changed(bytes(13), length=12), "its length is 12"),
        (changed(bytes(13), length=2**28 + 1), f"its length is {2**28 + 1}"),
    ],
)
def test_a_damaged_record_is_named_by_its_number(data: bytes, why: str) -> None:
    with pytest.raises(InvalidRecording, match=f"record 2 is damaged: {why}"):
        read(OPENED.to_bytes() + data)


def test_another_file_is_no_recording() -> None:
    with pytest.raises(InvalidRecording, match="no recording of version 1"):
        list(read_recording(io.BytesIO(HEADER.replace(b"1", b"2"))))
