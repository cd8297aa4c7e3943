"""What somebody does to a history between two lives of its balancer.

Each gives the names of the files that are not any more what they were. On a directory and on S3
alike; a disk that is full, or read-only, is one of this machine's, and takes leave to mount one.
"""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

from pyarrow import fs

from counterpoise.pipeline.history.names import STATES, TABLES
from counterpoise.pipeline.history.reigns import unsigned
from counterpoise.pipeline.history.store import Store, open_store

FILLER = "filler"
_OF_THE_BALANCER = (*TABLES, STATES, "version")


def all_files(store: Store) -> list[str]:
    """The files of a history as they are stored, below its root."""
    selector = fs.FileSelector(store.root, recursive=True, allow_not_found=True)
    found = [each.path for each in store.filesystem.get_file_info(selector) if each.is_file]
    return sorted(path.removeprefix(f"{store.root}/") for path in found)


def some_file(store: Store, rng: Random) -> str:
    """One of those that the balancer goes on from, each table as likely as another."""
    table = rng.choice(_OF_THE_BALANCER)
    names = [name for name in all_files(store) if name.partition("/")[0] == table]
    # What is newest matters most.
    return rng.choice(names[-3:] if rng.random() < 0.7 else names) if names else "version"


def cut(store: Store, rng: Random) -> set[str]:
    """A file ends somewhere before its end."""
    name = some_file(store, rng)
    data = _read(store, name)
    _write(store, name, data[: rng.randrange(len(data))])
    return {unsigned(name)[0]}


def turned(store: Store, rng: Random) -> set[str]:
    """A bit of a file is another."""
    name = some_file(store, rng)
    data = bytearray(_read(store, name))
    # A version may be any number: another one is another version.
    place = rng.randrange(len(data))
    data[place] ^= 0x80 if name == "version" else 1 << rng.randrange(8)
    _write(store, name, bytes(data))
    return {unsigned(name)[0]}


def removed(store: Store, rng: Random) -> set[str]:
    """A file is gone."""
    name = some_file(store, rng)
    store.filesystem.delete_file(store.path(name))
    return {unsigned(name)[0]}


def without_states(store: Store, rng: Random) -> set[str]:
    """All that the stream goes on from is gone."""
    del rng
    return _delete(store, STATES)


def without_half_a_state(store: Store, rng: Random) -> set[str]:
    """A shard of the newest state is gone."""
    names = [name for name in all_files(store) if name.startswith(f"{STATES}/")]
    if not names:
        return set()
    newest = names[-1].rpartition("/")[0]
    name = rng.choice([name for name in names if name.startswith(newest)])
    store.filesystem.delete_file(store.path(name))
    return {unsigned(name)[0]}


def without_rounds(store: Store, rng: Random) -> set[str]:
    """A whole table is gone that says what was decided or done."""
    return _delete(store, rng.choice(("rounds", "decisions", "rejections", "ownership")))


DAMAGES: Mapping[str, Callable[[Store, Random], set[str]]] = {
    "a file cut off": cut,
    "a bit turned over": turned,
    "a file removed": removed,
    "all states removed": without_states,
    "half a state removed": without_half_a_state,
    "a table removed": without_rounds,
}


def copied(history: str, to: str) -> None:
    """All files of a history to another place, and none left where it was."""
    here, there = open_store(history), open_store(to)
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


def _delete(store: Store, table: str) -> set[str]:
    gone = {name for name in all_files(store) if name.partition("/")[0] == table}
    with contextlib.suppress(FileNotFoundError):
        store.filesystem.delete_dir(store.path(table))
    return {unsigned(name)[0] for name in gone}


def _read(store: Store, name: str) -> bytes:
    with store.filesystem.open_input_file(store.path(name)) as file:
        return bytes(file.read())


def _write(store: Store, name: str, data: bytes) -> None:
    store.filesystem.create_dir(store.path(name).rpartition("/")[0], recursive=True)
    with store.filesystem.open_output_stream(store.path(name)) as file:
        file.write(data)
