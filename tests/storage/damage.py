"""Damages the files of a log at random, and knows from the files alone what is left of it."""

import random
from collections.abc import Iterable
from pathlib import Path

from counterpoise.storage.files.record import HEADER_SIZE

KINDS = ("flip", "burst", "zeros", "cut", "gone")


def damage(path: Path, kind: str, rng: random.Random) -> None:
    """One fault somewhere in a file."""
    data = bytearray(path.read_bytes())
    if not data:
        return  # an earlier fault cut it at its beginning
    at = rng.randrange(len(data))
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "burst":
        end = min(at + rng.randrange(1, 200), len(data))
        data[at:end] = rng.randbytes(end - at)
    elif kind == "zeros":
        page = at // 4096 * 4096
        end = min(page + 4096, len(data))
        data[page:end] = bytes(end - page)
    elif kind == "cut":
        del data[at:]
    if kind == "gone":
        path.unlink()
    else:
        path.write_bytes(data)


class Pristine:
    """Ledgers as they were before: says afterwards which entries are still whole.

    An entry is whole when the bytes of its record are where they were.
    """

    def __init__(self, directory: Path, entries: Iterable[bytes]) -> None:
        self.directory = directory
        self.entries = list(entries)
        self.ledgers = {path: path.read_bytes() for path in sorted(directory.glob("*.ledger"))}

    def whole(self) -> set[bytes]:
        """The entries that nothing has happened to."""
        left: set[bytes] = set()
        for path, before in self.ledgers.items():
            now = path.read_bytes() if path.exists() else b""
            for entry in self.entries:
                at = before.find(entry)
                if at >= 0:
                    begin, end = at - HEADER_SIZE, at + len(entry)
                    if before[begin:end] == now[begin:end]:
                        left.add(entry)
        return left
