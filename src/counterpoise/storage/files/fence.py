"""The fence of a log: an epoch that only grows, overwritten in place by each new owner.

The order of steps makes it safe: an owner writes and syncs a group, *then* reads the fence, then
acknowledges. A successor changes the fence, *then* reads what is stored. So either the successor
sees the group, or the former owner sees the new fence and does not acknowledge.
"""

import fcntl
import os
from pathlib import Path

from counterpoise.storage.files.disk import LedgerDisk, write_all

_WIDTH = 256
"""Bytes of the fence file: less than a page, so a write is never seen in part."""

NAME = "fence"


class Fence:
    """One owner's fence of a log: the epoch that it wrote into the log's directory. It is valid
    until a later owner overwrites it.
    """

    __slots__ = ("_disk", "_mine", "_path", "epoch")

    def __init__(self, path: str, epoch: int, mine: bytes, disk: LedgerDisk) -> None:
        self._path = path
        self._mine = mine
        self._disk = disk
        self.epoch = epoch

    def holds(self) -> bool:
        """Whether this owner is still the last one: no later owner has overwritten the epoch.

        Raises `OSError` if the file cannot be read.
        """
        try:
            return self._disk.first(self._path, _WIDTH) == self._mine
        except FileNotFoundError:
            return False

    def settle(self) -> None:
        """Wait until this owner's epoch is on disk."""
        descriptor = self._disk.open(self._path, os.O_RDWR)
        try:
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)

    def holder(self) -> str:
        """The name of the broker that wrote the fence last, for a message."""
        try:
            return Path(self._path).read_bytes()[16:].decode(errors="replace").strip()
        except FileNotFoundError:
            return "no broker: the log was deleted"
        except OSError as error:
            return f"an unknown broker ({error})"


def claim(
    directory: Path, owner: str, disk: LedgerDisk, above: int = 0, released: int | None = None
) -> Fence:
    """Become the log's owner, fencing the former one; blocks while another broker does the same.

    ``above``: the new epoch is larger than this as well (epochs seen in file names, in case the
    fence itself was lost). ``released``: the epoch of an owner that acknowledges nothing any more;
    if it was the last, no living owner has to be excluded and the fence is not synced.
    """
    path = directory / NAME
    descriptor = disk.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        epoch = max(_epoch(disk.read(descriptor, _WIDTH, 0)), above) + 1
        mine = f"{epoch:016x} {owner}".encode()[: _WIDTH - 1].ljust(_WIDTH - 1) + b"\n"
        write_all(disk, descriptor, [mine], 0)
        if released is None or epoch != released + 1:
            disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    return Fence(str(path), epoch, mine, disk)


def epoch(directory: Path, disk: LedgerDisk) -> int:
    """The epoch of the last owner; 0 if there was none."""
    try:
        return _epoch(disk.first(directory / NAME, _WIDTH))
    except FileNotFoundError:
        return 0


def exists(directory: Path) -> bool:
    """Whether a directory holds a log, that is, a fence."""
    return (directory / NAME).exists()


def _epoch(content: bytes) -> int:
    try:
        return int(content[:16], 16)
    except ValueError:
        return 0
