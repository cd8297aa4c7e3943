"""What a damaged ledger still gives: what is lost is named, everything else is served."""

import os
from pathlib import Path

import pytest

from counterpoise.storage.files import walk
from counterpoise.storage.files.record import FILE_HEADER_SIZE, HEADER_SIZE, MarkedFormat
from tests.storage.ledgers import (
    ENTRIES,
    MARKER,
    MESSAGES,
    SEVEN,
    ends,
    ledger_bytes,
    old_ledger,
    records,
    seven,
)


def test_a_ledger_cut_at_any_byte_has_its_whole_records(tmp_path: Path) -> None:
    whole = ledger_bytes()
    path = tmp_path / "x.ledger"
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        file = seven(path)
        scan = file.scan()
        assert scan.entries == sum(end <= size for end in ends())
        assert scan.size == sum(map(len, ENTRIES[: scan.entries]))
        assert scan.lost == ()
        if size >= FILE_HEADER_SIZE:
            good = ends()[scan.entries - 1] if scan.entries else FILE_HEADER_SIZE
            assert scan.torn == size - good
        if scan.entries:
            piece = file.read(0, scan.entries, 10**6)
            assert (piece.entries, piece.messages, piece.lost) == (
                ENTRIES[: scan.entries],
                MESSAGES[: scan.entries],
                None,
            )


def test_a_record_is_found_behind_damage_wherever_a_window_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walk, "WINDOW", 3 * HEADER_SIZE)
    record = records([b"whole"], [1], 0)
    for damaged in range(1, 9 * HEADER_SIZE):
        content = bytes(damaged) + record

        def read(size: int, offset: int, content: bytes = content) -> bytes:
            return content[offset : offset + size]

        found = walk.Walker(read, SEVEN, walk.Place(0, 0))
        assert [(each.entry, at) for each, at in found] == [(b"whole", damaged)]


