"""What an owner saves beside its ledgers: which of them are closed, and the cursors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from counterpoise.storage.files.ledger import sync_directory
from counterpoise.storage.port import CorruptLedgerError, CursorState, Position

_NAME = re.compile(r"state-([0-9a-f]{16})\.json")


@dataclass(frozen=True, slots=True)
class Sealed:
    """A closed ledger: whatever its file holds beyond ``entries`` is not part of the log."""

    ledger_id: int
    epoch: int
    entries: int
    size: int


@dataclass(frozen=True, slots=True)
class SavedState:
    """What ``state-<epoch>.json`` says. Ledgers below ``first`` are deleted."""

    epoch: int
    first: int = 0
    ledgers: tuple[Sealed, ...] = ()
    cursors: Mapping[str, CursorState] = field(default_factory=dict)

    def save(self, directory: Path) -> None:
        """Replace this epoch's file in one step, and return once that is on disk."""
        path = directory / f"state-{self.epoch:016x}.json"
        draft = path.with_suffix(".new")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(self._to_json(), file, separators=(",", ":"))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_directory(directory)

    def _to_json(self) -> dict[str, object]:
        return {
            "epoch": self.epoch,
            "first": self.first,
            "ledgers": [[s.ledger_id, s.epoch, s.entries, s.size] for s in self.ledgers],
            "cursors": [
                {
                    "name": c.name,
                    "markDelete": c.mark_delete,
                    "acked": c.acked,
                    "properties": dict(c.properties),
                }
                for c in self.cursors.values()
            ],
        }


def epochs(directory: Path) -> list[int]:
    """Epochs that saved a state here, ascending."""
    names = (_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(int(name[1], 16) for name in names if name)


def load(directory: Path, epoch: int) -> SavedState:
    """The state that the owner of ``epoch`` saved; raise `CorruptLedgerError` if it is damaged."""
    path = directory / f"state-{epoch:016x}.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return SavedState(
            epoch,
            data["first"],
            tuple(Sealed(*row) for row in data["ledgers"]),
            {c["name"]: _cursor(c) for c in data["cursors"]},
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLedgerError(f"{path} cannot be read: {error!r}") from error


def remove_before(directory: Path, epoch: int) -> None:
    """Delete the states of former owners."""
    for old in epochs(directory):
        if old < epoch:
            (directory / f"state-{old:016x}.json").unlink(missing_ok=True)


def _cursor(data: Mapping[str, object]) -> CursorState:
    mark, acked, properties = data["markDelete"], data["acked"], data["properties"]
    if not isinstance(mark, list) or not isinstance(acked, list):
        raise TypeError("markDelete and acked must be lists")
    if not isinstance(properties, dict):
        raise TypeError("properties must be an object")
    ranges = tuple((Position(*first), Position(*last)) for first, last in acked)
    return CursorState(str(data["name"]), Position(*mark), ranges, properties)
