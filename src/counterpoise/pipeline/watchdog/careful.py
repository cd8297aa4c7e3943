"""When a broker may be asked what it owns without harm.

`pipeline/owners.py` says what the question can do to a broker of Apache Pulsar under the modular
load manager that takes bundles over at that moment. A watchdog asks again and again, also while a
broker is restarted and hundreds of bundles find new owners. So such a broker is asked only when
nothing has changed for a while: not which brokers there are, and not which of them reports which
bundle. Until then its reports say what it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from counterpoise.decide.watchdog.sight import Owned
from counterpoise.load.rows import BROKER, BUNDLE, ReportRows
from counterpoise.names.load_managers import MODULAR

QUIET_MS = 20_000
FIRST_APACHE = 2
"""Pulsar's versions begin there; our own brokers, which can always be asked, tell a lower one."""


@dataclass(slots=True)
class Careful:
    """What is known of who may be asked; one for each cluster."""

    fragile: set[str] = field(default_factory=set)
    """Brokers that could be harmed, as far as they have been looked at."""
    _seen: int = 0
    _changed_ms: int = 0
    _told: dict[str, Mapping[str, Owned]] = field(default_factory=dict)
    _reported: dict[str, dict[str, Owned]] = field(default_factory=dict)

    def take(self, rows: ReportRows) -> None:
        """See a poll."""
        now_ms = int(rows["poll_id"][0])
        brokers = rows["broker"][rows["kind"] == BROKER].tolist()
        mine = rows["kind"] == BUNDLE
        # An unchanged measurement repeats no bundles: what was reported before still holds.
        again: dict[str, list[str]] = {broker: [] for broker in rows["broker"][mine].tolist()}
        for broker, bundle in zip(rows["broker"][mine], rows["bundle"][mine], strict=True):
            again[broker].append(bundle)
        self._reported = {
            broker: dict.fromkeys(again[broker], Owned())
            if broker in again
            else self._reported.get(broker, {})
            for broker in brokers
        }
        seen = hash(
            (
                tuple(sorted(set(rows["broker"].tolist()))),
                frozenset((b, each) for b, all_ in self._reported.items() for each in all_),
            )
        )
        if seen != self._seen:
            self._seen, self._changed_ms = seen, now_ms
            self._told.clear()

    def known(self, broker: str, now_ms: int) -> Mapping[str, Owned] | None:
        """What a broker owns, without asking it; None when it is to be asked."""
        if broker not in self.fragile:
            return None
        if broker in self._told:
            return self._told[broker]
        if now_ms - self._changed_ms >= QUIET_MS:
            return None
        return self._reported.get(broker, {})

    def told(self, broker: str, owned: Mapping[str, Owned]) -> None:
        """What it answered; it holds until something changes."""
        self._told[broker] = owned


def could_be_harmed(manager: str, version: str) -> bool:
    """Whether a broker of this load manager and version must not be asked while it is busy."""
    major = version.strip().strip('"').partition(".")[0]
    ours = major.isdecimal() and int(major) < FIRST_APACHE
    return not ours and manager in ("", MODULAR)
