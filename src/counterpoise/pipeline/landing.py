"""The landing table: each poll a Parquet file that appears whole, or not at all.

`HISTORY/reports/<poll id>.parquet` has the columns of `rows.COLUMNS`; the poll's id is its time in
milliseconds, so files sort by name as by time. Spark streams this directory.
"""

import os
from pathlib import Path

import pyarrow.parquet as pq

from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.codec import rows_from_arrow, rows_to_arrow
from counterpoise.pipeline.files import write_whole


def landed_path(reports: Path, poll_id: int) -> Path:
    """Where a poll's rows are."""
    return reports / f"{poll_id:015d}.parquet"


def land(reports: Path, rows: ReportRows) -> Path:
    """Write one poll's rows; raises `FileExistsError` when that poll is already there."""
    poll_id = int(rows["poll_id"][0])
    path = landed_path(reports, poll_id)
    if path.exists():
        raise FileExistsError(f"poll {poll_id} has already been landed in {path}")
    # Spark takes files in the order of their modification times, so these must be the polls' own.
    write_whole(path, rows_to_arrow(rows), before=lambda file: _set_time(file, poll_id))
    return path


def read_landed(path: Path) -> ReportRows:
    """The rows of a landed file."""
    return rows_from_arrow(pq.read_table(path))


def landed_polls(reports: Path) -> list[int]:
    """The ids of all landed polls, oldest first."""
    return sorted(int(file.stem) for file in reports.glob("[0-9]*.parquet"))


def _set_time(file: Path, milliseconds: int) -> None:
    os.utime(file, ns=(milliseconds * 1_000_000, milliseconds * 1_000_000))
