"""Files on a local disk that are there whole, and stay, once their writer was told so."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


class Disk:
    """What a history asks of a local file system; a test's may fail, or forget what isn't synced.

    Every method raises `OSError` for what the file system says.
    """

    @contextlib.contextmanager
    def appearing(self, path: Path) -> Iterator[BinaryIO]:
        """A file to write; durable under its name when the block ends, gone when it raises."""
        self._make_directories(path.parent)
        hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with self.create(hidden) as file:
                yield file
                file.flush()
                self.sync(file)
            self.rename(hidden, path)
        finally:
            hidden.unlink(missing_ok=True)
        self.sync_directory(path.parent)

    def create(self, path: Path) -> BinaryIO:
        """An empty file to write."""
        return path.open("wb")

    def sync(self, file: BinaryIO) -> None:
        """What was written to a file survives from now on."""
        os.fsync(file.fileno())

    def rename(self, path: Path, to: Path) -> None:
        """Give a file its name; it survives once the directory is synced."""
        path.replace(to)

    def make_directory(self, path: Path) -> None:
        """Make a directory; its name survives once the one above is synced."""
        path.mkdir(exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        """The names in a directory survive from now on."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _make_directories(self, path: Path) -> None:
        if path.is_dir():
            return
        self._make_directories(path.parent)
        self.make_directory(path)
        self.sync_directory(path.parent)
