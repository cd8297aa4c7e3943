"""Takes a log over from its former owner: fences it, finds what it committed, drops the rest.

`survey` changes nothing; `take_over` fences, surveys, and saves the result. `FileLog` waits later,
with the first write, for what must be on disk before anything may be acknowledged, so that a slow
disk delays only once.
"""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from counterpoise.storage.files import committed, fence, state
from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.fence import Fence
from counterpoise.storage.files.ledger import LedgerFile, Scan
from counterpoise.storage.files.record import MARKER_SIZE
from counterpoise.storage.files.state import SavedState, Sealed, StateFiles
from counterpoise.storage.lost_entries import merged
from counterpoise.storage.port import Lost

_log = logging.getLogger(__name__)
_NAME = re.compile(r"(\d+)-([0-9a-f]{16})\.ledger")

NO_STATE = 0
"""Stands for the epoch where no saved state can be read; epochs of owners begin with 1."""


@dataclass(frozen=True, slots=True)
class LedgerSurvey:
    """The content of a log's directory, as a new owner finds it.

    ``last``: the state that the former owner saved. ``sealed``: the ledgers that belong to the log,
    and ``files`` the file of each. ``found``: every (ledger id, epoch) with a file. ``missing``:
    ledgers without one. ``scans``: the result for each ledger that had to be read. ``lost``: all
    lost entries, including those that ``last`` lists. ``unreadable``: damaged copies of the state.
    ``next_ledger``: the smallest id that a new ledger may have. ``cursors_lost_below``: see
    `SavedState`. If the former owner closed the log in order, no ledger has to be read.
    """

    last: SavedState
    sealed: tuple[Sealed, ...]
    found: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]
    scans: Mapping[int, Scan]
    lost: tuple[Lost, ...]
    files: Mapping[int, LedgerFile]
    unreadable: tuple[Path, ...]
    next_ledger: int
    cursors_lost_below: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The parts of a log that a new owner has recovered. ``files``: the file of each closed ledger.

    ``next_ledger``: the smallest id that its next ledger may have. ``obsolete``: ledger files that
    no state refers to.
    """

    fence: Fence
    saved: SavedState
    next_ledger: int
    files: Mapping[int, LedgerFile]
    states: StateFiles
    newly_lost: tuple[Lost, ...] = field(default=())
    obsolete: tuple[Path, ...] = ()
    created: bool = False

    def names_settle(self, directory: Path, disk: LedgerDisk) -> None:
        """Wait until the names of the log's files, and of a new log itself, are on disk."""
        disk.sync_directory(directory)
        if self.created:
            disk.sync_directory(directory.parent)

    def tidy(self, directory: Path, disk: LedgerDisk) -> None:
        """Remove former owners' files; to be called once this owner's state is on disk.

        Does nothing if a later owner has fenced the log.
        """
        if not self.fence.holds():
            return
        self.fence.settle()
        if self.created:
            return
        # This owner's second copy, before the former owner's copies are removed.
        self.states.save(self.saved, number=0)
        state.remove_before(directory, self.fence.epoch, disk)
        committed.remove_before(directory, self.fence.epoch, disk)
        for path in self.obsolete:
            disk.remove(path)

    def abandon(self) -> None:
        """Close the open file and leave all files as they are, so that opening can be tried
        again.
        """
        self.states.abandon()


def highest_ledger(root: Path) -> int:
    """The largest id of all ledger files below ``root``; -1 if there are none."""
    names = (_NAME.fullmatch(path.name) for path in root.rglob("*.ledger"))
    return max((int(name[1]) for name in names if name), default=-1)


def ledger_path(directory: Path, ledger_id: int, epoch: int) -> Path:
    """The path of a ledger's file as the owner of ``epoch`` writes it."""
    return directory / f"{ledger_id}-{epoch:016x}.ledger"


def take_over(directory: Path, owner: str, disk: LedgerDisk) -> Recovered:
    """Fence the former owner and recover. Blocks; the log is this owner's when it returns.

    Nothing may be acknowledged before `StateFiles.settle` and `Recovered.names_settle` have
    returned: from then on, the state decides what belongs to the log.
    """
    created = not fence.exists(directory)
    directory.mkdir(parents=True, exist_ok=True)
    seen = [*state.epochs(directory), *(epoch for _, epoch in ledger_files(directory))]
    last = max(seen, default=0)
    # A log without files had no owner that would have to be excluded.
    released = last if not last or state.closed(directory, last, disk) else None
    claimed = fence.claim(directory, owner, disk, last, released)
    # After the fence, because what the former owner writes from now on it never acknowledges.
    found = survey(directory, disk)
    newly_lost = _log_findings(directory, found)

    first = found.sealed[0].ledger_id if found.sealed else found.next_ledger
    saved = SavedState(
        claimed.epoch,
        first,
        found.sealed,
        found.last.cursors,
        found.last.marker or os.urandom(MARKER_SIZE),
        found.lost,
        found.cursors_lost_below,
    )
    states = StateFiles(directory, claimed.epoch, disk)
    states.begin(saved)
    kept = {(s.ledger_id, s.epoch) for s in found.sealed}
    obsolete = tuple(
        ledger_path(directory, ledger_id, epoch)
        for ledger_id, epoch in found.found
        if (ledger_id, epoch) not in kept
    )
    return Recovered(
        claimed, saved, found.next_ledger, found.files, states, newly_lost, obsolete, created
    )


