"""Files that the user names: read; or checked before the work, and written after it."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoise.app.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_FILES: Final = (".parquet", ".csv")


def read_text(path: str | Path) -> str:
    """The text of a file that the user names; raises `UserError`."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file in UTF-8") from None


def expect_writable(option: str, path: Path, endings: Sequence[str]) -> None:
    """Raise `UserError` if a file to write has none of these endings, or no directory to be in."""
    if path.suffix not in endings:
        raise UserError(f"{option} {path}: expected a name that ends with {' or '.join(endings)}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{option} {path}: there is no directory {path.absolute().parent}")


@contextlib.contextmanager
def writing_file(path: Path) -> Iterator[None]:
    """Turn errors while a file is written into `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None


def write_table(table: "pa.Table", path: Path) -> None:
    """Write a table as Parquet, or as CSV if the name says so."""
    from pyarrow import csv, parquet

    if path.suffix == ".csv":
        csv.write_csv(table, str(path))
    else:
        parquet.write_table(table, str(path))
