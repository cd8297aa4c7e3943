"""``preferLaterVersions``: only brokers of the latest version, while a cluster is upgraded."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import total_ordering

from counterpoise.decide.filters.facts import UNKNOWN, BrokerFacts
from counterpoise.decide.filters.outcome import FilterOutcome, FilterStatus, applied, unchanged
from counterpoise.decide.plan import Rejection

NAME = "latest_version"
SETTING = "preferLaterVersions"

_NUMBER = r"(0|[1-9][0-9]*)"
_LABELS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMVER = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_LABELS}))?(?:\+({_LABELS}))?")


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version (2.0.0); build metadata is read and does not count."""

    numbers: tuple[int, int, int]
    pre_release: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> "Version | None":
        """Read ``1.2.3-label+build``; None when it is no semantic version."""
        found = _SEMVER.fullmatch(text)
        if not found:
            return None
        labels = tuple(found[4].split(".")) if found[4] else ()
        if any(len(label) > 1 and label[0] == "0" and label.isdigit() for label in labels):
            return None
        return Version((int(found[1]), int(found[2]), int(found[3])), labels)

    def __lt__(self, other: "Version") -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[object, ...]:
        labels = tuple(
            (0, int(label), "") if label.isdigit() else (1, 0, label) for label in self.pre_release
        )
        return self.numbers, not labels, labels


def latest_version(
    brokers: Sequence[str], facts: Mapping[str, BrokerFacts], *, enabled: bool
) -> FilterOutcome:
    """Keep the brokers of the latest version; when one's version cannot be read, all are kept.

    Parity: both managers' ``BrokerVersionFilter`` of 4.0.7. Build metadata orders its search for
    the latest, but equality ignores it, so it decides nothing.
    """
    if not enabled:
        return unchanged(NAME, FilterStatus.OFF, brokers, f"{SETTING} is false")
    if not brokers:
        return unchanged(NAME, FilterStatus.APPLIED, brokers, "there is no broker to compare")
    versions: dict[str, Version] = {}
    for broker in brokers:
        text = facts.get(broker, UNKNOWN).version
        version = Version.parse(text) if text else None
        if version is None:
            what = f"{text!r} is not a semantic version" if text else "it has reported no version"
            return unchanged(
                NAME, FilterStatus.FAILED, brokers, f"{broker}: {what}; {SETTING} is off"
            )
        versions[broker] = version
    latest = max(versions.values())

    def judge(broker: str) -> Rejection | None:
        if versions[broker] == latest:
            return None
        sentence = f"{{subject}} runs {facts[broker].version}, not the latest ({{setting}})"
        return Rejection(broker, "older_version", None, None, SETTING, sentence)

    return applied(NAME, brokers, judge, "only the latest version")
