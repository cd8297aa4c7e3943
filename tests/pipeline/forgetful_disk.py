"""A disk that loses, when the power goes, whatever nobody has synced."""

import os
from pathlib import Path
from typing import BinaryIO

from counterpoise.pipeline.history.disk import Disk


class ForgetfulDisk(Disk):
    """Knows what is durable: bytes of files by inode, and names by directory."""

    def __init__(self) -> None:
        self.bytes: dict[int, int] = {}
        """How much of each file was synced."""
        self.fresh: set[Path] = set()
        """Names that were made since their directory was synced."""
        self.too_early: list[Path] = []
        """Names that replaced what was there before their bytes were durable."""

    def create(self, path: Path) -> BinaryIO:
        self.fresh.add(path)
        file = super().create(path)
        self.bytes[os.fstat(file.fileno()).st_ino] = 0
        return file

    def sync(self, file: BinaryIO) -> None:
        super().sync(file)
        found = os.fstat(file.fileno())
        self.bytes[found.st_ino] = found.st_size

    def rename(self, path: Path, to: Path) -> None:
        if not self._is_whole(path):
            self.too_early.append(to)
        super().rename(path, to)
        self.fresh.discard(path)
        self.fresh.add(to)

    def make_directory(self, path: Path) -> None:
        super().make_directory(path)
        self.fresh.add(path)

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.fresh = {each for each in self.fresh if each.parent != path}

    def survives(self, path: Path) -> bool:
        """Whether a file is there, and whole, after the power went."""
        names = (path, *path.parents)
        return self._is_whole(path) and not self.fresh.intersection(names)

    def _is_whole(self, path: Path) -> bool:
        found = path.stat()
        return self.bytes.get(found.st_ino) == found.st_size
