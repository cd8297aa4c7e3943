"""A history's Delta tables, opened to read, or to write by the one writer of an epoch.

A process that takes a history over commits the next epoch to every table as an application
transaction, which each of its commits contains, too. Delta refuses a commit if another process has
committed the same transaction since the table was opened. So a former writer that continues is
refused at its next commit to any table. A writer must never open a table again: that would read the
new epoch.
"""

import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from counterpoise.pipeline.clock import EVER
from counterpoise.pipeline.tables import delta_table
from counterpoise.pipeline.tables.data_files import DataFile, level_of
from counterpoise.pipeline.tables.faults import HistoryFaultError, superseded
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.old_layout import is_old
from counterpoise.pipeline.tables.plain_files import read_plain, sync_path
from counterpoise.pipeline.tables.schema import DAY, FOLD_STATE, JOURNAL, TABLES, statistics_of

WRITER = "counterpoise-writer"
"""The name of a Delta application transaction: its version is the writer's epoch."""
_COMMIT_ID = "counterpoiseCommit"


class TablesReader:
    """Reads a history's tables; each call uses the newest committed version."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._handles: dict[str, DeltaTable] = {}
        self._locks = defaultdict(threading.RLock, {table: threading.RLock() for table in TABLES})

    def files(self, table: str, after: int = -1) -> list[DataFile]:
        """The data files of a table's newest version, with polls after `after`, oldest first."""
        with self._current(table) as handle:
            if handle is None:
                return []
            actions = pa.table(handle.get_add_actions(flatten=True))
        found = [each for each in _data_files(table, actions) if each.last_poll > after]
        return sorted(found, key=lambda each: (each.first_poll, each.last_poll, each.path))

    def version(self, table: str) -> int:
        """The newest version of a table; -1 if there is no table."""
        with self._current(table) as handle:
            return -1 if handle is None else handle.version()

    def transaction(self, table: str, name: str) -> int | None:
        """The version of Delta's application transaction ``name`` on a table; None without one."""
        with self._current(table) as handle:
            return None if handle is None else handle.transaction_version(name)

    @contextmanager
    def _current(self, table: str) -> Iterator[DeltaTable | None]:
        """The table at its newest version, exclusively; None if there is none."""
        with self._locks[table], delta_table.trouble(self.location, table):
            if table in self._handles:
                self._handles[table].update_incremental()
            elif (handle := delta_table.find_table(self.location, table)) is not None:
                self._handles[table] = handle
            yield self._handles.get(table)


