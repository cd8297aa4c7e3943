"""Reads and writes the files of a history that are not tables, such as its heartbeat.

They are synced to disk; small ones are replaced atomically.
"""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import fs

from counterpoise.pipeline.tables.faults import unreadable, unwritable
from counterpoise.pipeline.tables.location import Location


def sync_path(path: Path) -> None:
    """Make a local file or directory survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directories(path: Path) -> None:
    """Create a local directory and its parents, so that their names survive a crash."""
    if path.is_dir():
        return
    make_directories(path.parent)
    path.mkdir(exist_ok=True)
    sync_path(path.parent)


@contextlib.contextmanager
def new_file(location: Location, name: str) -> Iterator[BinaryIO]:
    """A new file, named relative to the history's root; durable when the block ends."""
    if (root := location.local) is None:
        buffer = pa.BufferOutputStream()
        yield buffer
        with location.filesystem.open_output_stream(location.path(name)) as whole:
            whole.write(buffer.getvalue())
        return
    path = root / name
    make_directories(path.parent)
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    sync_path(path.parent)


def read_plain(location: Location, name: str) -> bytes | None:
    """A file's bytes; None if there is none. Raises `HistoryFaultError`."""
    try:
        with location.filesystem.open_input_file(location.path(name)) as file:
            return bytes(file.read())
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError) as error:
        raise unreadable(location.where(name), error) from error


def write_plain(location: Location, name: str, data: bytes) -> None:
    """Replace a file atomically; raises `HistoryFaultError`."""
    try:
        if (root := location.local) is None:
            with new_file(location, name) as file:
                file.write(data)
            return
        hidden = f".{name}.{uuid.uuid4().hex}.tmp"
        try:
            with new_file(location, hidden) as file:
                file.write(data)
            (root / hidden).replace(root / name)
        finally:
            (root / hidden).unlink(missing_ok=True)
        sync_path(root)
    except (pa.ArrowException, OSError) as error:
        raise unwritable(location.where(name), error) from error


def delete_plain(location: Location, name: str) -> None:
    """Remove a file if it exists. Raises `HistoryFaultError`."""
    try:
        with contextlib.suppress(FileNotFoundError):
            location.filesystem.delete_file(location.path(name))
    except (pa.ArrowException, OSError) as error:
        raise unwritable(location.where(name), error) from error


def move_plain(location: Location, name: str, to: str) -> None:
    """Rename a file if it exists. Raises `HistoryFaultError`."""
    try:
        # Checked first: if the file does not exist, an object store's error is about copying.
        if location.filesystem.get_file_info(location.path(name)).type is fs.FileType.NotFound:
            return
        location.filesystem.create_dir(location.path(to).rpartition("/")[0], recursive=True)
        location.filesystem.move(location.path(name), location.path(to))
    except (pa.ArrowException, OSError) as error:
        raise unwritable(location.where(name), error) from error


def names_below(location: Location, directory: str = "") -> list[str]:
    """The names in a directory of the history, sorted; empty if there is no such directory."""
    selector = fs.FileSelector(location.path(directory).rstrip("/"), allow_not_found=True)
    try:
        found = location.filesystem.get_file_info(selector)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(location.where(directory), error) from error
    return sorted(each.base_name for each in found if each.base_name)
