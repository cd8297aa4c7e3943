"""The state that an owner saves beside its ledgers: which are closed, what is lost, the cursors.

There are two copies, ``state-<epoch>.a`` and ``state-<epoch>.b``, overwritten in turn. If a crash
cuts one short, or it is damaged later, the other remains; and overwriting needs no space on a full
disk.

An owner that closes the log in order writes a third, ``state-<epoch>.final``. It shows that nothing
follows, so that the next owner need not look for more. It need not be durable, since the other two
are.
"""

import json
import logging
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crc32c import crc32c

from counterpoise.storage.files.disk import LedgerDisk, read_file, write_all
from counterpoise.storage.port import CursorState, Lost, Position

_log = logging.getLogger(__name__)
_COPIES = "ab"
_FINAL = "final"
_NAME = re.compile(r"state-([0-9a-f]{16})\.(a|b|final|json)")
_HEAD = re.compile(rb"CPSTATE2 (\d{1,19}) (\d{1,10}) ([0-9a-f]{8})\n")
_DAMAGE = (ValueError, KeyError, TypeError, IndexError, AttributeError)
_BLOCK = 4096
"""Copies grow in steps of this many bytes, so that most saves write over what is there."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A closed ledger: entries of its file beyond the first ``entries`` are not part of the log."""

    ledger_id: int
    epoch: int
    entries: int
    size: int


@dataclass(frozen=True, slots=True)
class SavedState:
    """A log's ledgers and cursors, as the owner of ``epoch`` saved them.

    Ledgers below id ``first`` are deleted. ``marker`` starts every record of the log's ledgers.
    ``cursors_lost_below``: cursors could not be read when only ledgers below this one existed;
    while one of these remains, a subscription without a cursor starts where the log does.
    """

    epoch: int
    first: int = 0
    ledgers: tuple[Sealed, ...] = ()
    cursors: Mapping[str, CursorState] = field(default_factory=dict)
    marker: bytes = b""
    lost: tuple[Lost, ...] = ()
    cursors_lost_below: int = 0

    def to_json(self) -> dict[str, object]:
        """The state as it is written to its file."""
        return {
            "epoch": self.epoch,
            "first": self.first,
            "marker": self.marker.hex(),
            "ledgers": [[s.ledger_id, s.epoch, s.entries, s.size] for s in self.ledgers],
            "lost": [list(each) for each in self.lost],
            "cursorsLostBelow": self.cursors_lost_below,
            "cursors": [
                {
                    "name": c.name,
                    "markDelete": c.mark_delete,
                    "acked": c.acked,
                    "partial": c.partial,
                    "properties": dict(c.properties),
                }
                for c in self.cursors.values()
            ],
        }


@dataclass(frozen=True, slots=True)
class UnsyncedCopy:
    """A state file that is written, still open and not synced; `settle` or `abandon` closes it."""

    disk: LedgerDisk
    descriptor: int

    def settle(self) -> None:
        """Wait until the copy is on disk."""
        _sync_and_close(self.disk, self.descriptor)

    def abandon(self) -> None:
        """Close the copy without a sync: the operating system writes it to disk at some time."""
        self.disk.close(self.descriptor)


class StateFiles:
    """Saves a log's state for the owner of one epoch, as two copies in turn. Thread-safe."""

    def __init__(self, directory: Path, epoch: int, disk: LedgerDisk) -> None:
        self._directory = directory
        self._epoch = epoch
        self._disk = disk
        self._lock = threading.Lock()
        self._writes = 0
        self._made: set[str] = set()
        self._newest = 0
        self._begun = -1

    def begin(self, state: SavedState) -> None:
        """Write the first copy, before anything else; it is durable once `settle` has returned."""
        self._begun = self._put(state, 1, _COPIES[1])
        self._writes = 1

    def settle(self) -> None:
        """Wait until the first copy is on disk; the directory has to be synced as well."""
        descriptor, self._begun = self._begun, -1
        _sync_and_close(self._disk, descriptor)

    def abandon(self) -> None:
        """Close the first copy without waiting for the disk: nothing was acknowledged on it."""
        descriptor, self._begun = self._begun, -1
        self._disk.close(descriptor)

    def end(self, state: SavedState) -> UnsyncedCopy:
        """Write the final state for the next owner, without waiting for the disk."""
        try:
            final = self._put(state, self._writes + 1, _FINAL)
        except OSError:
            self._disk.remove(copy_path(self._directory, self._epoch, _FINAL))
            raise
        return UnsyncedCopy(self._disk, final)

    def save(self, state: SavedState, *, number: int, copies: int = 1) -> None:
        """Write the next copy (or both), and return once it is on disk.

        ``number`` grows with every change; a state older than the last one saved is skipped.
        """
        with self._lock:
            if number < self._newest:
                return
            for _ in range(copies):
                self._write(state, self._writes + 1)
                self._writes += 1
            self._newest = number

    def _write(self, state: SavedState, turn: int) -> None:
        copy = _COPIES[turn % 2]
        _sync_and_close(self._disk, self._put(state, turn, copy))
        if copy not in self._made:
            self._disk.sync_directory(self._directory)
            self._made.add(copy)

    def _put(self, state: SavedState, turn: int, copy: str) -> int:
        """Write a copy without closing it; returns its descriptor."""
        disk = self._disk
        path = copy_path(self._directory, self._epoch, copy)
        descriptor = disk.open(path, os.O_WRONLY | os.O_CREAT)
        try:
            write_all(disk, descriptor, [_written(state, turn)], 0)
        except BaseException:
            disk.close(descriptor)
            raise
        return descriptor


