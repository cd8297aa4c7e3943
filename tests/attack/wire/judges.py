"""What must hold while a broker is attacked, and what is said when it doesn't."""

import re
from dataclasses import dataclass

GAP_MAX_S = 1.0
MEMORY_MAX_MB = 300.0
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\)|never retrieved|^Exception ", re.M)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was measured."""

    worst_gap_s: float
    machine_late_s: float
    """By how much the machine alone kept a sleeping bystander: what a gap on a busy one may owe."""
    rounds: int
    bystander_problem: str
    memory_mb: float
    log: str
    still_serves: str
    """Empty, or why a new client was not served when the attack was over."""
    exit_status: int | None
    """None while the broker runs."""


def problems(seen: Seen, gap_max_s: float = GAP_MAX_S) -> list[str]:
    """Name all that did not hold; nothing if the broker stood."""
    found = []
    if seen.exit_status is not None:
        found.append(f"dead: the broker ended with status {seen.exit_status}")
    if seen.bystander_problem:
        found.append(f"bystander: {seen.bystander_problem}")
    if seen.worst_gap_s > gap_max_s or not seen.rounds:
        found.append(f"gap: the bystander waited {seen.worst_gap_s:.2f} s, at most {gap_max_s:g} s")
    if seen.memory_mb > MEMORY_MAX_MB:
        found.append(f"memory: {seen.memory_mb:.0f} MB resident, at most {MEMORY_MAX_MB:g} MB")
    found += [
        f"traceback: {seen.log[match.start() :][:2000]}" for match in _TRACEBACK.finditer(seen.log)
    ]
    if seen.still_serves:
        found.append(f"afterwards: {seen.still_serves}")
    return found
