"""Checks a history, and sets aside what cannot be read, so that the rest stays usable."""

import json
from dataclasses import dataclass

from counterpoise.pipeline.clock import CLOCKS_DIFFER_MS
from counterpoise.pipeline.tables.data_files import DataFile, reading_file
from counterpoise.pipeline.tables.faults import DamagedError, HistoryFaultError
from counterpoise.pipeline.tables.history import TablesReader, TablesWriter
from counterpoise.pipeline.tables.journal import DECIDED, ENDED
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.plain_files import move_plain, names_below, read_plain
from counterpoise.pipeline.tables.reports import LANDED
from counterpoise.pipeline.tables.schema import FOLD_STATE, JOURNAL, REPORTS, TABLES
from counterpoise.pipeline.tables.states import FOLD, read_state

ASIDE = "damaged"
"""The directory that unreadable files are moved to, instead of being deleted."""
AHEAD = "ahead"
"""The directory that files dated in the future are moved to."""
_LAST_CHECKPOINT = "_last_checkpoint"


@dataclass(frozen=True, slots=True)
class TableSize:
    """How many days, files, rows and bytes a table has."""

    table: str
    days: int
    files: int
    rows: int
    size: int
    """The size in bytes."""


@dataclass(frozen=True, slots=True)
class HistoryCheck:
    """The result of checking a history: its tables, and the files that are damaged."""

    sizes: tuple[TableSize, ...]
    damaged: tuple[DataFile, ...]
    ahead: tuple[DataFile, ...] = ()
    """Files that are dated in the future: some clock was ahead."""
    logs: tuple[str, ...] = ()
    """Names of damaged files of the tables' logs."""

    @property
    def is_whole(self) -> bool:
        """Whether everything in the history can be read."""
        return not self.damaged and not self.logs


def check(reader: TablesReader, now_ms: int) -> HistoryCheck:
    """Read every file of a history and report damage; `now_ms` is by a trusted clock.

    A table whose log is damaged is not checked further.
    """
    location = reader.location
    logs = [name for table in TABLES for name in damaged_logs(location, table)]
    sizes, damaged, ahead = [], list[DataFile](), list[DataFile]()
    for table in TABLES:
        if any(name.startswith(f"{table}/") for name in logs):
            continue
        files = reader.files(table)
        unreadable = [file for file in files if not _is_readable(location, file)]
        if unreadable:
            # A file does not count if a writer has replaced and deleted it in the meantime.
            named = set(reader.files(table))
            damaged += [file for file in unreadable if file in named]
        ahead += [file for file in files if file.first_poll > now_ms + CLOCKS_DIFFER_MS]
        days = len({file.day for file in files})
        rows, size = sum(file.rows for file in files), sum(file.size for file in files)
        sizes.append(TableSize(table, days, len(files), rows, size))
    return HistoryCheck(tuple(sizes), tuple(damaged), tuple(ahead), tuple(logs))


def repair(writer: TablesWriter, now_ms: int) -> HistoryCheck:
    """Move damaged files, and those dated in the future, out of the tables; returns what was found.

    If a shard's state is damaged, all shards' states are dropped, and the fold starts again with
    the first poll. Files dated in the future would delay all rounds until then.
    """
    found = check(writer, now_ms)
    for table in TABLES:
        bad = [file for file in (*found.damaged, *found.ahead) if file.table == table]
        if not bad:
            continue
        gone = writer.files(table) if table == FOLD_STATE else list(dict.fromkeys(bad))
        left = [file for file in writer.files(table) if file not in gone]
        newest = max((file.last_poll for file in left), default=0)
        # Rounds still count as decided, except future-dated ones, after which none could be made.
        rounds = {
            name: min(writer.transaction(JOURNAL, name) or 0, now_ms) for name in (DECIDED, ENDED)
        }
        numbers = {FOLD_STATE: {FOLD: 0}, REPORTS: {LANDED: newest}, JOURNAL: rounds}
        transactions = numbers.get(table, {})
        writer.commit(table, [], removed=gone, transactions=transactions)
        for file in gone:
            to = AHEAD if file in found.ahead else ASIDE
            move_plain(writer.location, file.name, f"{to}/{file.name}")
    return found


def repair_logs(location: Location) -> list[str]:
    """Move unreadable checkpoints, and an unreadable newest log entry, out of the Delta logs.

    Returns their names. The newest entry was cut off before its commit was acknowledged; a
    checkpoint only repeats earlier entries. For other entries it raises `HistoryFaultError`:
    without one, the table's content is unknown.
    """
    gone = []
    for table in TABLES:
        for name in damaged_logs(location, table):
            if name.endswith(".json") and name != _newest_entry(location, table):
                raise HistoryFaultError(
                    f"{location.where(name)} is damaged, and says which files {table} has: put "
                    "back a copy of it, or name another --history"
                )
            move_plain(location, name, f"{ASIDE}/{name}")
            gone.append(name)
    return gone


def damaged_logs(location: Location, table: str) -> list[str]:
    """The names of those files in a table's Delta log that cannot be read."""
    log = f"{table}/_delta_log"
    names = names_below(location, log)
    damaged = [
        f"{log}/{name}"
        for name in names
        if (name.endswith(".json") and not _is_entry(location, f"{log}/{name}"))
        or (name.endswith(".parquet") and not _is_parquet(location, f"{log}/{name}"))
    ]
    if any(name.endswith(".parquet") for name in damaged) and _LAST_CHECKPOINT in names:
        damaged.append(f"{log}/{_LAST_CHECKPOINT}")
    return damaged


def _newest_entry(location: Location, table: str) -> str:
    log = f"{table}/_delta_log"
    return max(f"{log}/{name}" for name in names_below(location, log) if name.endswith(".json"))


def _is_entry(location: Location, name: str) -> bool:
    lines = (read_plain(location, name) or b"").splitlines()
    try:
        for line in lines:
            json.loads(line)
    except ValueError:
        return False
    return bool(lines)  # a loss of power may leave an empty file


def _is_parquet(location: Location, name: str) -> bool:
    try:
        with reading_file(location, name) as parquet:
            parquet.read()
    except DamagedError:
        return False
    return True


def _is_readable(location: Location, file: DataFile) -> bool:
    try:
        if file.table == FOLD_STATE:
            read_state(location, file)
        # Every page is read: the data can be damaged even if the footer is not.
        with reading_file(location, file.name) as parquet:
            return sum(len(batch) for batch in parquet.iter_batches()) == file.rows
    except DamagedError:
        return False
