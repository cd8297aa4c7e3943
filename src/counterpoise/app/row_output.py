"""Writes rows as they come, perhaps millions: as a table, JSON or Parquet."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, TextIO, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.app.errors import UserError

_TYPES: Final[Mapping[type, pa.DataType]] = {
    int: pa.int64(), str: pa.string(), bool: pa.bool_(), float: pa.float64(),
}  # fmt: skip
_GROUP_ROWS: Final = 50_000
"""Rows of a part of a Parquet file."""
_MEASURED_ROWS: Final = 1000
"""How many rows decide how wide a table's columns are. Where they are all, what is empty in each
is left out."""
_WIDTH_MAX: Final = 80


class RowOutput(Protocol):
    """Takes rows of one kind; leaving its context writes the end."""

    def write(self, rows: Sequence[Any]) -> None:
        """Write more rows."""

    def __enter__(self) -> RowOutput: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def row_output(row: type, *, as_json: bool, parquet: Path | None) -> RowOutput:
    """The output for rows of a dataclass; raises `UserError` if the file is not writable."""
    if parquet is not None:
        return ParquetOutput(row, parquet)
    return JsonOutput() if as_json else TableOutput(row)


class JsonOutput:
    """A JSON list with one object on each line."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._before = "["

    def __enter__(self) -> JsonOutput:
        return self

    def write(self, rows: Sequence[Any]) -> None:
        """See `RowOutput.write`."""
        for each in rows:
            self._out.write(f"{self._before}\n{json.dumps(dataclasses.asdict(each))}")
            self._before = ","

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._out.write(f"{'[' if self._before == '[' else ''}\n]\n")


class ParquetOutput:
    """A Parquet file; an unfinished one is removed."""

    def __init__(self, row: type, path: Path) -> None:
        hints = get_type_hints(row)
        names = [field.name for field in dataclasses.fields(row)]
        self._schema = pa.schema([(name, _TYPES[hints[name]]) for name in names])
        self._path = path
        self._begun = path.with_name(f"{path.name}.part")
        self._rows: list[Any] = []
        self._written = 0
        try:
            self._writer = pq.ParquetWriter(str(self._begun), self._schema)
        except OSError as error:
            raise UserError(f"--parquet {path}: {error.strerror or error}") from None

    def __enter__(self) -> ParquetOutput:
        return self

    def write(self, rows: Sequence[Any]) -> None:
        """See `RowOutput.write`."""
        self._rows.extend(rows)
        if len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
            self._writer.close()
            if kind is None:
                self._begun.replace(self._path)
                sys.stderr.write(f"counterpoise: {self._written} rows are in {self._path}\n")
        except OSError as error:
            raise UserError(f"--parquet {self._path}: {error.strerror or error}") from None
        finally:
            self._begun.unlink(missing_ok=True)

    def _flush(self) -> None:
        columns = {name: [getattr(row, name) for row in self._rows] for name in self._schema.names}
        self._writer.write_table(pa.table(columns, schema=self._schema))
        self._written += len(self._rows)
        self._rows.clear()


class TableOutput:
    """Aligned columns; the first rows decide their width, and which are left out as empty."""

    def __init__(self, row: type, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._names = [field.name for field in dataclasses.fields(row)]
        hints = get_type_hints(row)
        self._right = {name for name in self._names if hints[name] in (int, float)}
        self._waiting: list[Any] | None = []
        self._columns: dict[str, int] = {}

    def __enter__(self) -> TableOutput:
        return self

    def write(self, rows: Sequence[Any]) -> None:
        """See `RowOutput.write`."""
        if self._waiting is None:
            self._write(rows)
            return
        self._waiting.extend(rows)
        if len(self._waiting) >= _MEASURED_ROWS:
            self._begin(self._waiting, all_of_them=False)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._waiting:
            self._begin(self._waiting, all_of_them=True)

    def _begin(self, rows: Sequence[Any], *, all_of_them: bool) -> None:
        self._waiting = None
        for name in self._names:
            cells = [_cell(getattr(row, name)) for row in rows]
            if any(cells) or not all_of_them:
                widest = max(len(name), *(len(cell) for cell in cells))
                self._columns[name] = min(widest, _WIDTH_MAX)
        self._line([name.upper() for name in self._columns])
        self._write(rows)

    def _write(self, rows: Sequence[Any]) -> None:
        for row in rows:
            self._line([_cell(getattr(row, name)) for name in self._columns])

    def _line(self, cells: Sequence[str]) -> None:
        padded = (
            cell.rjust(width) if name in self._right else cell.ljust(width)
            for cell, (name, width) in zip(cells, self._columns.items(), strict=True)
        )
        self._out.write("  ".join(padded).rstrip() + "\n")


def _cell(value: Any) -> str:
    """A value for a person; empty if unknown."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, int):
        return "" if value < 0 else str(value)
    text = str(value)
    # Entries and nodes hold what others wrote: it must not command a terminal.
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