def _sync_and_close(disk: LedgerDisk, descriptor: int) -> None:
    try:
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)


@dataclass(frozen=True, slots=True)
class LoadedState:
    """The newest readable state of an epoch, and the files that are unreadable.

    ``closed``: its owner closed the log in order, so there is nothing else.
    """

    state: SavedState | None
    damaged: tuple[Path, ...]
    closed: bool = False


def load(directory: Path, epoch: int, disk: LedgerDisk) -> LoadedState:
    """The state that the owner of ``epoch`` saved last."""
    damaged: list[Path] = []
    found: list[tuple[int, SavedState]] = []
    if (final := _final(directory, epoch, disk, damaged)) is not None:
        return LoadedState(final, (), closed=True)
    for name in (*_COPIES, "json"):
        path = copy_path(directory, epoch, name)
        try:
            content = read_file(disk, path)
        except FileNotFoundError:
            continue
        try:
            found.append(_read(content, epoch) if name != "json" else (0, _old(content, epoch)))
        except _DAMAGE:
            damaged.append(path)
    found.sort(key=lambda each: each[0])
    return LoadedState(found[-1][1] if found else None, tuple(damaged))


def closed(directory: Path, epoch: int, disk: LedgerDisk) -> bool:
    """Whether the log was closed cleanly by the broker that owned it in ``epoch``."""
    return _final(directory, epoch, disk, []) is not None


def _final(directory: Path, epoch: int, disk: LedgerDisk, damaged: list[Path]) -> SavedState | None:
    path = copy_path(directory, epoch, _FINAL)
    try:
        return _read(read_file(disk, path), epoch)[1]
    except FileNotFoundError:
        return None
    except _DAMAGE:
        damaged.append(path)
        return None


def copy_path(directory: Path, epoch: int, copy: str) -> Path:
    """The path of one copy of an epoch's state."""
    return directory / f"state-{epoch:016x}.{copy}"


def is_copy(name: str) -> bool:
    """Whether a file of this name is a copy of a log's state."""
    return _NAME.fullmatch(name) is not None


def epoch_of(name: str) -> int | None:
    """The epoch of a state file by its name; None for other files."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1], 16)


def epochs(directory: Path) -> list[int]:
    """Epochs that saved a state here, ascending."""
    found = (epoch_of(path.name) for path in directory.iterdir())
    return sorted({epoch for epoch in found if epoch is not None})


def remove_before(directory: Path, epoch: int, disk: LedgerDisk) -> None:
    """Delete the states that owners of earlier epochs saved."""
    for old in epochs(directory):
        if old < epoch:
            for copy in (*_COPIES, _FINAL, "json"):
                disk.remove(copy_path(directory, old, copy))


def _written(state: SavedState, turn: int) -> bytes:
    body = json.dumps(state.to_json(), separators=(",", ":")).encode()
    head = b"CPSTATE2 %d %d %08x\n" % (turn, len(body), crc32c(body, turn & 0xFFFFFFFF))
    content = head + body
    return content + b"\n" * (-len(content) % _BLOCK)


def _read(content: bytes, epoch: int) -> tuple[int, SavedState]:
    """Parse a copy of the state; returns the number of copies written with it, and the state.

    Raises `ValueError` and the like if it is damaged.
    """
    head = _HEAD.match(content)
    if head is None:
        raise ValueError("its head is damaged")
    turn, size, checksum = int(head[1]), int(head[2]), int(head[3], 16)
    body = content[head.end() : head.end() + size]
    if len(body) != size or crc32c(body, turn & 0xFFFFFFFF) != checksum:
        raise ValueError("it does not match its checksum")
    return turn, _parsed(json.loads(body), epoch)


def _old(content: bytes, epoch: int) -> SavedState:
    """A state in the former format: JSON, without copies and checksum."""
    return _parsed(json.loads(content), epoch)


def _parsed(data: Any, epoch: int) -> SavedState:
    return SavedState(
        epoch,
        data["first"],
        tuple(Sealed(*row) for row in data["ledgers"]),
        {c["name"]: _cursor(c) for c in data["cursors"]},
        bytes.fromhex(data.get("marker", "")),
        tuple(Lost(*row) for row in data.get("lost", ())),
        data.get("cursorsLostBelow", 0),
    )


def _cursor(data: Mapping[str, object]) -> CursorState:
    mark, acked, properties = data["markDelete"], data["acked"], data["properties"]
    if not isinstance(mark, list) or not isinstance(acked, list):
        raise TypeError("markDelete and acked must be lists")
    if not isinstance(properties, dict):
        raise TypeError("properties must be an object")
    ranges = tuple((Position(*first), Position(*last)) for first, last in acked)
    partial = data.get("partial") or ()
    if not isinstance(partial, list | tuple):
        raise TypeError("partial must be a list")
    batches = tuple((Position(*at), tuple(map(int, words))) for at, words in partial)
    return CursorState(str(data["name"]), Position(*mark), ranges, properties, batches)
