"""A metadata tree that stores its data in one SQLite file, for the brokers of one process.

The tree itself is in memory (`MemoryTree`), and so are sessions, watches and ephemeral nodes, which
end with the process. Every persistent change is written to the file and synced before it can be
read or is notified. So a killed process finds all acknowledged changes when it restarts, and no
owners.

Only one process at a time can open the file. Brokers in several processes need sessions that
outlive connections, and a process that watches them, so they share a ZooKeeper instead.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from counterpoise.metadata.errors import StoreUnavailable
from counterpoise.metadata.memory import MemoryStore, MemoryTree
from counterpoise.metadata.port import MUST_NOT_EXIST, parent_of, parents_of

T = TypeVar("T")

_LAYOUT = 1
_BUSY_S = 2.0
"""How long to wait for a former process to release the file."""

Statement = tuple[str, tuple[object, ...]]


class SqliteTree(MemoryTree):
    """A metadata tree that is kept in memory and stored in an SQLite file. Open it with `load`.

    Use it from one event loop.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metadata")
        self._turn = asyncio.Lock()
        self._pending: set[asyncio.Task[int]] = set()

    @classmethod
    async def load(cls, path: Path) -> "SqliteTree":
        """Open or create the file, and load its tree; raises `StoreUnavailable`."""
        tree = cls(path)
        rows = await tree._run(f"opening {path}", tree._open)
        for name, value, version, numbered in rows:
            tree.restore(name, value, version, numbered)
        return tree

    async def put(
        self,
        session: MemoryStore,
        path: str,
        value: bytes,
        expected: int | None,
        *,
        ephemeral: bool,
    ) -> int:
        """Create or replace a node; returns its version. The change is on disk then."""

        async def work() -> int:
            self.check_write(path, expected)
            await self._store(f"put {path}", self._statements(path, value, ephemeral=ephemeral))
            version = self.write(session, path, value, expected, ephemeral=ephemeral)
            self._end_if_gone(session, path)
            return version

        return await self._in_turn(work)

    async def put_next(
        self, session: MemoryStore, prefix: str, value: bytes, *, ephemeral: bool
    ) -> str:
        """Create a node with the next number; returns its path. The node and the number are on disk
        then.
        """
        parent = parent_of(prefix)

        async def work() -> int:
            number = self.next_number(parent)
            path = f"{prefix}{number:010d}"
            self.check_write(path, MUST_NOT_EXIST)
            used: Statement = ("INSERT OR REPLACE INTO numbers VALUES (?, ?)", (parent, number + 1))
            node = self._statements(path, value, ephemeral=ephemeral)
            await self._store(f"put {path}", [*node, used])
            await super(SqliteTree, self).put_next(session, prefix, value, ephemeral=ephemeral)
            self._end_if_gone(session, path)
            return number

        return f"{prefix}{await self._in_turn(work):010d}"

    async def delete(self, path: str, expected: int | None) -> None:
        """Delete a node without children. The change is on disk when this returns."""

        async def work() -> int:
            if self.check_removal(path, expected).owner is None:
                gone: list[Statement] = [
                    ("DELETE FROM nodes WHERE path = ?", (path,)),
                    ("DELETE FROM numbers WHERE path = ?", (path,)),
                ]
                await self._store(f"delete {path}", gone)
            self.remove(path, expected)
            return 0

        await self._in_turn(work)

    def end(self, session: MemoryStore) -> None:
        """End a session and remove its ephemeral nodes. The last session closes the file."""
        super().end(session)
        if not self._sessions and self._database is not None:
            database, self._database = self._database, None
            # In the database's thread, so after all writes that are queued there.
            self._thread.submit(database.close)
            self._thread.shutdown(wait=False)

    def _end_if_gone(self, session: MemoryStore, path: str) -> None:
        if not session.connected:
            # The session ended while the node was stored; an ephemeral node must not outlive it.
            self.expire(session)
            raise StoreUnavailable(f"put {path}", "the session ended meanwhile")

    def _statements(self, path: str, value: bytes, *, ephemeral: bool) -> list[Statement]:
        """The SQL statements that store a write: missing parents and, unless it is ephemeral, the
        node.
        """
        node = self.read(path)
        made: list[Statement] = [
            ("INSERT INTO nodes VALUES (?, ?, 0)", (parent, b""))
            for parent in parents_of(path)
            if self.read(parent) is None
        ]
        if node is None and not ephemeral:
            made.append(("INSERT INTO nodes VALUES (?, ?, 0)", (path, value)))
        elif node is not None and node.owner is None:
            changed = "UPDATE nodes SET value = ?, version = ? WHERE path = ?"
            return [(changed, (value, node.version + 1, path))]
        return made

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, int]]) -> int:
        """Run changes one after the other, each to its end even if its caller is cancelled."""

        async def turn() -> int:
            async with self._turn:
                return await work()

        task = asyncio.get_running_loop().create_task(turn())
        self._pending.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[int]) -> None:
        self._pending.discard(task)
        if not task.cancelled():
            task.exception()  # a caller that waits gets it; there may be none left

    async def _store(self, what: str, statements: Sequence[Statement]) -> None:
        if statements:
            await self._run(what, lambda: self._commit(statements))

    async def _run(self, what: str, work: Callable[[], T]) -> T:
        """Run work in the database's thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError, RuntimeError) as error:
            raise StoreUnavailable(what, f"{self._path}: {error}") from error

    # The methods from here on run in the database's thread.

    def _open(self) -> list[tuple[str, bytes, int, int]]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(
            self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            # The lock is held from the first statement on, so that no other process writes to the
            # file.
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN EXCLUSIVE")
            (layout,) = database.execute("PRAGMA user_version").fetchone()
            if layout > _LAYOUT:
                raise sqlite3.DatabaseError(f"written by a later version (layout {layout})")
            database.execute(
                "CREATE TABLE IF NOT EXISTS nodes"
                " (path TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL)"
                " WITHOUT ROWID"
            )
            # Versions that know only the first table leave this one alone.
            database.execute(
                "CREATE TABLE IF NOT EXISTS numbers"
                " (path TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID"
            )
            database.execute(f"PRAGMA user_version = {_LAYOUT}")
            database.execute("COMMIT")
            rows = database.execute(
                "SELECT path, value, version, coalesce(next, 0)"
                " FROM nodes LEFT JOIN numbers USING (path) ORDER BY path"
            )
            found: list[tuple[str, bytes, int, int]] = rows.fetchall()
        except sqlite3.OperationalError as error:
            database.close()
            if "locked" in str(error):
                raise OSError("another process uses this file") from error
            raise
        except sqlite3.Error:
            database.close()
            raise
        self._database = database
        return found

    def _commit(self, statements: Sequence[Statement]) -> None:
        database = self._database
        if database is None:
            raise RuntimeError("the file was closed")
        database.execute("BEGIN")
        try:
            for statement, values in statements:
                database.execute(statement, values)
            database.execute("COMMIT")
        except sqlite3.Error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise


def path_in(address: str) -> Path | None:
    """The file of a ``sqlite:`` URL, given the part ``///directory/file``; None if malformed."""
    path = address.removeprefix("//")
    return Path(unquote(path)) if path.startswith("/") and not path.endswith("/") else None
