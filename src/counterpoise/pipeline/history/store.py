"""A directory at a URI, whose files appear whole or not at all.

`/a/path`, `file://`, `s3://` (or `s3a://`, as Spark says), `gs://`, `hdfs://`, `abfs://`: whatever
`pyarrow.fs` opens. An endpoint other than the provider's own is a parameter of the URI
(`s3://bucket/history?endpoint_override=localhost:9000&scheme=http`) or `AWS_ENDPOINT_URL`.

On a local or mounted file system a file is written under a hidden name, synced and renamed. An
object store shows an object when it is complete, so there a file is put under its own name at once.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import fs

from counterpoise.pipeline.history.disk import Disk
from counterpoise.pipeline.history.faults import damaged, unwritable


class Store:
    """Files below one root, by their names relative to it (`reports/day=…/….parquet`)."""

    def __init__(
        self,
        filesystem: Any,
        root: str,
        uri: str,
        disk: Disk | None = None,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        """`guard` is called before anything is changed, and raises where nothing may be."""
        self.filesystem = filesystem
        self.root = root
        self.uri = uri
        self._disk = disk or Disk()
        self.guard = guard

    def guarded(self, guard: Callable[[], None]) -> "Store":
        """The same store, in which nothing is changed without asking first."""
        return Store(self.filesystem, self.root, self.uri, self._disk, guard)

    @property
    def local(self) -> Path | None:
        """The directory, when it is on a file system of this machine."""
        return Path(self.root) if isinstance(self.filesystem, fs.LocalFileSystem) else None

    def where(self, name: str) -> str:
        """A file's address, for a person."""
        return f"{self.address.rstrip('/')}/{name}"

    @property
    def address(self) -> str:
        """The root, for a person: without keys and parameters."""
        return address_of(self.uri)

    def path(self, name: str) -> str:
        """A file's path on `filesystem`."""
        return f"{self.root}/{name}"

    def read(self, name: str, parse: Callable[[Any], Any]) -> Any:
        """What `parse` makes of a file (`pyarrow`'s random access).

        Raises `FileNotFoundError`, and `HistoryFaultError` when it makes nothing of it.
        """
        try:
            with self.filesystem.open_input_file(self.path(name)) as file:
                return parse(file)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise damaged(self.where(name), error) from error

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A file to write; it is there when the block ends, and a block that raises leaves none.

        Raises `HistoryFaultError` for a full disk and the like.
        """
        try:
            with self._appearing(name) as file:
                yield file
        except OSError as error:
            raise unwritable(self.where(name), error) from error

    def write(self, name: str, data: bytes) -> None:
        """A whole file at once."""
        with self.writing(name) as file:
            file.write(data)

    def names(self, directory: str) -> list[str]:
        """The names of the files in a directory, sorted; none when there is no such directory."""
        if self.local is not None:
            with contextlib.suppress(FileNotFoundError), os.scandir(self.path(directory)) as found:
                return sorted(each.name for each in found if each.name[0] != ".")
            return []
        return [each.base_name for each in self._listed(directory) if each.is_file]

    def directories(self, directory: str) -> list[str]:
        """The names of the directories in a directory, sorted."""
        return [each.base_name for each in self._listed(directory) if not each.is_file]

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return bool(self.filesystem.get_file_info(self.path(name)).is_file)

    def size(self, name: str) -> int:
        """Bytes of a file."""
        return int(self.filesystem.get_file_info(self.path(name)).size or 0)

    def delete(self, name: str) -> None:
        """Remove a file; it may be gone already."""
        self.guard()
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.path(name))

    def delete_directory(self, name: str) -> None:
        """Remove a directory and all in it; it may be gone already."""
        self.guard()
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_dir(self.path(name))

    def move(self, name: str, to: str) -> None:
        """Give a file another name."""
        self.guard()
        self.filesystem.create_dir(self.path(to).rpartition("/")[0], recursive=True)
        self.filesystem.move(self.path(name), self.path(to))

    def _listed(self, directory: str) -> list[Any]:
        selector = fs.FileSelector(self.path(directory), allow_not_found=True)
        found = [each for each in self.filesystem.get_file_info(selector) if each.base_name]
        return sorted(found, key=lambda each: each.base_name)

    @contextlib.contextmanager
    def _appearing(self, name: str) -> Iterator[BinaryIO]:
        if self.local is None:
            sink = pa.BufferOutputStream()
            yield sink
            self.guard()
            with self.filesystem.open_output_stream(self.path(name)) as whole:
                whole.write(sink.getvalue())
            return
        with self._disk.appearing(self.local / name) as file:
            yield file


def open_store(uri: str | Path) -> Store:
    """The store at a path or URI; raises `ValueError` for one that nothing here can open."""
    return _opened(str(uri))


def address_of(uri: str) -> str:
    """A URI without what it may hold of keys and parameters."""
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return uri
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


@lru_cache(maxsize=16)
def _opened(uri: str) -> Store:
    if "://" not in uri:
        path = Path(uri).absolute()
        return Store(fs.LocalFileSystem(), str(path), str(path))
    scheme, _, rest = uri.partition("://")
    known = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}.get(scheme, scheme)
    try:
        filesystem, root = fs.FileSystem.from_uri(f"{known}://{rest}")
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"history {address_of(uri)}: {str(error).partition(chr(10))[0]}") from None
    return Store(filesystem, root.rstrip("/"), uri)
