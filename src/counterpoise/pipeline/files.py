"""Files that appear whole, or not at all."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq


@contextmanager
def appearing(path: Path, *, before: Callable[[Path], None] | None = None) -> Iterator[BinaryIO]:
    """A file to write under a hidden name; it is renamed when it is safely on the disk.

    `before` is called with the hidden file, right before the rename. A block that raises leaves
    whatever was there before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with hidden.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if before:
            before(hidden)
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)
    _sync_directory(path.parent)


def write_whole(
    path: Path, table: pa.Table, *, before: Callable[[Path], None] | None = None
) -> None:
    """Write a Parquet file as one that appears whole."""
    with appearing(path, before=before) as file:
        pq.write_table(table, file, compression="zstd")


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
