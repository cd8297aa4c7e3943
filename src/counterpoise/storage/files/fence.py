"""Who may write to a log: an epoch that only grows, overwritten in place by each new owner.

The order that makes it safe: an owner writes and synchronises a group, *then* reads the fence,
then acknowledges. A successor changes the fence, *then* reads what is stored. So either the
successor sees the group, or the former owner sees the fence and stays silent.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_WIDTH = 256
"""Bytes of the fence file: less than a page, so a write is never seen in part."""

_NAME = "fence"


class Fence:
    """This owner's claim on one log's directory."""

    __slots__ = ("_mine", "_path", "epoch")

    def __init__(self, path: str, epoch: int, mine: bytes) -> None:
        self._path = path
        self._mine = mine
        self.epoch = epoch

    def holds(self) -> bool:
        """Whether nobody has claimed the log since.

        The file is opened anew each time: that is when a network file system asks its server.
        """
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return os.read(descriptor, _WIDTH) == self._mine
        finally:
            os.close(descriptor)

    def holder(self) -> str:
        """Who holds the log now, for a message."""
        try:
            return Path(self._path).read_bytes()[16:].decode(errors="replace").strip()
        except FileNotFoundError:
            return "nobody: it was deleted"


def claim(directory: Path, owner: str, above: int = 0) -> Fence:
    """Fence off whoever owns the log; blocks while another broker does the same.

    ``above``: the new epoch is larger than this as well (epochs seen in file names, in case the
    fence itself was lost).
    """
    path = directory / _NAME
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        epoch = max(_epoch(os.pread(descriptor, _WIDTH, 0)), above) + 1
        mine = f"{epoch:016x} {owner}".encode()[: _WIDTH - 1].ljust(_WIDTH - 1) + b"\n"
        os.pwrite(descriptor, mine, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return Fence(str(path), epoch, mine)


def exists(directory: Path) -> bool:
    """Whether a log lives in this directory."""
    return (directory / _NAME).exists()


def _epoch(content: bytes) -> int:
    try:
        return int(content[:16], 16)
    except ValueError:
        return 0
