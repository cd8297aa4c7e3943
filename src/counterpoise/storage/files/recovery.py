"""Taking a log over: fence its owner, find what it committed, cut what it did not finish."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from counterpoise.storage.files import fence, state
from counterpoise.storage.files.fence import Fence
from counterpoise.storage.files.ledger import LedgerFile, sync_directory
from counterpoise.storage.files.state import SavedState, Sealed
from counterpoise.storage.port import CursorState

_log = logging.getLogger(__name__)
_NAME = re.compile(r"(\d+)-([0-9a-f]{16})\.ledger")


@dataclass(frozen=True, slots=True)
class Recovered:
    """A log as its new owner finds it. ``files`` has every closed ledger's file."""

    fence: Fence
    sealed: tuple[Sealed, ...]
    next_ledger: int
    cursors: Mapping[str, CursorState]
    files: Mapping[int, LedgerFile]


def ledger_path(directory: Path, ledger_id: int, epoch: int) -> Path:
    """Where the owner of ``epoch`` keeps a ledger."""
    return directory / f"{ledger_id}-{epoch:016x}.ledger"


def take_over(directory: Path, owner: str) -> Recovered:
    """Fence the former owner and recover. Blocks; the log is this owner's when it returns.

    What belongs to the log: every ledger the last saved state lists as closed, and every ledger
    file of that state's own epoch that it does not list, read up to its last sound record. All
    else was written by owners who had been fenced by then, so it was never acknowledged.
    """
    created = not fence.exists(directory)
    directory.mkdir(parents=True, exist_ok=True)
    claimed = fence.claim(directory, owner, above=max(state.epochs(directory), default=0))
    if created:
        sync_directory(directory)
        sync_directory(directory.parent)
    known = state.epochs(directory)
    last = state.load(directory, known[-1]) if known else SavedState(0)

    found = _ledger_files(directory)
    sealed = list(last.ledgers)
    files = {
        s.ledger_id: LedgerFile(ledger_path(directory, s.ledger_id, s.epoch), s.ledger_id)
        for s in sealed
    }
    for ledger_id, epoch in found:
        if epoch == last.epoch and ledger_id >= last.first and ledger_id not in files:
            file = LedgerFile(ledger_path(directory, ledger_id, epoch), ledger_id)
            entries, size, torn = file.scan()
            if torn:
                _log.warning("%s: %d bytes were not finished and are cut", file.path, torn)
            files[ledger_id] = file
            sealed.append(Sealed(ledger_id, epoch, entries, size))
    next_ledger = max([last.first, *(i + 1 for i, _ in found), *(i + 1 for i in files)])
    sealed = [s for s in sealed if s.entries]
    files = {s.ledger_id: files[s.ledger_id] for s in sealed}

    first = sealed[0].ledger_id if sealed else next_ledger
    saved = SavedState(claimed.epoch, first, tuple(sealed), last.cursors)
    # Durable before the first append: from here on it decides what belongs to the log.
    saved.save(directory)
    state.remove_before(directory, claimed.epoch)
    kept = {(s.ledger_id, s.epoch) for s in sealed}
    for ledger_id, epoch in found:
        if (ledger_id, epoch) not in kept and epoch < claimed.epoch:
            ledger_path(directory, ledger_id, epoch).unlink(missing_ok=True)
    return Recovered(claimed, saved.ledgers, next_ledger, last.cursors, files)


def _ledger_files(directory: Path) -> list[tuple[int, int]]:
    names = (_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted((int(name[1]), int(name[2], 16)) for name in names if name)
