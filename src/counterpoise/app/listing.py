"""Prints rows as aligned columns or as JSON."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.app.output import one_line
from counterpoise.names.units import aligned

_SCALE = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def list_rows(rows: Sequence[Any], args: argparse.Namespace, empty: str) -> None:
    """Print dataclasses as a table, or as JSON with ``--json``, sorted by the field ``--sort``.

    Numbers are in descending order. Without rows prints the sentence ``empty``, or an empty list.
    """
    rows = sorted(rows, key=lambda row: _key(getattr(row, args.sort)))
    if args.json:
        sys.stdout.write(json.dumps([dataclasses.asdict(each) for each in rows], indent=2) + "\n")
    elif rows:
        names = [field.name for field in dataclasses.fields(rows[0])]
        names = [each for each in names if any(getattr(row, each) != "" for row in rows)]
        sys.stdout.write("\n".join(_table(names, rows)) + "\n")
    else:
        sys.stdout.write(empty + "\n")


def _key(value: Any) -> Any:
    return value if isinstance(value, str) else -value


def _table(names: Sequence[str], rows: Sequence[Any]) -> list[str]:
    cells = [[_HEADS.get(name, name.upper()) for name in names]]
    cells += [[_cell(getattr(row, name)) for name in names] for row in rows]
    left = [at for at, name in enumerate(names) if isinstance(getattr(rows[0], name), str)]
    return aligned(cells, left)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return _scaled(value)
    return one_line(str(value))


def _scaled(value: float) -> str:
    for size, unit in _SCALE:
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.1f} " if 0 < value < 100 else f"{value:.0f} "


_HEADS: Mapping[str, str] = {
    "msg_rate_in": "MSG/S IN",
    "msg_rate_out": "MSG/S OUT",
    "bytes_rate_in": "B/S IN",
    "bytes_rate_out": "B/S OUT",
}
