"""What a real Pulsar 4.0.7 answered, and where ours is meant to answer otherwise."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.security.access.questions import ROLES, Verdicts

FILE = Path(__file__).with_name("pulsar-4.0.7.tsv")

EXPLAINED: dict[str, str] = {}
"""Routes that ours refuses to others than Pulsar does, and why."""


def write(answers: dict[str, Verdicts]) -> None:
    """Keep what a Pulsar answered."""
    with FILE.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, dialect="excel-tab", lineterminator="\n")
        lines.writerow(("route", *ROLES))
        lines.writerows((route, *(each[role] for role in ROLES)) for route, each in answers.items())


def read() -> dict[str, Verdicts]:
    """What was kept."""
    with FILE.open(newline="", encoding="utf-8") as file:
        return {line.pop("route"): line for line in csv.DictReader(file, dialect="excel-tab")}


def differences(ours: dict[str, Verdicts], theirs: dict[str, Verdicts]) -> dict[str, str]:
    """By route, ``role: ours, theirs`` for each role that is answered otherwise."""
    return {
        route: "; ".join(told)
        for route, each in ours.items()
        if (
            told := [
                f"{role}: {verdict}, Pulsar {theirs[route][role]}"
                for role, verdict in each.items()
                if verdict != theirs[route][role]
            ]
        )
    }