def survey(directory: Path, disk: LedgerDisk, *, settle: bool = True) -> LedgerSurvey:
    """Find the ledgers that belong to a log, and which of their entries are lost. Changes nothing.

    The ledgers are those that the last saved state lists as closed, and the ledger files of that
    state's epoch that it does not list, which are read from end to end. Everything else was written
    by owners that had been fenced by then, so it was never acknowledged. If no state can be read,
    every ledger belongs to the log. ``settle``: see `LedgerFile.scan`.
    """
    last, unreadable, closed = _last_state(directory, disk)
    found = ledger_files(directory)
    note = None if closed else committed.noted(directory, last.epoch, disk)
    sealed = {s.ledger_id: s for s in last.ledgers}
    files = {s.ledger_id: _file(directory, s, last.marker, disk) for s in last.ledgers}
    missing = [
        s.ledger_id for s in last.ledgers if s.entries and (s.ledger_id, s.epoch) not in found
    ]
    lost = list(last.lost)
    lost += [Lost(i, 0, sealed[i].entries - 1) for i in missing]
    scans: dict[int, Scan] = {}
    listed = {s.ledger_id for s in last.ledgers}
    # Without a state: if two owners wrote files for one ledger, the later owner's counts.
    epochs = dict(found) if last.epoch == NO_STATE else {}
    for ledger_id, epoch in found:
        ours = epoch == epochs.get(ledger_id, last.epoch) and ledger_id >= last.first
        if closed or not ours or ledger_id in listed:
            continue
        file = _file(directory, Sealed(ledger_id, epoch, 0, 0), last.marker, disk)
        stored = note.entries if note is not None and note.ledger_id == ledger_id else 0
        scan = scans[ledger_id] = file.scan(stored, settle=settle)
        files[ledger_id] = file
        sealed[ledger_id] = Sealed(ledger_id, epoch, scan.entries, scan.size)
        lost += [Lost(ledger_id, *each) for each in scan.lost]
    if note is not None and note.ledger_id < last.first:
        note = None  # that ledger has been deleted since
    if note is not None and note.entries and note.ledger_id not in sealed:
        sealed[note.ledger_id] = Sealed(note.ledger_id, last.epoch, note.entries, 0)
        files[note.ledger_id] = _file(directory, sealed[note.ledger_id], last.marker, disk)
        missing.append(note.ledger_id)
        lost.append(Lost(note.ledger_id, 0, note.entries - 1))
    nothing_read = last.epoch == NO_STATE and bool(unreadable or found)
    next_ledger = max([last.first, *(i + 1 for i, _ in found), *(i + 1 for i in sealed)])
    kept = tuple(s for _, s in sorted(sealed.items()) if s.entries)
    return LedgerSurvey(
        last,
        kept,
        tuple(found),
        tuple(missing),
        scans,
        merged(lost),
        {s.ledger_id: files[s.ledger_id] for s in kept},
        unreadable,
        next_ledger,
        next_ledger if nothing_read else last.cursors_lost_below,
    )


def _last_state(directory: Path, disk: LedgerDisk) -> tuple[SavedState, tuple[Path, ...], bool]:
    """The newest readable state (or `NO_STATE`), unreadable copies, and whether it is final."""
    unreadable: list[Path] = []
    for epoch in reversed(state.epochs(directory)):
        loaded = state.load(directory, epoch, disk)
        unreadable += loaded.damaged
        if loaded.state is not None:
            return loaded.state, tuple(unreadable), loaded.closed
    return SavedState(NO_STATE), tuple(unreadable), False


def _log_findings(directory: Path, found: LedgerSurvey) -> tuple[Lost, ...]:
    """Log what the survey found, except losses that a former owner listed; returns the new
    losses.
    """
    for path in found.unreadable:
        # An owner that dies while it overwrites a copy leaves it unfinished; the other is whole.
        if state.epoch_of(path.name) == found.last.epoch:
            _log.warning("%s was not finished, or is damaged: the other copy is used", path)
        else:
            _log.error("%s is damaged", path)
    if found.last.epoch == NO_STATE and found.cursors_lost_below:
        _log.error(
            "%s: no saved state can be read, subscriptions are lost; the ledgers are served, and "
            "subscriptions that come back begin with the oldest message",
            directory,
        )
    for ledger_id, outcome in found.scans.items():
        if outcome.torn:
            _log.warning(
                "%s: ledger %d: %d bytes at its end were not finished and are cut",
                directory,
                ledger_id,
                outcome.torn,
            )
    known = set(found.last.lost)
    new = tuple(each for each in found.lost if each not in known)
    for each in new:
        scan = found.scans.get(each.ledger_id)
        unsure = scan is not None and each.last >= scan.stored
        what = "is missing" if each.ledger_id in found.missing else "is damaged"
        _log.error(
            "%s: ledger %d %s: %s%s",
            directory,
            each.ledger_id,
            what,
            each,
            "; whether the last were ever acknowledged is not known" if unsure else "",
        )
    return new


def _file(directory: Path, ledger: Sealed, marker: bytes, disk: LedgerDisk) -> LedgerFile:
    path = ledger_path(directory, ledger.ledger_id, ledger.epoch)
    return LedgerFile(path, ledger.ledger_id, marker, disk)


def ledger_files(directory: Path) -> list[tuple[int, int]]:
    """(ledger id, epoch) of every ledger file, ascending."""
    names = (_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted((int(name[1]), int(name[2], 16)) for name in names if name)
