"""Many small files into few: what Spark has taken in, and rounds long past, move to the archive.

`HISTORY/archive/<table>/<first key>-<last key>.parquet` has the rows, and the columns, of the files
it replaces. It is written before they are removed, so a crash in between leaves rows twice for a
while; `read_history` counts them once, since an archive's name says what it covers.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.files import write_whole

KEYED_BY_POLL = ("reports", "rounds", "decisions", "rejections", "outcomes", "memory")


def poll_of(file: Path) -> int:
    """The poll a file belongs to: its name, up to a dash, is the poll's id."""
    return int(file.stem.partition("-")[0])


def small_files(history: Path, table: str) -> list[Path]:
    """A table's files that are in no archive, oldest first."""
    files = (history / table).glob("[0-9]*.parquet")
    return sorted(files, key=lambda file: (poll_of(file), file.name))


def archives(history: Path, table: str) -> list[Path]:
    """A table's archive files, oldest first."""
    return sorted((history / "archive" / table).glob("[0-9]*-[0-9]*.parquet"))


def compact(
    history: Path, table: str, *, up_to_poll: int, at_least: int, keep_newest: int = 0
) -> Path | None:
    """Archive a table's files up to this poll, if there are at least so many; None when not.

    For `reports`, `up_to_poll` must be one that the stream has committed: a later one may still be
    read by Spark. `keep_newest` files stay in any case.
    """
    files = [file for file in small_files(history, table) if poll_of(file) <= up_to_poll]
    files = files[: max(0, len(files) - keep_newest)]
    if len(files) < at_least or not files:
        return None
    covered = archives(history, table)
    done = _last(covered[-1]) if covered else -1
    left = [file for file in files if poll_of(file) > done]
    target: Path | None = None
    if left:
        name = f"{poll_of(left[0]):015d}-{poll_of(left[-1]):015d}.parquet"
        target = history / "archive" / table / name
        write_whole(target, pa.concat_tables([pq.read_table(file) for file in left]))
    for file in files:
        file.unlink(missing_ok=True)
    return target


def read_history(history: Path, table: str) -> Iterator[pa.Table]:
    """A table's rows, archived and not, oldest first and each once."""
    covered = archives(history, table)
    for file in covered:
        yield pq.read_table(file)
    done = _last(covered[-1]) if covered else -1
    for file in small_files(history, table):
        if poll_of(file) > done:
            try:
                rows = pq.read_table(file)
            except FileNotFoundError:
                continue  # it went into an archive after we had listed them: read the next time
            yield rows


def _last(archive: Path) -> int:
    return int(archive.stem.partition("-")[2])
