"""Converts a history of an older layout into Delta tables, with all its rows."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from counterpoise.pipeline.tables.compaction import groups_to_merge, merge_files
from counterpoise.pipeline.tables.control import NAME as CONTROL
from counterpoise.pipeline.tables.data_files import DataFile, read_file, write_file
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.journal import DECIDED, ENDED
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.old_layout import OldLayout, expect_readable
from counterpoise.pipeline.tables.plain_files import names_below, read_plain, write_plain
from counterpoise.pipeline.tables.reports import LANDED, newest_poll
from counterpoise.pipeline.tables.schema import (
    JOURNAL,
    OWNERSHIP_CHANGES,
    REPORTS,
    SCHEMAS,
    JournalKind,
)

_NAMES: Mapping[JournalKind, str] = {
    JournalKind.ROUND: "rounds",
    JournalKind.DECISION: "decisions",
    JournalKind.REJECTION: "rejections",
    JournalKind.OUTCOME: "outcomes",
    JournalKind.MEMORY: "memory",
}
_OWNERSHIP = "ownership"
ACTIONS = "action-"
"""The prefix of the names of files with operators' actions."""


def migrate(old: Location, writer: TablesWriter) -> dict[str, int]:
    """Copy a history of an older layout into tables that have no reports yet.

    Returns the number of rows by table.

    The old history is not changed. Fold states are not copied, the fold starts again. A copy that
    was interrupted is started again: the reports are copied last. Raises `HistoryFaultError`.
    """
    expect_readable(old)
    if newest_poll(writer):
        raise HistoryFaultError(
            f"{writer.location.address} has reports already: name an empty place for the copy"
        )
    layout = OldLayout(old)
    journal = {kind: list(_journal(old, layout, writer, kind)) for kind in JournalKind}
    newest_of = {
        name: max((file.last_poll for file in journal[kind]), default=0)
        for name, kind in ((DECIDED, JournalKind.ROUND), (ENDED, JournalKind.MEMORY))
    }
    recorded = [*chain.from_iterable(journal.values())]
    _replace(writer, JOURNAL, recorded, newest_of)
    changes, reports = (
        [merge_files(old, writer.location, table, group) for group in _groups(layout, name)]
        for name, table in ((_OWNERSHIP, OWNERSHIP_CHANGES), (REPORTS, REPORTS))
    )
    _replace(writer, OWNERSHIP_CHANGES, changes)
    for name in names_below(old):
        if name == CONTROL or name.startswith(ACTIONS):
            write_plain(writer.location, name, read_plain(old, name) or b"")
    newest = max((file.last_poll for file in reports), default=0)
    _replace(writer, REPORTS, reports, {LANDED: newest})
    copied = {REPORTS: reports, OWNERSHIP_CHANGES: changes, JOURNAL: recorded}
    return {table: sum(file.rows for file in files) for table, files in copied.items()}


def _replace(
    writer: TablesWriter,
    table: str,
    files: Sequence[DataFile],
    transactions: Mapping[str, int] | None = None,
) -> None:
    writer.commit(table, files, removed=writer.files(table), transactions=transactions)


def _groups(layout: OldLayout, name: str) -> Iterator[list[DataFile]]:
    """The files of an older table in groups, each of which becomes one file."""
    for files in layout.days(name):
        yield from groups_to_merge(files)


def _journal(
    old: Location, layout: OldLayout, writer: TablesWriter, kind: JournalKind
) -> Iterator[DataFile]:
    for group in _groups(layout, _NAMES[kind]):
        rows = pa.concat_tables(_journal_rows(read_file(old, file), kind) for file in group)
        if len(rows):
            yield write_file(writer.location, JOURNAL, rows.sort_by("poll_id"), level=1)


def _journal_rows(rows: pa.Table, kind: JournalKind) -> pa.Table:
    """Rows of an older table as the journal has them."""
    if kind is JournalKind.DECISION:
        rows = rows.rename_columns({"kind": "action"})
    schema, known = SCHEMAS[JOURNAL], {"kind": str(kind)}
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.repeat(pa.scalar(known.get(field.name), field.type), len(rows))
        for field in schema
    ]
    return pa.table(columns, schema=schema)
