"""Corruption of a history between two lives of its balancer, on a directory and on S3 alike.

A disk that is full, or read-only, is one of this machine's, and takes leave to mount one.
"""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

from pyarrow import fs

from counterpoise.pipeline.tables.data_files import DataFile
from counterpoise.pipeline.tables.location import Location, open_location

FILLER = "filler"


def all_files(location: Location) -> list[str]:
    """The files of a history as they are stored, below its root."""
    selector = fs.FileSelector(location.root, recursive=True, allow_not_found=True)
    found = [each.path for each in location.filesystem.get_file_info(selector) if each.is_file]
    return sorted(path.removeprefix(f"{location.root}/") for path in found)


def cut(location: Location, file: DataFile, rng: Random) -> None:
    """A file ends somewhere before its end."""
    _write(location, file.name, _read(location, file.name)[: rng.randrange(file.size)])


def turned(location: Location, file: DataFile, rng: Random) -> None:
    """A bit of a file is another."""
    data = bytearray(_read(location, file.name))
    # Headers have bits that no reader looks at; the data in the middle has none.
    data[len(data) // 2] ^= 1 << rng.randrange(8)
    _write(location, file.name, bytes(data))


def removed(location: Location, file: DataFile, rng: Random) -> None:
    """A file is gone."""
    del rng
    location.filesystem.delete_file(location.path(file.name))


DAMAGES: Mapping[str, Callable[[Location, DataFile, Random], None]] = {
    "a state cut off": cut,
    "a bit of a state turned over": turned,
    "a state removed": removed,
    "a poll cut off": cut,
}


def copied(history: str, to: str) -> None:
    """All files of a history to another place, and none left where it was."""
    here, there = open_location(history), open_location(to)
    for name in all_files(here):
        _write(there, name, _read(here, name))
    here.filesystem.delete_dir_contents(here.root)


@contextlib.contextmanager
def own_disk(path: Path) -> Iterator[bool]:
    """A small disk at a path for as long as the block runs; gives whether we may have one."""
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0 or not _mounted("-t", "tmpfs", "-o", "size=64m", "tmpfs", str(path)):
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False)


@contextlib.contextmanager
def full(disk: Path) -> Iterator[None]:
    """A disk has no room any more."""
    filler = os.open(disk / FILLER, os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(filler, bytes(1 << 16))
    os.close(filler)
    try:
        yield
    finally:
        (disk / FILLER).unlink()


@contextlib.contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """A disk takes nothing any more."""
    assert _mounted("-o", "remount,ro", str(disk))
    try:
        yield
    finally:
        assert _mounted("-o", "remount,rw", str(disk))


def _mounted(*words: str) -> bool:
    return subprocess.run(["mount", *words], check=False, capture_output=True).returncode == 0


def _read(location: Location, name: str) -> bytes:
    with location.filesystem.open_input_file(location.path(name)) as file:
        return bytes(file.read())


def _write(location: Location, name: str, data: bytes) -> None:
    location.filesystem.create_dir(location.path(name).rpartition("/")[0], recursive=True)
    with location.filesystem.open_output_stream(location.path(name)) as file:
        file.write(data)
