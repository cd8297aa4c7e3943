"""``counterpoise verify-storage``: check stored messages for missing and damaged entries."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from counterpoise.app.errors import UserError
from counterpoise.storage.files.verify import LedgerReport, LogReport, verify

EXIT_DAMAGED = 3


def run(args: argparse.Namespace) -> int:
    """Run ``verify-storage``: check stored files; status 0 when all are sound."""
    directory: Path = args.directory
    if not directory.is_dir():
        raise UserError(f"{directory} is no directory.")
    sound = True
    logs: list[dict[str, object]] = []
    totals = [0, 0, 0, 0]
    for report in verify(directory):
        sound &= report.sound
        counts = (1, len(report.ledgers), sum(each.entries for each in report.ledgers), report.lost)
        totals = [have + more for have, more in zip(totals, counts, strict=True)]
        if args.json:
            logs.append(_as_json(report))
        else:
            sys.stdout.writelines(f"{line}\n" for line in _lines(report))
    if not totals[0]:
        raise UserError(
            f"{directory}: no message is stored there: name the directory that has the topics, "
            "such as messages/ below --data"
        )
    if args.json:
        names = ("topics", "ledgers", "entries", "lostEntries")
        result = {"sound": sound, **dict(zip(names, totals, strict=True)), "logs": logs}
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        topics, ledgers, entries, lost = totals
        sys.stdout.write(
            f"{topics} topics, {ledgers} ledgers, {entries} entries: "
            + ("all sound\n" if sound else f"{lost} lost\n")
        )
    return 0 if sound else EXIT_DAMAGED


def _lines(report: LogReport) -> Iterator[str]:
    yield report.name
    for ledger in report.ledgers:
        yield (
            f"  ledger {ledger.ledger_id:<6} {ledger.entries:>9} entries {ledger.size:>12} bytes  "
            + _verdict(ledger)
        )
    for path in report.unreadable:
        yield f"  {path.name} is damaged"
    if report.cursors_lost:
        yield "  no saved state can be read: subscriptions are lost"
    if report.problem:
        yield f"  cannot be read: {report.problem}"


def _verdict(ledger: LedgerReport) -> str:
    if ledger.lost:
        what = "missing" if ledger.missing else "damaged"
        return f"{what}: " + "; ".join(map(str, ledger.lost))
    if ledger.torn:
        return f"sound; {ledger.torn} bytes at its end were not finished"
    return "sound"


def _as_json(report: LogReport) -> dict[str, object]:
    return {
        "log": report.name,
        "sound": report.sound,
        "lostEntries": report.lost,
        "ledgers": [
            {
                "ledgerId": each.ledger_id,
                "file": each.path.name,
                "entries": each.entries,
                "bytes": each.size,
                "missing": each.missing,
                "unfinishedBytes": each.torn,
                "lost": [
                    {"firstEntryId": lost.first, "lastEntryId": lost.last} for lost in each.lost
                ],
            }
            for each in report.ledgers
        ],
        "damagedStates": [path.name for path in report.unreadable],
        "subscriptionsLost": report.cursors_lost,
        "problem": report.problem,
    }
