"""What a soak holds against a balancer: pure functions of what was recorded."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

ALERT = re.compile(r"ALERT (\S+): (.*)")
BROKER = re.compile(r"\b[\w.-]+:\d+\b")
MOST_OFF = 1.2
ANSWERS_WITHIN_MS = 30_000
"""A poll that began when a broker was away may be judged so much later."""


@dataclass(frozen=True)
class Outage:
    """A broker that was ended and started again; times are milliseconds since 1970."""

    broker: str
    how: str
    from_ms: int
    """When the signal was sent."""
    gone_ms: int
    """When its process had ended."""
    started_ms: int
    serves_ms: int
    """When it answered a lookup again."""


class Alert(NamedTuple):
    """A line of the watchdog."""

    at_ms: int
    kind: str
    text: str


class SoakMove(NamedTuple):
    """A move that was carried out."""

    bundle: str
    source: str
    owner: str
    started_ms: int
    ended_ms: int


class Figure(NamedTuple):
    """What a decision says is measured of a bundle or a broker, and what was reported then."""

    decision: str
    """Its id."""
    subject: str
    said: float
    reported: float

    @property
    def is_off(self) -> bool:
        """Whether the one is more than `MOST_OFF` times the other."""
        low, high = sorted((self.said, self.reported))
        return high > MOST_OFF * low


class OwnerChange(NamedTuple):
    """A bundle that another broker reports from a poll on."""

    bundle: str
    source: str
    destination: str
    at_ms: int


def alerts_in(lines: Iterable[tuple[int, str]]) -> list[Alert]:
    """The alerts among stamped lines."""
    found = ((at_ms, ALERT.search(line)) for at_ms, line in lines)
    return [Alert(at_ms, match[1], match[2]) for at_ms, match in found if match]


def figures_of(
    decisions: Iterable[Mapping[str, str]], reports: Sequence[Mapping[str, str]]
) -> list[Figure]:
    """Each measurement that a decision names, beside the last report until then; bytes/s."""
    known = defaultdict[tuple[str, str], list[tuple[int, float]]](list)
    for row in reports:
        if row["kind"] in ("bundle", "broker"):
            carried = float(row["msg_throughput_in"]) + float(row["msg_throughput_out"])
            known[row["kind"], row[row["kind"]]].append((int(row["poll_id"]), carried))
    found = []
    for made in decisions:
        basis, poll = json.loads(made["figures"]).get("basis") or {}, int(made["poll_id"])
        for part, kind, subject in (
            ("measured", "bundle", made["bundle"]),
            ("source", "broker", made["source"]),
            ("destination", "broker", made["destination"]),
        ):
            if basis.get(part):
                until = [carried for at, carried in known[kind, subject] if at <= poll]
                last = until[-1] if until else 0.0
                found.append(Figure(made["id"], subject, float(basis[part][0]), last))
    return found


def early_returns(moves: Sequence[SoakMove], grace_ms: int) -> list[tuple[SoakMove, SoakMove]]:
    """Pairs of moves of a bundle of which the second began within the first one's grace period."""
    before: dict[str, SoakMove] = {}
    early = []
    for move in sorted(moves, key=lambda each: each.started_ms):
        last = before.get(move.bundle)
        if last is not None and move.started_ms < last.ended_ms + grace_ms:
            early.append((last, move))
        before[move.bundle] = move
    return early


def false_alarms(alerts: Iterable[Alert], outages: Sequence[Outage], settle_ms: int) -> list[Alert]:
    """Alerts at times when no broker was away, or about a broker that was not.

    A `not-serving` names the broker it is about first; each other kind may follow from any absence.
    """

    def is_true(alert: Alert) -> bool:
        named = BROKER.search(alert.text) if alert.kind == "not-serving" else None
        return any(
            each.from_ms
            <= alert.at_ms
            <= each.serves_ms + (ANSWERS_WITHIN_MS if named else settle_ms)
            and (named is None or named[0] == each.broker)
            for each in outages
        )

    return [alert for alert in alerts if not is_true(alert)]


def unexplained_changes(
    changes: Iterable[OwnerChange],
    moves: Sequence[SoakMove],
    outages: Sequence[Outage],
    settle_ms: int,
) -> list[OwnerChange]:
    """Changes of owner that are neither a move's nor follow the end of the broker before.

    Reports show a change late, `settle_ms` at most.
    """

    def is_moved(change: OwnerChange) -> bool:
        return any(
            move.bundle == change.bundle
            and move.started_ms <= change.at_ms <= move.ended_ms + settle_ms
            for move in moves
        )

    def is_of_outage(change: OwnerChange) -> bool:
        return any(
            change.source == each.broker
            and each.from_ms <= change.at_ms <= each.serves_ms + settle_ms
            for each in outages
        )

    return [each for each in changes if not is_moved(each) and not is_of_outage(each)]
