"""Histories of tests: taken over by this process, and their journals read back."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from counterpoise.pipeline.tables.data_files import read_file, write_file
from counterpoise.pipeline.tables.history import TablesReader, TablesWriter, take_over
from counterpoise.pipeline.tables.journal import Journal, JournalWriter
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.schema import REPORTS, JournalKind


def writer_of(at: str | Path) -> TablesWriter:
    """The writer of a history from now on; the one before is refused."""
    return take_over(open_location(at))


def reader_of(at: str | Path) -> TablesReader:
    return TablesReader(open_location(at))


def journal_of(at: str | Path) -> JournalWriter:
    return JournalWriter(writer_of(at))


def kept(at: str | Path, kind: JournalKind) -> list[dict[str, Any]]:
    """The rows of a kind in the journal, oldest first."""
    return [dict(row) for row in Journal(reader_of(at)).rows(kind)]


def compacted(writer: TablesWriter, up_to_poll: int) -> None:
    """Make one file of the reports up to a poll, as a compaction does."""
    small = [each for each in writer.files(REPORTS) if each.last_poll <= up_to_poll]
    if not small:
        return
    rows = pa.concat_tables([read_file(writer.location, each) for each in small])
    writer.commit(REPORTS, [write_file(writer.location, REPORTS, rows)], removed=small)
