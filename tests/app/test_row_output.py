"""Rows as a table, as JSON and as a Parquet file: what is shown, cut, and left out."""

import argparse
import io
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from counterpoise.app.listing import list_rows
from counterpoise.app.row_output import row_output


@dataclass(frozen=True)
class Part:
    name: str
    bytes: int
    lost: bool
    share: float
    note: str = ""


@dataclass(frozen=True)
class Rate:
    name: str
    msg_rate_in: float
    full: bool
    note: str = ""


def table(*rows: Part) -> list[str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stdout", out := io.StringIO())
        with row_output(Part, as_json=False, parquet=None) as write:
            write(rows)
    return out.getvalue().splitlines()


def test_a_table_has_unknown_figures_empty_and_no_empty_columns() -> None:
    assert table(Part("a", 0, False, 0.25), Part("bcdefg", -1, True, 2.0)) == [
        "NAME    BYTES  LOST  SHARE",
        "a           0          0.2",
        "bcdefg         yes     2.0",
    ]
    assert table(Part("a", 5, False, 1.0, "n")) == [
        "NAME  BYTES  SHARE  NOTE",
        "a         5    1.0  n",
    ]
    assert table() == []


def test_a_text_that_would_command_a_terminal_does_not() -> None:
    assert table(Part("a\x1b[2J\n", 1, False, 1.0))[1].startswith("a?[2J?")


def test_a_column_is_no_wider_than_most_of_a_screen() -> None:
    head, short, long = table(Part("a", 1, False, 1.0), Part("b" * 90, 1, False, 1.0))
    assert head.index("BYTES") == short.index("1") - 4 == 82
    assert long.startswith("b" * 90 + "  ")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_json_is_a_list_with_an_object_on_each_line(
    count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Part(str(number), number, False, 0.0) for number in range(count)]
    with row_output(Part, as_json=True, parquet=None) as write:
        for each in rows:
            write([each])
    written = capsys.readouterr().out
    assert [each["bytes"] for each in json.loads(written)] == list(range(count))
    assert len(written.splitlines()) == count + 2


def test_a_parquet_file_has_every_row_and_nothing_is_left_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "parts.parquet"
    with row_output(Part, as_json=False, parquet=file) as write:
        write([Part("a", 1, False, 0.5)])
    assert pq.read_table(file).to_pylist() == [
        {"name": "a", "bytes": 1, "lost": False, "share": 0.5, "note": ""}
    ]
    assert capsys.readouterr().err == f"counterpoise: 1 rows are in {file}\n"
    with (
        pytest.raises(ValueError, match="stop"),
        row_output(Part, as_json=False, parquet=tmp_path / "other.parquet"),
    ):
        raise ValueError("stop")
    assert [each.name for each in tmp_path.iterdir()] == ["parts.parquet"]


def test_a_list_has_rates_in_thousands_and_only_columns_with_something_in_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rates = (0.0, 5.25, 99.96, 100.0, 999.0, 1000.0, 2.5e6, 3e9)
    rows = [Rate(f"r{number}", rate, number == 3) for number, rate in enumerate(rates)]
    list_rows(rows, argparse.Namespace(sort="msg_rate_in", json=False), "none")
    assert capsys.readouterr().out.splitlines() == [
        "NAME  MSG/S IN  FULL",
        "r7       3.0 G",
        "r6       2.5 M",
        "r5       1.0 k",
        "r4        999",
        "r3        100    yes",
        "r2      100.0",
        "r1        5.2",
        "r0          0",
    ]
    rows = [Rate("a\nb", 0.0, False, "x"), Rate("c", 0.0, False)]
    list_rows(rows, argparse.Namespace(sort="name", json=False), "none")
    assert capsys.readouterr().out.splitlines() == [
        "NAME  MSG/S IN  FULL  NOTE",
        "a b         0         x",
        "c           0",
    ]
    list_rows([], argparse.Namespace(sort="name", json=False), "none")
    assert capsys.readouterr().out == "none\n"
