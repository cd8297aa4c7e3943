"""Which bundles are to be split, by the rules of each of Pulsar's load managers."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.splitting.extensible import (
    SplitMemory,
    SplitScope,
    find_own_bundles_to_split,
)
from counterpoise.decide.splitting.loads import BundleLoads
from counterpoise.decide.splitting.modular import find_bundles_to_split
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitPoints
from counterpoise.load.report import LocalBrokerData
from counterpoise.names.bundle import BundleName, namespace_of
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName


class Finder(Protocol):
    """Finds bundles to split."""

    @property
    def unloads(self) -> bool:
        """Whether a split bundle's parts are unloaded, so that other brokers can get them."""

    async def find(self, options: SplitOptions) -> StrategyPlan[Any]:
        """The splits that are due now. Raises `MetadataError`."""


class ReportFinder:
    """Finds bundles to split in all brokers' reports, as the modular load manager does.

    A cluster of one broker splits nothing: no other broker could relieve it (Pulsar's
    ``ModularLoadManagerImpl.checkNamespaceBundleSplit``).
    """

    unloads = True

    def __init__(self, load: ClusterLoad, bundles: NamespaceBundleCache, me: str) -> None:
        self._load = load
        self._bundles = bundles
        self._me = me

    async def find(self, options: SplitOptions) -> StrategyPlan[Any]:
        """The splits that are due, of any broker's bundles. Raises `MetadataError`."""
        await self._load.refresh()
        reports = self._load.reports
        if len(reports) < 2:
            return StrategyPlan((), (), None)
        loads = BundleLoads.averaged(reports, self._load.bundles())
        mine = reports[self._me].last_stats if self._me in reports else ()
        return find_bundles_to_split(loads, await bundle_counts(self._bundles, mine), options)


class OwnFinder:
    """Finds bundles to split in this broker's last measurement, as the extensible load manager
    does.

    Counts in how many consecutive measurements each bundle exceeded a limit.
    """

    unloads = False

    def __init__(
        self,
        me: str,
        *,
        report: Callable[[], LocalBrokerData],
        owned: Callable[[], Collection[BundleName]],
        splitting: Callable[[Collection[str]], Awaitable[list[str]]],
        bundles: NamespaceBundleCache,
        points: Callable[[BundleName], Awaitable[SplitPoints]],
    ) -> None:
        """``splitting`` returns those bundles of the given namespaces that any broker is splitting.

        ``points`` finds where the default algorithm splits a bundle.
        """
        self._me = me
        self._report = report
        self._owned = owned
        self._splitting = splitting
        self._bundles = bundles
        self._points = points
        self._memory = SplitMemory()

    async def find(self, options: SplitOptions) -> StrategyPlan[Any]:
        """The splits that are due, of this broker's own bundles."""
        loads = BundleLoads.measured(self._me, self._report().last_stats)
        owned = {str(bundle) for bundle in self._owned()}
        counts = await bundle_counts(self._bundles, owned)
        # Finding where to cut takes a while, since it reads the bundles' topics. So a first pass
        # finds which bundles are due; its result is not kept.
        due: list[BundleName] = []

        def ask(bundle: BundleName) -> SplitPoints:
            due.append(bundle)
            return SplitPoints((), "", "")

        find_own_bundles_to_split(loads, SplitScope(owned, (), counts), self._memory, options, ask)
        points = {bundle: await self._points(bundle) for bundle in due}
        busy = await self._splitting({str(bundle.namespace) for bundle in due})
        plan = find_own_bundles_to_split(
            loads, SplitScope(owned, busy, counts), self._memory, options, points.__getitem__
        )
        self._memory = plan.memory
        return plan


async def bundle_counts(known: NamespaceBundleCache, bundles: Collection[str]) -> Mapping[str, int]:
    """The number of bundles of each namespace; namespaces that are gone are left out."""
    counts: dict[str, int] = {}
    for name in sorted({namespace_of(bundle) for bundle in bundles}):
        try:
            counts[name] = len((await known.get(NamespaceName.parse(name))).bundles)
        except (BrokerError, InvalidName):
            continue
    return counts