def test_what_is_cut_off_and_was_stored_is_lost_and_named(tmp_path: Path) -> None:
    whole = ledger_bytes()
    path = tmp_path / "x.ledger"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        scan = seven(path).scan(stored=len(ENTRIES))
        kept = sum(end <= size for end in ends())
        assert (scan.entries, scan.lost, scan.torn) == (4, ((kept, 3),), 0)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_damaged_byte_costs_the_record_it_lies_in_and_no_other(tmp_path: Path, flip: int) -> None:
    whole = ledger_bytes()
    path = tmp_path / "x.ledger"
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
        bad = None if at < FILE_HEADER_SIZE else sum(end <= at for end in ends())
        damaged = () if bad is None else ((bad, bad),)
        assert seven(path).scan(stored=4).lost == damaged, f"byte {at}"
        for cold in range(4):
            piece = seven(path).read(cold, 4, 10**6)
            if cold == bad:
                assert (piece.entries, piece.lost) == ([], (bad, bad)), f"byte {at}"
            else:
                until = bad if bad is not None and bad > cold else 4
                assert (piece.entries, piece.lost) == (ENTRIES[cold:until], None), f"byte {at}"
        # How many there were was not noted: the last may look as if it had not been finished.
        assert seven(path).scan().lost in (damaged, ()) if bad == 3 else (damaged,)


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\xff" * 100, b"\0" * 5, ledger_bytes()])
def test_what_follows_the_last_record_is_no_entry(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "x.ledger"
    path.write_bytes(ledger_bytes() + tail)
    scan = seven(path).scan()
    assert (scan.entries, scan.lost, scan.torn) == (len(ENTRIES), (), len(tail))


def test_records_of_another_ledger_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x.ledger"
    other = MarkedFormat(8, MARKER)
    path.write_bytes(SEVEN.file_header() + records(ENTRIES, MESSAGES, 0, other))
    assert seven(path).scan(stored=4).lost == ((0, 3),)


def test_an_entry_that_holds_a_record_is_not_taken_for_one(tmp_path: Path) -> None:
    """A client that writes entries does not know the log's marker."""
    path = tmp_path / "x.ledger"
    forged = records([b"forged"], [1], 3, MarkedFormat(7, b"guessed!"))
    whole = SEVEN.file_header() + records([b"a", b"b", forged * 9, b"c", b"d"], [1] * 5, 0)
    at = whole.index(forged)
    path.write_bytes(whole[:at] + b"?" + whole[at + 1 :])
    assert seven(path).scan(stored=5).lost == ((2, 2),)
    assert seven(path).read(3, 5, 100).entries == [b"c", b"d"]


def test_a_hole_in_the_group_that_was_being_written_keeps_what_is_sound(tmp_path: Path) -> None:
    """After a power failure a later page may be there and an earlier one not."""
    path = tmp_path / "x.ledger"
    whole = ledger_bytes() + records([b"p" * 50, b"q" * 50, b"r" * 50], [1] * 3, 4)
    at = whole.index(b"q" * 50)
    path.write_bytes(whole[:at] + bytes(50) + whole[at + 50 :])
    scan = seven(path).scan()
    assert (scan.entries, scan.lost, scan.stored) == (7, ((5, 5),), 4)


@pytest.mark.parametrize("marker", [MARKER, b""], ids=["marker saved", "nothing saved"])
def test_a_damaged_head_costs_no_entry(tmp_path: Path, marker: bytes) -> None:
    path = tmp_path / "x.ledger"
    path.write_bytes(bytes(FILE_HEADER_SIZE) + ledger_bytes()[FILE_HEADER_SIZE:])
    assert seven(path, marker).scan().entries == 4
    assert seven(path, marker).read(0, 4, 1000).entries == ENTRIES


def test_a_ledger_of_the_old_format_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.ledger"
    entries = [b"%d" % n * 30 for n in range(200)]
    path.write_bytes(old_ledger(entries))
    assert seven(path, b"").scan().entries == 200
    assert seven(path).read(150, 200, 10**6).entries == entries[150:]
    whole = bytearray(path.read_bytes())
    whole[whole.index(entries[100]) - 12] ^= 0x40  # its length
    path.write_bytes(whole)
    assert seven(path).scan().lost == ((100, 100),)
    assert seven(path).read(101, 200, 10**6).entries == entries[101:]


def test_entries_larger_than_the_read_window(tmp_path: Path) -> None:
    large = [os.urandom(n) for n in (3_000_000, 10, 1 << 20, (1 << 20) - HEADER_SIZE, 5)]
    path = tmp_path / "x.ledger"
    path.write_bytes(SEVEN.file_header() + records(large, [1] * 5, 0) + b"torn")
    file = seven(path)
    scan = file.scan()
    assert (scan.entries, scan.size, scan.torn) == (5, sum(map(len, large)), 4)
    for cold in (file, seven(path)):
        assert [cold.read(n, 5, 1).entries for n in range(5)] == [[e] for e in large]
        assert cold.read(0, 5, 10**8).entries == large


def test_reading_from_anywhere_in_a_long_ledger(tmp_path: Path) -> None:
    entries = [b"%d" % n * (n % 50 + 1) for n in range(5000)]
    path = tmp_path / "x.ledger"
    path.write_bytes(SEVEN.file_header() + records(entries, [1] * 5000, 0))
    file = seven(path)
    for at in (4999, 0, 63, 64, 65, 2500, 128, 4800):
        found = file.read(at, 5000, 200).entries
        assert found == entries[at : at + len(found)]
        assert found


def test_a_wrong_length_does_not_lead_past_sound_records(tmp_path: Path) -> None:
    entries = [b"%d" % n * 9 for n in range(300)]
    whole = bytearray(SEVEN.file_header() + records(entries, [1] * 300, 0))
    path = tmp_path / "x.ledger"
    at = whole.index(entries[100]) - HEADER_SIZE + 8
    whole[at + 2] ^= 0x04  # the length of entry 100 grows by a kilobyte
    path.write_bytes(whole)
    assert seven(path).scan(stored=300).lost == ((100, 100),)
    for wanted in (99, 101, 102, 150, 299):
        assert seven(path).read(wanted, 300, 1).entries == [entries[wanted]]
    assert seven(path).read(100, 300, 1).lost == (100, 100)


def test_a_wrong_number_does_not_mislead_a_search(tmp_path: Path) -> None:
    """Wherever one looks first in a long ledger, a record whose number is wrong counts nothing."""
    entries = [b"%03d" % n * 80 for n in range(300)]
    whole = bytearray(SEVEN.file_header())
    for n, entry in enumerate(entries):
        whole += records([entry], [1], n)
        if n % 2:
            whole[-len(entry) - HEADER_SIZE + 19] ^= 0x10
    path = tmp_path / "x.ledger"
    path.write_bytes(whole)
    for wanted in range(0, 300, 2):
        assert seven(path).read(wanted, 300, 1).entries == [entries[wanted]]
