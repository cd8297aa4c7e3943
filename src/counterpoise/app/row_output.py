"""Writes rows, perhaps millions of them, as they arrive: as a table, JSON or Parquet."""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, TextIO, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.app.errors import UserError

_TYPES: Final[Mapping[type, pa.DataType]] = {
    int: pa.int64(),
    str: pa.string(),
    bool: pa.bool_(),
    float: pa.float64(),
}
_GROUP_ROWS: Final = 50_000
"""From this many buffered rows on, they are written as a row group of the Parquet file."""
_MEASURED_ROWS: Final = 1000
"""The number of first rows from which the width of a table's columns is measured.

If the table has no more rows than these, columns without any value are omitted."""
_WIDTH_MAX: Final = 80


RowSink = Callable[[Sequence[Any]], None]
"""Writes a batch of rows, all of one kind, to the command's output."""


def row_output(
    row: type, *, as_json: bool, parquet: Path | None
) -> AbstractContextManager[RowSink]:
    """Open an output for rows of the dataclass ``row``: a Parquet file, JSON, or a table.

    JSON and tables go to standard output. Raises `UserError` if the file is not writable.
    """
    if parquet is not None:
        return _parquet_file(row, parquet)
    return _json_list(sys.stdout) if as_json else _table(row, sys.stdout)


@contextmanager
def _json_list(out: TextIO) -> Iterator[RowSink]:
    """Write a JSON list, one object a line; if the block fails, the closing bracket is missing."""
    before = "["

    def write(rows: Sequence[Any]) -> None:
        nonlocal before
        for each in rows:
            out.write(f"{before}\n{json.dumps(dataclasses.asdict(each))}")
            before = ","

    yield write
    out.write(f"{'[' if before == '[' else ''}\n]\n")


@contextmanager
def _parquet_file(row: type, path: Path) -> Iterator[RowSink]:
    """Write a Parquet file under a temporary name; if the block fails, the file is removed."""
    hints = get_type_hints(row)
    schema = pa.schema([(each.name, _TYPES[hints[each.name]]) for each in dataclasses.fields(row)])
    begun = path.with_name(f"{path.name}.part")
    waiting: list[Any] = []
    written = 0

    def flush() -> None:
        nonlocal written
        columns = {name: [getattr(each, name) for each in waiting] for name in schema.names}
        writer.write_table(pa.table(columns, schema=schema))
        written += len(waiting)
        waiting.clear()

    def write(rows: Sequence[Any]) -> None:
        waiting.extend(rows)
        if len(waiting) >= _GROUP_ROWS:
            flush()

    try:
        with pq.ParquetWriter(str(begun), schema) as writer:
            yield write
            flush()
        begun.replace(path)
        sys.stderr.write(f"counterpoise: {written} rows are in {path}\n")
    except OSError as error:
        raise UserError(f"--parquet {path}: {error.strerror or error}") from None
    finally:
        begun.unlink(missing_ok=True)


@contextmanager
def _table(row: type, out: TextIO) -> Iterator[RowSink]:
    """Write aligned columns, whose width is that of the first `_MEASURED_ROWS` rows."""
    names = [field.name for field in dataclasses.fields(row)]
    hints = get_type_hints(row)
    right = {name for name in names if hints[name] in (int, float)}
    waiting: list[Any] = []
    columns: dict[str, int] = {}

    def begin(*, all_of_them: bool) -> None:
        for name in names:
            cells = [_cell(getattr(each, name)) for each in waiting]
            if any(cells) or not all_of_them:
                widest = max(len(name), *(len(cell) for cell in cells))
                columns[name] = min(widest, _WIDTH_MAX)
        line([name.upper() for name in columns])
        lines(waiting)
        waiting.clear()

    def line(cells: Sequence[str]) -> None:
        padded = (
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, (name, width) in zip(cells, columns.items(), strict=True)
        )
        out.write("  ".join(padded).rstrip() + "\n")

    def lines(rows: Sequence[Any]) -> None:
        for each in rows:
            line([_cell(getattr(each, name)) for name in columns])

    def write(rows: Sequence[Any]) -> None:
        if columns:
            lines(rows)
            return
        waiting.extend(rows)
        if len(waiting) >= _MEASURED_ROWS:
            begin(all_of_them=False)

    try:
        yield write
    finally:
        if waiting:
            begin(all_of_them=True)


def _cell(value: Any) -> str:
    """Format a value for a person; empty for a negative number, which means unknown."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, int):
        return "" if value < 0 else str(value)
    text = str(value)
    # The text may come from a client's message: it must not control the terminal.
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
