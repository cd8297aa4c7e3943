"""A long ledger is entered anywhere at the same small price, whatever it holds."""

import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.ledger import LedgerFile
from counterpoise.storage.files.record import HEADER_SIZE, MarkedFormat
from tests.storage.ledgers import MARKER, SEVEN, records

MANY = 40_000


class CountingDisk(LedgerDisk):
    """Knows how much was read."""

    def __init__(self) -> None:
        self.taken = 0

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        data = super().read(descriptor, size, offset)
        self.taken += len(data)
        return data


@pytest.fixture(scope="module")
def long_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger") / "x.ledger"
    entries = [b"%d" % n * 50 for n in range(MANY)]
    path.write_bytes(SEVEN.file_header() + records(entries, [1] * MANY, 0))
    return path


@pytest.mark.parametrize("entry_id", [5, MANY // 3, MANY - 20])
def test_the_first_look_at_a_long_ledger_reads_little_of_it(
    long_ledger: Path, entry_id: int
) -> None:
    """As the next owner of a topic does while its clients wait: it has no marks of the file."""
    disk = CountingDisk()
    ledger = LedgerFile(long_ledger, 7, MARKER, disk)
    piece = ledger.read(entry_id, MANY, 1)
    assert piece.entries == [b"%d" % entry_id * 50]
    assert disk.taken < long_ledger.stat().st_size / 3
    # Private: what is kept of a file is memory, which no reader sees.
    assert len(ledger._marks) < 10


def test_marks_stay_in_order_wherever_it_is_read(long_ledger: Path) -> None:
    ledger = LedgerFile(long_ledger, 7, MARKER)
    rng = random.Random(3)
    for entry_id in rng.sample(range(MANY), 60):
        assert ledger.read(entry_id, MANY, 1).entries == [b"%d" % entry_id * 50]
    # Private: an order of marks that is wrong only costs time.
    ids = [place.entry_id for place in ledger._marks]
    assert all(later - former >= 64 for former, later in pairwise(ids))


@settings(max_examples=25)
@given(
    sizes=st.lists(st.sampled_from([1, 30, 3_000, 20_000, 70_000]), min_size=70, max_size=140),
    wrong=st.lists(st.tuples(st.integers(0, 139), st.integers(0, HEADER_SIZE)), max_size=4),
    ask=st.integers(0, 139),
)
def test_what_is_damaged_hides_nothing_that_is_sound(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    wrong: list[tuple[int, int]],
    ask: int,
) -> None:
    """Sparse or damaged, a search by halves ends where one from the beginning does."""
    path = tmp_path_factory.mktemp("ledger") / "x.ledger"
    entries = [bytes([n]) * size for n, size in enumerate(sizes)]
    data = bytearray(SEVEN.file_header())
    begins = []
    for n, entry in enumerate(entries):
        begins.append(len(data))
        data += records([entry], [1], n)
    for number, at in wrong:
        data[begins[number % len(entries)] + at] ^= 0x55
    # The same byte twice is as it was.
    sound = {n for n in range(len(entries)) if _is_sound(bytes(data), begins[n], n)}
    path.write_bytes(data)
    ask %= len(entries)
    piece = LedgerFile(path, 7, MARKER).read(ask, len(entries), 1)
    if ask in sound:
        assert piece.entries == [entries[ask]]
    else:
        following = min((n for n in sound if n > ask), default=len(entries))
        assert piece.lost == (ask, following - 1)


def _is_sound(data: bytes, at: int, entry_id: int) -> bool:
    return next(MarkedFormat(7, MARKER).decode(data, at, entry_id), None) is not None