class TablesWriter(TablesReader):
    """Writes the tables of a history that this process has taken over; made by `take_over`."""

    def __init__(self, location: Location, handles: Mapping[str, DeltaTable], epoch: int) -> None:
        super().__init__(location)
        self._handles = dict(handles)
        self.epoch = epoch
        self._transactions: dict[tuple[str, str], int | None] = {}
        """The application transactions read so far; for each the log since its checkpoint is read.
        """
        self._ended: HistoryFaultError | None = None
        """The error after which nothing more is committed, since the content of the log is
        unknown."""

    def commit(
        self,
        table: str,
        added: Sequence[DataFile],
        *,
        removed: Sequence[DataFile] = (),
        transactions: Mapping[str, int] | None = None,
        data_change: bool = True,
    ) -> int:
        """Add data files to a table, and remove others, in one commit; returns the table's version.

        `transactions` are application transactions besides the writer's epoch. Raises
        `SupersededError` if another writer has taken the history over, `OutageError` and
        `HistoryFaultError`; after any of them this writer commits nothing any more.
        """
        now_ms = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(each.path, data_change, now_ms, each.size, {DAY: each.day})
            for each in removed
        ]
        actions += [_add_action(each, now_ms, data_change) for each in added]
        with self._locks[table]:
            self._expect_going_on()
            try:
                return self._committed(table, actions, transactions or {})
            except HistoryFaultError as error:
                self._ended = error
                raise

    def vacuum(self, table: str) -> int:
        """Remove data files that no readable version needs; returns their number.

        That includes files that no commit lists, left by failed tasks. Raises `SupersededError`
        before anything is removed if another writer has taken the history over: its files are in no
        version that is known here.
        """
        with self._held(table) as handle:
            # Without the epoch: a vacuum is not refused after another writer has committed, so it
            # would set the epoch back.
            gone: list[str] = handle.vacuum(dry_run=False, full=True)
        return len(gone)

    def keep_versions(self, days: int) -> None:
        """Keep old versions of all tables but `fold_state` readable for `days` days."""
        kept = dict.fromkeys(
            (delta_table.LOG_KEPT, delta_table.FILES_KEPT), delta_table.days_kept(days)
        )
        for table in (table for table in TABLES if table != FOLD_STATE):
            with self._held(table) as handle:
                if not kept.items() <= handle.metadata().configuration.items():
                    of_epoch = CommitProperties(app_transactions=[Transaction(WRITER, self.epoch)])
                    handle.alter.set_table_properties(kept, commit_properties=of_epoch)

    def forget_versions(self, table: str) -> None:
        """Remove the log entries of versions older than the table's log retention."""
        with self._current(table) as handle:
            handle.cleanup_metadata()

    def transaction(self, table: str, name: str) -> int | None:
        """Like `TablesReader.transaction`, but each transaction is read from the log only once."""
        with self._locks[table]:
            self._expect_going_on()
            if (table, name) not in self._transactions:
                self._transactions[table, name] = super().transaction(table, name)
            return self._transactions[table, name]

    def expect_held(self) -> None:
        """Raise `SupersededError` if another process has become the history's writer."""
        with self._current(JOURNAL) as handle:
            self._expect_newest(handle)

    def _expect_going_on(self) -> None:
        if self._ended is not None:
            raise type(self._ended)(str(self._ended))

    @contextmanager
    def _current(self, table: str) -> Iterator[DeltaTable]:
        with self._locks[table], delta_table.trouble(self.location, table):
            self._expect_going_on()
            # The handle is up to date: only this writer commits to the table.
            yield self._handles[table]

    @contextmanager
    def _held(self, table: str) -> Iterator[DeltaTable]:
        """The newest version of a table, for maintenance in the block.

        Raises `SupersededError` before or after the block if another writer has taken over.
        """
        with self._current(table) as handle:
            self._expect_newest(handle)
            yield handle
            self._expect_newest(handle)

    def _committed(
        self, table: str, actions: Sequence[Any], transactions: Mapping[str, int]
    ) -> int:
        handle, commit_id = self._handles[table], uuid.uuid4().hex
        before = handle.version()
        carried = {WRITER: self.epoch, **transactions}
        with delta_table.trouble(self.location, table):
            try:
                commit(handle, table, actions, carried, commit_id)
            except CommitFailedError as error:
                if "Concurrent transaction" not in str(error):
                    raise
                handle.update_incremental()
                since = range(before + 1, handle.version() + 1)
                if not _is_there(self.location, table, since, commit_id):
                    raise superseded(self.location.address) from None
                # The commit had succeeded, but the store's answer was lost: the retry met it.
            handle.update_incremental()
            if handle.version() != before + 1:
                self._expect_epoch(handle)
            sync_log(self.location, table, before + 1, handle.version())
            for name, number in transactions.items():
                self._transactions[table, name] = number
            return handle.version()

    def _expect_newest(self, handle: DeltaTable) -> None:
        """Read a table's newest version; raises `SupersededError` if another writer wrote it."""
        handle.update_incremental()
        self._expect_epoch(handle)

    def _expect_epoch(self, handle: DeltaTable) -> None:
        if handle.transaction_version(WRITER) != self.epoch:
            self._ended = superseded(self.location.address)
            raise self._ended


