"""Reads and writes files that the user names; output files are checked before the work begins."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoise.app.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_FILES: Final = (".parquet", ".csv")


def read_text(path: str | Path) -> str:
    """Read a text file in UTF-8; raises `UserError` if that fails."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file in UTF-8") from None


def expect_writable(option: str, path: Path, endings: Sequence[str]) -> None:
    """Raise `UserError` if ``path`` has none of the ``endings``, or its directory does not exist.

    ``option`` is the option that names the file.
    """
    if path.suffix not in endings:
        raise UserError(f"{option} {path}: expected a name that ends with {' or '.join(endings)}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{option} {path}: there is no directory {path.absolute().parent}")


@contextlib.contextmanager
def writing_file(path: Path) -> Iterator[None]:
    """Turn an OSError during the block, in which a file is written, into a `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None


def write_table(table: "pa.Table", path: Path) -> None:
    """Write a table as CSV if the file's name ends in ``.csv``, otherwise as Parquet."""
    from pyarrow import csv, parquet

    if path.suffix == ".csv":
        csv.write_csv(table, str(path))
    else:
        parquet.write_table(table, str(path))
