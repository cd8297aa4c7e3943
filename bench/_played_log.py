"""The log of a table of reports as many polls leave it, written by hand.

Entries are copies of one that was committed, and dated as the polls are. Every so many polls their
files are compacted and a checkpoint is written; at the end of each day what time travel no longer
needs is removed, as a balancer does. Nothing reads data files here, so there are none.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from counterpoise.pipeline.tables.data_files import DataFile
from counterpoise.pipeline.tables.history import take_over
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import LANDED
from counterpoise.pipeline.tables.schema import REPORTS, day_of

EVERY_MS = 5_000
_FILE_BYTES = 7_000

Action = dict[str, Any]


def log_of(home: Path) -> Path:
    """The directory of the log of a history's reports."""
    return home / REPORTS / "_delta_log"


def log_bytes(home: Path) -> int:
    """How large that log is."""
    return sum(file.stat().st_size for file in log_of(home).iterdir())


def play_polls(home: Path, polls: int, until_ms: int, at_once: int) -> None:
    """Add the log entries of so many polls, the last of them at `until_ms`.

    `at_once` of them are compacted into one file, and followed by a checkpoint.
    """
    log, first_ms = log_of(home), until_ms - EVERY_MS * (polls - 1)
    writer = take_over(open_location(home))
    version = writer.commit(REPORTS, [_file(first_ms, 0)], transactions={LANDED: first_ms})
    landed = [json.loads(line) for line in _entry(log, version).read_text().splitlines()]
    for entry in log.iterdir():
        # An entry is never older than those before it: none would be removed after one of now.
        _date(entry, min(first_ms, round(entry.stat().st_mtime * 1000)))
    handle = DeltaTable(str(log.parent))
    for batch in range(first_ms, until_ms + 1, at_once * EVERY_MS):
        end = min(until_ms + 1, batch + at_once * EVERY_MS)
        polled = range(batch, end, EVERY_MS)
        for lines in (*(_landing(landed, poll) for poll in polled), _compaction(landed, polled)):
            version += 1
            _entry(log, version).write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
            _date(_entry(log, version), polled[-1])
        handle.update_incremental()
        handle.create_checkpoint()
        _date(log / f"{version:020d}.checkpoint.parquet", polled[-1])
        if day_of(end) != day_of(batch):
            handle.cleanup_metadata()
    handle.cleanup_metadata()


def _landing(landed: list[Action], poll: int) -> Iterator[Action]:
    for action in landed:
        if "add" in action:
            yield {"add": {**action["add"], **_names(_file(poll, 0)), "modificationTime": poll}}
        elif action.get("txn", {}).get("appId") == LANDED:
            yield {"txn": {**action["txn"], "version": poll}}
        else:
            yield action


def _compaction(landed: list[Action], polls: range) -> Iterator[Action]:
    for action in landed:
        if "add" not in action:
            yield action
            continue
        yield {"add": {**action["add"], **_names(_file(polls[-1], 1)), "dataChange": False}}
        removed = {"deletionTimestamp": polls[-1], "dataChange": False, "size": _FILE_BYTES}
        for poll in polls:
            yield {"remove": {**_names(_file(poll, 0)), **removed}}


def _names(file: DataFile) -> Action:
    return {"path": file.path, "partitionValues": {"day": file.day}}


def _file(poll: int, level: int) -> DataFile:
    name = f"day={day_of(poll)}/{poll:015d}-{level}-{0:016x}.parquet"
    return DataFile(REPORTS, name, _FILE_BYTES, 8, poll, poll, level=level)


def _entry(log: Path, version: int) -> Path:
    return log / f"{version:020d}.json"


def _date(file: Path, at_ms: int) -> None:
    os.utime(file, (at_ms / 1000, at_ms / 1000))