def take_over(location: Location) -> TablesWriter:
    """Become the history's writer, by committing the next epoch to every table.

    Raises `SupersededError` when another process does so at the same time, and `HistoryFaultError`.
    """
    if is_old(location):
        raise HistoryFaultError(
            f"{location.address} has the layout of an older counterpoise: `counterpoise history "
            f"migrate {location.address} --to NEW` copies it into tables of today, with all that "
            "is in it"
        )
    handles = {}
    for table in TABLES:
        handle = delta_table.find_table(location, table)
        if handle is None:
            handle = delta_table.create_table(
                location, table, delta_table.schema_of(table), delta_table.configuration_of(table)
            )
        if later := delta_table.later_layout(handle):
            raise HistoryFaultError(
                f"{location.address} was written by a newer counterpoise (its layout is "
                f"version {later}): run that one, or name another --history"
            )
        handles[table] = handle
    known = [handle.transaction_version(WRITER) or 0 for handle in handles.values()]
    epoch = max(known) + 1
    for table, handle in handles.items():
        with delta_table.trouble(location, table):
            before = handle.version()
            while True:
                try:
                    commit(handle, table, [], {WRITER: epoch}, uuid.uuid4().hex)
                except CommitFailedError as error:
                    if "Concurrent transaction" not in str(error):
                        raise
                    handle.update_incremental()
                    if (handle.transaction_version(WRITER) or 0) >= epoch:
                        raise superseded(location.address) from None
                    continue  # the former writer has committed meanwhile
                break
            handle.update_incremental()
            _add_columns(handle, table, epoch)
            # From version 0 for a new table, whose first log entry has not been synced yet.
            sync_log(location, table, before + 1 if before else 0, handle.version())
    return TablesWriter(location, handles, epoch)


def _add_columns(handle: DeltaTable, table: str, epoch: int) -> None:
    """Add columns that a table's layout lacks: null in existing rows."""
    there = {field.name for field in handle.schema().fields}
    new = [field for field in delta_table.schema_of(table).fields if field.name not in there]
    if new:
        of_epoch = CommitProperties(app_transactions=[Transaction(WRITER, epoch)])
        handle.alter.add_columns(new, commit_properties=of_epoch)
        handle.update_incremental()


def commit(
    handle: DeltaTable,
    table: str,
    actions: Sequence[Any],
    transactions: Mapping[str, int],
    commit_id: str,
) -> None:
    """Commit actions on top of the version that a handle has read; raises delta-rs's errors."""
    handle.create_write_transaction(
        list(actions),
        "append",
        delta_table.schema_of(table),
        partition_by=[DAY],
        commit_properties=CommitProperties(
            custom_metadata={_COMMIT_ID: commit_id},
            app_transactions=[Transaction(name, number) for name, number in transactions.items()],
        ),
        # Not after each commit, since a cleanup lists the whole log: `forget_versions` does it.
        post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
    )


def sync_log(location: Location, table: str, first: int, last: int) -> None:
    """Sync the log entries of these versions to a local disk, which delta-rs does not do."""
    if (root := location.local) is None:
        return
    log = root / table / "_delta_log"
    for version in range(first, last + 1):
        sync_path(log / f"{version:020d}.json")
    sync_path(log)
    if first == 0:
        sync_path(root / table)
        sync_path(root)


def _is_there(location: Location, table: str, versions: range, commit_id: str) -> bool:
    """Whether one of these versions of a table was made by the commit with this id."""
    names = [f"{table}/_delta_log/{version:020d}.json" for version in versions]
    return any(commit_id.encode() in (read_plain(location, name) or b"") for name in names)


def _add_action(file: DataFile, now_ms: int, data_change: bool) -> AddAction:
    least: dict[str, Any] = {"poll_id": file.first_poll}
    most: dict[str, Any] = {"poll_id": file.last_poll}
    if file.kinds is not None:
        least["kind"], most["kind"] = file.kinds
    statistics = {
        "numRecords": file.rows,
        "minValues": least,
        "maxValues": most,
        "nullCount": dict.fromkeys(least, 0),
    }
    return AddAction(
        file.path, file.size, {DAY: file.day}, now_ms, data_change, json.dumps(statistics)
    )


def _data_files(table: str, actions: pa.Table) -> Iterator[DataFile]:
    names = ["path", "size_bytes", "num_records"]
    names += [f"{end}.{name}" for name in statistics_of(table) for end in ("min", "max")]
    have = [name for name in names if name in actions.column_names]
    for row in actions.select(have).to_pylist():
        kinds = (row["min.kind"], row["max.kind"]) if row.get("min.kind") is not None else None
        first, last = row.get("min.poll_id"), row.get("max.poll_id")
        yield DataFile(
            table,
            row["path"],
            row["size_bytes"],
            row.get("num_records") or 0,
            0 if first is None else first,
            EVER if last is None else last,
            kinds,
            level_of(row["path"]),
        )
