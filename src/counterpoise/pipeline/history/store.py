"""A directory at a URI, whose files appear whole or not at all.

`/a/path`, `file://`, `s3://` (or `s3a://`, as Spark says), `gs://`, `hdfs://`, `abfs://`: whatever
`pyarrow.fs` opens. An endpoint other than the provider's own is a parameter of the URI
(`s3://bucket/history?endpoint_override=localhost:9000&scheme=http`) or `AWS_ENDPOINT_URL`.

On a local or mounted file system a file is written under a hidden name, synced and renamed. An
object store shows an object when it is complete, so there a file is put under its own name at once.

The names asked for here are those of `layout.py`. Which file stands for one, where several machines
may have written, is a matter of `reigns.py`: a reader sees the newest reign each time it looks for
the days of a table; a URI that ends with `#reign=<token>` is the store of that reign's holder.
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
from counterpoise.pipeline.history.names import LATE
from counterpoise.pipeline.history.reigns import DIRECTORY, Lineage, View, newest, record_of
from counterpoise.pipeline.tables.faults import (
    HistoryFaultError,
    damaged,
    is_out_of_reach,
    unreadable,
    unwritable,
)
from counterpoise.pipeline.tables.place import address_of, file_system

_REIGN = "#reign="


class Store:
    """Files below one root, by their names relative to it (`reports/day=…/….parquet`)."""

    def __init__(
        self,
        filesystem: Any,
        root: str,
        uri: str,
        disk: Disk | None = None,
        guard: Callable[[], None] = lambda: None,
        view: View | None = None,
    ) -> None:
        """`guard` is called before anything is changed, and raises where nothing may be."""
        self.filesystem: Any = filesystem
        self.root = root
        self.uri = uri
        self._disk = disk or Disk()
        self.guard = guard
        self._view = view or View()

    def guarded(self, guard: Callable[[], None]) -> "Store":
        """The same store, in which nothing is changed without asking first."""
        return Store(self.filesystem, self.root, self.uri, self._disk, guard, self._view)

    def seen_by(self, view: View) -> "Store":
        """The same store, in which others' files may stand for names."""
        uri = self.uri.partition(_REIGN)[0] + (f"{_REIGN}{view.token}" if view.token else "")
        return Store(self.filesystem, self.root, uri, self._disk, self.guard, view)

    @property
    def local(self) -> Path | None:
        """The directory, when it is on a file system of this machine."""
        return Path(self.root) if isinstance(self.filesystem, fs.LocalFileSystem) else None

    def where(self, name: str) -> str:
        """A file's address, for a person."""
        return f"{self.address.rstrip('/')}/{self._view.file(name)}"

    @property
    def address(self) -> str:
        """The root, for a person: without keys and parameters."""
        return address_of(self.uri.partition(_REIGN)[0])

    def path(self, name: str) -> str:
        """A path on `filesystem`, by what is below the root."""
        return f"{self.root}/{name}"

    def file(self, name: str) -> str:
        """The file that stands for a name, below the root."""
        if not self._view.is_known(name):
            self.names(name.rpartition("/")[0])
        return self._view.file(name)

    def read(self, name: str, parse: Callable[[Any], Any]) -> Any:
        """What `parse` makes of a file (`pyarrow`'s random access).

        Raises `FileNotFoundError`, and `HistoryFaultError` when it makes nothing of it.
        """
        try:
            file = self.file(name)
            try:
                return self._parsed(file, parse)
            except FileNotFoundError:
                if (again := self._looked_again(name)) == file:
                    raise
                return self._parsed(again, parse)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError) as error:
            if is_out_of_reach(error):
                raise unreadable(self.where(name), error) from error
            raise damaged(self.where(name), self.address, error) from error

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A file to write; it is there when the block ends, and a block that raises leaves none.

        Raises `HistoryFaultError` for a full disk and the like.
        """
        file_name = self._view.file_to_write(name)
        try:
            with self._appearing(file_name) as file:
                yield file
            if before := self._view.written(name):
                self._delete(before)
        except (pa.ArrowException, OSError) as error:
            raise unwritable(self.where(name), error) from error

    def write(self, name: str, data: bytes) -> None:
        """A whole file at once."""
        with self.writing(name) as file:
            file.write(data)

    def names(self, directory: str) -> list[str]:
        """The names of the files in a directory, sorted; none when there is no such directory."""
        return self._view.counted(directory, self.files_by_anybody(directory))

    def late(self, directory: str) -> list[str]:
        """The files in a directory that count for nothing, below the root (`reigns.py`)."""
        there = [f"{directory}/{name}" for name in self.files_by_anybody(directory)]
        return [file for file in there if not self._view.lineage.counts(file)]

    def directories(self, directory: str) -> list[str]:
        """The names of the directories in a directory, sorted."""
        self._look_who_reigns()
        return self.directories_by_anybody(directory)

    def directories_by_anybody(self, directory: str) -> list[str]:
        """The same, whoever reigns."""
        return [each.base_name for each in self._listed(directory) if not each.is_file]

    def files_by_anybody(self, directory: str) -> list[str]:
        """The files in a directory by the names under which they are stored, whoever reigns."""
        if self.local is not None:
            try:
                with os.scandir(self.path(directory)) as found:
                    return sorted(each.name for each in found if each.name[0] != ".")
            except (FileNotFoundError, NotADirectoryError):
                return []
            except OSError as error:
                raise unreadable(self.where(directory), error) from error
        return [each.base_name for each in self._listed(directory) if each.is_file]

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        file = self.file(name)
        if self._is_there(file):
            return True
        again = self._looked_again(name)
        return again != file and self._is_there(again)

    def size(self, name: str) -> int:
        """Bytes of a file."""
        return int(self.filesystem.get_file_info(self.path(self.file(name))).size or 0)

    def delete(self, name: str) -> None:
        """Remove a file; it may be gone already."""
        self._delete(self.file(name))

    def delete_directory(self, name: str) -> None:
        """Remove a directory and all in it; it may be gone already."""
        with contextlib.suppress(FileNotFoundError), self._changing(name):
            self.filesystem.delete_dir(self.path(name))

    def move(self, name: str, to: str) -> None:
        """Give a file another name."""
        self._move(self.file(name), self._view.file_to_write(to))

    def set_late_aside(self, file: str) -> None:
        """Take a file out of the tables that counts for nothing there."""
        self._move(file, f"{LATE}/{file}")

    def _parsed(self, file: str, parse: Callable[[Any], Any]) -> Any:
        try:
            with self.filesystem.open_input_file(self.path(file)) as opened:
                return parse(opened)
        except FileNotFoundError:
            raise
        except OSError as error:
            if self.local is None and not self._is_there(file):
                # Another removed it after it was opened, which is a first look at an object only.
                raise FileNotFoundError(file) from error
            raise

    def _is_there(self, file: str) -> bool:
        try:
            return bool(self.filesystem.get_file_info(self.path(file)).is_file)
        except (pa.ArrowException, OSError) as error:
            raise unreadable(self.where(file), error) from error

    def _looked_again(self, name: str) -> str:
        """The file that stands for a name, once more, where another may have written it since."""
        if self._view.may_have_changed(name):
            self._look_who_reigns()
            if self._view.lineage.head.token:
                self.names(name.rpartition("/")[0])
        return self.file(name)

    def lineage(self) -> Lineage:
        """Who reigned, and who does, by the records that are there."""
        found = []
        for name in self.names(DIRECTORY):
            with contextlib.suppress(FileNotFoundError):  # a newer reign has taken it up
                found.append(self.record(name.partition(".")[0]))
        return newest(found)

    def record(self, token: str) -> Lineage:
        """What a holder put down of its reign; raises `FileNotFoundError` when a newer one did."""
        made: Lineage = self.read(record_of(token), lambda file: Lineage.from_json(file.read()))
        return made

    def _delete(self, file: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._changing(file):
            self.filesystem.delete_file(self.path(file))

    def _move(self, file: str, to: str) -> None:
        with self._changing(to):
            self.filesystem.create_dir(self.path(to).rpartition("/")[0], recursive=True)
            self.filesystem.move(self.path(file), self.path(to))

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        self.guard()
        try:
            yield
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise unwritable(self.where(name), error) from error

    def _look_who_reigns(self) -> None:
        if not self._view.fixed:
            self._view.take(self.lineage())

    def _listed(self, directory: str) -> list[Any]:
        selector = fs.FileSelector(self.path(directory), allow_not_found=True)
        try:
            found = [each for each in self.filesystem.get_file_info(selector) if each.base_name]
        except (pa.ArrowException, OSError) as error:
            raise unreadable(self.where(directory), error) from error
        return sorted(found, key=lambda each: each.base_name)

    @contextlib.contextmanager
    def _appearing(self, name: str) -> Iterator[BinaryIO]:
        if self.local is None:
            sink = pa.BufferOutputStream()
            yield sink
            self.guard()
            self._put(name, sink.getvalue())
            return
        self.guard()
        with self._disk.appearing(self.local / name) as file:
            yield file

    def _put(self, file: str, data: pa.Buffer) -> None:
        with self.filesystem.open_output_stream(self.path(file)) as whole:
            whole.write(data)


def open_store(uri: str | Path) -> Store:
    """The store at a path or URI; raises `ValueError` for one that nothing here can open.

    With `#reign=<token>` behind it, it is what the holder of that reign reads and writes, without
    the lease; raises `HistoryFaultError` when another has come since.
    """
    plain, reign, token = str(uri).partition(_REIGN)
    if not reign:
        return _opened(plain)
    return _of_reign(plain, token)


@lru_cache(maxsize=16)
def _of_reign(plain: str, token: str) -> Store:
    store = _opened(plain)
    try:
        return store.seen_by(View(token, store.record(token)))
    except FileNotFoundError:
        raise HistoryFaultError(f"another balancer has taken {store.address} over") from None


@lru_cache(maxsize=16)
def _opened(uri: str) -> Store:
    filesystem, root = file_system(uri)
    return Store(filesystem, root, root if isinstance(filesystem, fs.LocalFileSystem) else uri)
