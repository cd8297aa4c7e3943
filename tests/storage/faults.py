"""A disk that does what a test sets: fail, hang, or show what was not made durable; logs on it."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import CursorState
from tests.storage.conftest import Heard
from tests.waiting import WITHIN_S

NAME = "t/n/persistent/x"

Before = Callable[[str, Path], None]
"""Called with what is about to be done to which file; may raise, wait, or do something else."""


class FaultyDisk(LedgerDisk):
    """Calls ``before`` first; knows which files and names are not durable yet."""

    def __init__(self) -> None:
        self.before: Before = lambda _what, _path: None
        self.paths: dict[int, Path] = {}
        self.unsynced: set[Path] = set()
        """Files that were written and not synced, names that were made and not synced."""
        self.unnamed: set[Path] = set()
        self.forgotten: list[Path] = []
        """Files that were closed, never to be synced, after a write."""

    def open(self, path: str | Path, flags: int) -> int:
        path = Path(path)
        self.before("open", path)
        if flags & os.O_CREAT and not path.exists():
            self.unnamed.add(path)
        descriptor = super().open(path, flags)
        self.paths[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        path = self.paths.pop(descriptor)
        if path in self.unsynced:
            self.forgotten.append(path)
        super().close(descriptor)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        self.before("read", self.paths[descriptor])
        return super().read(descriptor, size, offset)

    def first(self, path: str | Path, size: int) -> bytes:
        self.before("open", Path(path))
        self.before("read", Path(path))
        return super().first(path, size)

    def write(
        self,
        descriptor: int,
        pieces: Sequence[bytes | memoryview],
        offset: int,
        *,
        synced: bool = False,
    ) -> int:
        path = self.paths[descriptor]
        self.before("write", path)
        self.unsynced.add(path)
        done = super().write(descriptor, pieces, offset, synced=synced)
        if synced and self.syncs_writes:
            self._sync(path)
        return done

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self._sync(self.paths[descriptor])

    def _sync(self, path: Path) -> None:
        self.before("sync", path)
        self.unsynced.discard(path)

    def remove(self, path: Path) -> None:
        self.before("remove", path)
        super().remove(path)

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.before("sync", path)
        self.unnamed = {each for each in self.unnamed if each.parent != path}


class Failing:
    """Fails one kind of call on matching files while it is ``on``."""

    def __init__(self, what: str, suffix: str, code: int) -> None:
        self.what, self.suffix, self.code = what, suffix, code
        self.on = True
        self.times = 0

    def __call__(self, what: str, path: Path) -> None:
        if self.on and what == self.what and self.suffix in path.name:
            self.times += 1
            raise OSError(self.code, os.strerror(self.code), str(path))


class Hanging:
    """Lets one kind of call on matching files wait until it is released."""

    def __init__(self, what: str, suffix: str) -> None:
        self.what, self.suffix = what, suffix
        self.released = threading.Event()
        self.reached = threading.Event()

    def __call__(self, what: str, path: Path) -> None:
        if what == self.what and self.suffix in path.name:
            self.reached.set()
            self.released.wait(WITHIN_S)


async def opened(
    root: Path, disk: FaultyDisk, owner: str = "a"
) -> tuple[FileLedgerStore, Log[object], Heard]:
    store, heard = FileLedgerStore(root, disk=disk), Heard()
    store.tidy_seconds = 0
    return store, await store.open(NAME, owner, heard), heard


async def refused(log: Log[object], heard: Heard, *entries: bytes) -> None:
    """Append, and expect the error that it was not stored."""
    before = len(heard.refusals)
    for entry in entries:
        log.append(entry, 1, entry)
    await heard.until(lambda: len(heard.refusals) > before)


def cursor_at(log: Log[object], index: int) -> CursorState:
    return CursorState("s", log.position(index))
