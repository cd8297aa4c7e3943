"""Splits bundles that have grown too big, without being asked (``BundleSplitterTask``).

In Pulsar the leader decides and orders the owners. Here every broker works the same decisions out
of the same reports, and each carries out those about its own bundles: nobody has to be ordered,
and nothing waits for a leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Protocol

from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.errors import BrokerError
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.decide.plan import Decision, Rejection
from counterpoise.decide.splitting import BundleLoads, SplitOptions, find_bundles_to_split
from counterpoise.metadata import MetadataError
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName

log = logging.getLogger(__name__)

MINUTE_S: Final = 60.0


class Splits(Protocol):
    """Splits bundles of this broker."""

    async def split(self, bundle: BundleName, *, unload: bool = False) -> Sequence[Any]:
        """Split one; returns its parts. Raises `BrokerError` or `MetadataError`."""
        ...


class AutoSplit:
    """Looks every ``loadBalancerSplitIntervalMinutes``, and splits what it finds."""

    def __init__(
        self,
        me: str,
        load: ClusterLoad,
        bundles: NamespaceBundleCache,
        splits: Splits,
        options: Callable[[], SplitOptions],
    ) -> None:
        self._me = me
        self._load = load
        self._bundles = bundles
        self._splits = splits
        self._options = options
        self._said: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(self._options().interval_minutes * MINUTE_S)
            try:
                await self.look()
            except MetadataError as error:
                log.warning("bundles to split are looked for later: %s", error)

    async def look(self) -> list[BundleName]:
        """Look once; returns the bundles that were split. Raises `MetadataError`."""
        options = self._options()
        if not options.auto_split_enabled:
            return []
        await self._load.refresh()
        reports = self._load.reports
        loads = BundleLoads.averaged(reports, self._load.bundles())
        mine = reports[self._me].last_stats if self._me in reports else ()
        plan = find_bundles_to_split(loads, await self._counts(mine), options)
        self._tell(each for each in plan.rejections if each.rule == "maximum_bundles")
        found = []
        for decision in plan.decisions:
            if decision.source == self._me:
                found += await self._carry_out(decision, unload=options.auto_unload_enabled)
        return found

    async def _counts(self, bundles: Collection[str]) -> dict[str, int]:
        """How many bundles each namespace of these has; one that is gone is passed over."""
        counts: dict[str, int] = {}
        for name in sorted({bundle.rpartition("/")[0] for bundle in bundles}):
            try:
                counts[name] = len((await self._bundles.get(NamespaceName.parse(name))).bundles)
            except (BrokerError, InvalidName):
                continue
        return counts

    async def _carry_out(self, decision: Decision, *, unload: bool) -> list[BundleName]:
        try:
            bundle = BundleName.parse(decision.bundle)
            parts = await self._splits.split(bundle, unload=unload)
        except (BrokerError, MetadataError, InvalidName) as error:
            # Split meanwhile, or moved: the next look finds it as it is then.
            log.warning("%s was not split: %s", decision.bundle, error)
            return []
        if not parts:
            log.info("%s stays whole: its algorithm finds no place to cut", bundle)
            return []
        log.info("%s was split: %s", bundle, decision.sentence)
        return [bundle]

    def _tell(self, rejections: Iterable[Rejection]) -> None:
        """Say why a bundle stays whole once, not at every look."""
        now = frozenset(each.sentence for each in rejections)
        for sentence in sorted(now - self._said):
            log.info("%s", sentence)
        self._said = now
