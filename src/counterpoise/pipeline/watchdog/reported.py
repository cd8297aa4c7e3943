"""Finds out which bundles brokers own without `ownedNamespaces`, which could make them hang.

Load reports list a broker's bundles, up to a minute late (see `pipeline/collect/owned.py`). In each
observation brokers are asked for the owner of each bundle that two brokers report or none reports
any more, and of each for which the last answer differed from the reports. The other bundles are
asked for in turn, to find any that is owned and not served, which no report shows. `MOST` limits
the bundles that are asked for.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoise.load.rows import BROKER, BUNDLE, ReportRows
from counterpoise.names.bundle import namespace_of
from counterpoise.names.namespace import bound_to_broker
from counterpoise.pipeline.collect.admin import UNREADABLE
from counterpoise.pipeline.collect.owned import Ownership, Whose
from counterpoise.pipeline.collect.words import error_text

MOST: Final = 256
"""The most bundles that are looked up in one observation."""
REMEMBERED_MS: Final = 600_000
"""For how many milliseconds a bundle is looked up after the last report of it by a broker."""


@dataclass(slots=True)
class _Bundle:
    """What is known of a bundle that some broker reported recently."""

    reporters: tuple[str, ...] = ()
    reported_ms: int = 0
    asked_ms: int = 0
    holders: Mapping[str, bool] = field(default_factory=dict)
    """The brokers that owned it when brokers were last asked, each with whether it was active."""

    @property
    def open(self) -> bool:
        """Whether the bundle's owner is unclear: not exactly one broker reports it, or brokers that
        were asked answered otherwise.
        """
        said_otherwise = self.asked_ms and self.holders != dict.fromkeys(self.reporters, True)
        return len(self.reporters) != 1 or bool(said_otherwise)

    def now(self) -> Mapping[str, bool]:
        """The brokers that claim to own the bundle, each with whether it is active; may be none or
        several.
        """
        if self.open and self.asked_ms:
            return self.holders
        return dict.fromkeys(self.reporters[:1], True)


class Reported:
    """Which bundles a cluster's brokers own, by their load reports and by asking."""

    def __init__(self, ownership: Ownership, most: int = MOST) -> None:
        self._ownership = ownership
        self._most = most
        self._by_broker: dict[str, tuple[str, ...]] = {}
        self._bundles: dict[str, _Bundle] = {}

    def add_poll(self, rows: ReportRows) -> None:
        """Add the reports of one poll."""
        now_ms = int(rows["poll_id"][0])
        mine = rows["kind"] == BUNDLE
        # An unchanged measurement repeats no bundles: what was reported before still holds.
        reported: dict[str, list[str]] = {}
        for broker, bundle in zip(rows["broker"][mine], rows["bundle"][mine], strict=True):
            reported.setdefault(broker, []).append(bundle)
        those = rows["kind"] == BROKER
        answers = zip(rows["broker"][those].tolist(), rows["fresh"][those].tolist(), strict=True)
        before = self._by_broker
        self._by_broker = {
            broker: tuple(reported.get(broker, ())) if fresh else before.get(broker, ())
            for broker, fresh in answers
        }
        for each in self._bundles.values():
            each.reporters = ()
        for broker, bundles in self._by_broker.items():
            for bundle in bundles:
                known = self._bundles.setdefault(bundle, _Bundle())
                known.reporters = (*known.reporters, broker)
                known.reported_ms = now_ms
        oldest = now_ms - REMEMBERED_MS
        self._bundles = {b: each for b, each in self._bundles.items() if each.reported_ms > oldest}

    async def owned(
        self, brokers: Sequence[str], now_ms: int
    ) -> tuple[dict[str, dict[str, bool]], dict[str, str]]:
        """The bundles that each of these brokers owns, and the reason of each broker that did not
        answer.
        """
        silent: dict[str, str] = {}
        requests = [self._ask(bundle, brokers, now_ms, silent) for bundle in self._chosen()]
        await asyncio.gather(*requests)
        owned: dict[str, dict[str, bool]] = {b: {} for b in brokers if b not in silent}
        for bundle, each in self._bundles.items():
            for broker, state in each.now().items():
                if broker in owned:
                    owned[broker][bundle] = state
        return owned, silent

    def _chosen(self) -> Iterable[str]:
        """The bundles to ask for now: first those whose owner is unclear, then those that were
        asked for longest ago.
        """
        free = [each for each in self._bundles if not bound_to_broker(namespace_of(each))]
        known = self._bundles
        free.sort(key=lambda each: (not known[each].open, known[each].asked_ms, each))
        return free[: self._most]

    async def _ask(
        self, bundle: str, brokers: Sequence[str], now_ms: int, silent: dict[str, str]
    ) -> None:
        """Ask for a bundle's owner: the brokers that report it, or if none does one of `brokers`.

        The owners are kept in `_bundles`; a broker that does not answer is added to `silent`.
        """
        known = self._bundles[bundle]
        holders: dict[str, bool] = {}
        for broker in [b for b in known.reporters if b in brokers] or brokers[:1]:
            try:
                found: Whose = await self._ownership.whose(bundle, broker, brokers)
            except UNREADABLE as error:
                silent[broker] = error_text(error)
                return
            if found.owner:
                holders.setdefault(found.owner, found.active)
        known.holders, known.asked_ms = holders, now_ms
