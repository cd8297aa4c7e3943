"""Checks a ledger directory without changing it: a copy, or one whose brokers are stopped."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from counterpoise.storage.files import fence, state
from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.recovery import ledger_path, survey
from counterpoise.storage.lost_entries import merged
from counterpoise.storage.port import Lost


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """The result of checking one ledger. ``size``: bytes of undamaged entries; ``torn``: of an
    unfinished group.
    """

    ledger_id: int
    path: Path
    entries: int
    size: int
    lost: tuple[Lost, ...] = ()
    missing: bool = False
    torn: int = 0


@dataclass(frozen=True, slots=True)
class LogReport:
    """The result of checking one log: its ledgers in order, and unreadable files.

    ``problem``: why the log could not be checked; empty if it could.
    """

    name: str
    ledgers: tuple[LedgerReport, ...] = ()
    unreadable: tuple[Path, ...] = ()
    cursors_lost: bool = False
    problem: str = ""

    @property
    def lost(self) -> int:
        """The number of lost entries."""
        return sum(each.entries for ledger in self.ledgers for each in ledger.lost)

    @property
    def sound(self) -> bool:
        """Whether no stored entry is missing."""
        return not (self.lost or self.unreadable or self.cursors_lost or self.problem)


def verify(root: Path, disk: LedgerDisk | None = None) -> Iterator[LogReport]:
    """Check every log below ``root``, in the order of names; reads every ledger from end to end."""
    disk = disk or LedgerDisk()
    for directory in sorted({path.parent for path in root.rglob("*") if _belongs(path)}):
        name = directory.relative_to(root).as_posix()
        try:
            yield _verified(name, directory, disk)
        except OSError as error:
            yield LogReport(name, problem=str(error))


def _belongs(path: Path) -> bool:
    return path.name == fence.NAME or path.suffix == ".ledger" or state.is_copy(path.name)


def _verified(name: str, directory: Path, disk: LedgerDisk) -> LogReport:
    found = survey(directory, disk, settle=False)
    ledgers: list[LedgerReport] = []
    for sealed in found.sealed:
        path = ledger_path(directory, sealed.ledger_id, sealed.epoch)
        known = [each for each in found.lost if each.ledger_id == sealed.ledger_id]
        scan = found.scans.get(sealed.ledger_id)
        torn = scan.torn if scan is not None else 0
        missing = sealed.ledger_id in found.missing
        size = sealed.size
        if scan is None and not missing:
            # A closed ledger: `survey` trusts the saved state, and has not read the file.
            read = found.files[sealed.ledger_id].scan(sealed.entries, settle=False)
            size = read.size
            known += [
                Lost(sealed.ledger_id, first, min(last, sealed.entries - 1))
                for first, last in read.lost
                if first < sealed.entries
            ]
        lost = merged(known)
        ledgers.append(
            LedgerReport(sealed.ledger_id, path, sealed.entries, size, lost, missing, torn)
        )
    cursors_lost = found.cursors_lost_below > found.last.cursors_lost_below
    return LogReport(name, tuple(ledgers), found.unreadable, cursors_lost)
