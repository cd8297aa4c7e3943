"""A history of an older layout, taken over into Delta tables with all that is in it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from counterpoise.load.fold import FoldState, merged
from counterpoise.pipeline.tables.compaction import groups_to_merge, merge_files
from counterpoise.pipeline.tables.control import NAME as CONTROL
from counterpoise.pipeline.tables.data_files import DataFile, read_file, write_file
from counterpoise.pipeline.tables.faults import HistoryFaultError, damaged
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.old_layout import OldLayout, expect_readable
from counterpoise.pipeline.tables.plain_files import read_plain, write_plain
from counterpoise.pipeline.tables.reports import LANDED, newest_poll
from counterpoise.pipeline.tables.schema import (
    JOURNAL,
    OWNERSHIP_CHANGES,
    REPORTS,
    SCHEMAS,
    JournalKind,
)
from counterpoise.pipeline.tables.states import commit_states, state_from_bytes, write_parts

_JOURNALS: Mapping[str, JournalKind] = {
    "rounds": JournalKind.ROUND,
    "decisions": JournalKind.DECISION,
    "rejections": JournalKind.REJECTION,
    "outcomes": JournalKind.OUTCOME,
    "memory": JournalKind.MEMORY,
}
_OWNERSHIP = "ownership"


def migrate(old: Location, writer: TablesWriter) -> dict[str, int]:
    """Copy an older history into tables that have no reports yet; gives rows by table.

    The older one stays as it is. A copy that was cut off is begun again: the reports come last.
    Raises `HistoryFaultError`.
    """
    expect_readable(old)
    if newest_poll(writer):
        raise HistoryFaultError(
            f"{writer.location.address} has reports already: name an empty place for the copy"
        )
    layout = OldLayout(old)
    _copy_states(old, layout, writer)
    journal = list(chain.from_iterable(_journal(old, layout, writer, each) for each in _JOURNALS))
    _replace(writer, JOURNAL, journal)
    changes = list(_merged(old, layout, writer, _OWNERSHIP, OWNERSHIP_CHANGES))
    _replace(writer, OWNERSHIP_CHANGES, changes)
    if (control := read_plain(old, CONTROL)) is not None:
        write_plain(writer.location, CONTROL, control)
    reports = list(_merged(old, layout, writer, REPORTS, REPORTS))
    newest = max((file.last_poll for file in reports), default=0)
    _replace(writer, REPORTS, reports, {LANDED: newest})
    copied = {REPORTS: reports, OWNERSHIP_CHANGES: changes, JOURNAL: journal}
    return {table: sum(file.rows for file in files) for table, files in copied.items()}


def _replace(
    writer: TablesWriter,
    table: str,
    files: Sequence[DataFile],
    transactions: Mapping[str, int] | None = None,
) -> None:
    writer.commit(table, files, removed=writer.files(table), transactions=transactions)


def _merged(
    old: Location, layout: OldLayout, writer: TablesWriter, name: str, table: str
) -> Iterator[DataFile]:
    for files in layout.days(name):
        for group in groups_to_merge(files):
            yield merge_files(old, writer.location, table, group)


def _journal(
    old: Location, layout: OldLayout, writer: TablesWriter, name: str
) -> Iterator[DataFile]:
    kind = _JOURNALS[name]
    for files in layout.days(name):
        for group in groups_to_merge(files):
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


def _copy_states(old: Location, layout: OldLayout, writer: TablesWriter) -> None:
    up_to, names = layout.newest_states()
    states = [_state(old, name) for name in names]
    if states:
        files = write_parts(writer.location, merged(states), up_to=up_to, shards=len(states))
        commit_states(writer, files, up_to)


def _state(old: Location, name: str) -> FoldState:
    try:
        return state_from_bytes(read_plain(old, name) or b"")
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise damaged(old.where(name), old.address, error) from error
