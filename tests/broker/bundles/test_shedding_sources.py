"""What the leader sheds load by, under each load manager."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from counterpoise.broker.bundles.shedding_options import SheddingConfig
from counterpoise.broker.bundles.shedding_sources import (
    LoadStoreSheddingSource,
    ReportSheddingSource,
)
from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.load.extensible import BrokerLoadData, BundleLoadData, TopBundlesLoadData
from counterpoise.load.report import NamespaceBundleStats
from counterpoise.names.bundle import BundleName
from counterpoise.ownership.port import BundleLocation
from counterpoise.ownership.records import NamespaceEphemeralData

ALIVE, OTHER, GONE = "b1:80", "b2:80", "b9:80"
OWNED, LEAVING, LOST = (f"public/default/0x{n:08x}_0x{n + 1:08x}" for n in range(3))
ODD = "public/default/no-range"


def top(*bundles: str) -> TopBundlesLoadData:
    stats = NamespaceBundleStats(500.0, 5e7)
    return TopBundlesLoadData(tuple(BundleLoadData(each, stats) for each in bundles))


class Cluster:
    """Two brokers, and what a third one that is gone has left behind."""

    def __init__(self) -> None:
        self.brokers = dict.fromkeys((ALIVE, OTHER, GONE), BrokerLoadData())
        self.top_bundles = {ALIVE: top(OWNED, LEAVING, ODD), GONE: top(LOST)}
        self.refreshed = False
        self.recent: Collection[str] = ()

    async def active(self) -> Collection[str]:
        return {ALIVE, OTHER}

    async def policies_of(self, namespaces: Iterable[str]) -> PlacementPolicies:
        assert set(namespaces) == {"public/default"}
        return PlacementPolicies({})

    async def locate(self, bundle: BundleName) -> BundleLocation:
        owner = NamespaceEphemeralData("", f"http://{ALIVE}")
        return BundleLocation(owner, changing=str(bundle) == LEAVING)

    async def refresh(self) -> None:
        self.refreshed = True

    def view_now(self, recent: Collection[str]) -> tuple[bool, Collection[str]]:
        return self.refreshed, recent


def of_stores(cluster: Cluster) -> LoadStoreSheddingSource:
    return LoadStoreSheddingSource(*[cast("Any", cluster)] * 4, clock_ms=lambda: 7)


def of_reports(cluster: Cluster) -> ReportSheddingSource:
    as_any = cast("Any", cluster)
    return ReportSheddingSource(as_any, as_any, lambda: PlacementOptions())


async def test_what_brokers_that_are_gone_have_published_counts_no_more() -> None:
    view = await of_stores(Cluster()).view([LEAVING], {ALIVE: 5, GONE: 6})
    assert view.now_ms == 7
    assert set(view.brokers) == {ALIVE, OTHER}
    published = dict(zip(view.brokers, (each is not None for each in view.top), strict=True))
    assert published == {ALIVE: True, OTHER: False}
    assert view.recently_unloaded == {LEAVING}
    assert view.unloaded_brokers == {ALIVE: 5}
    assert view.rules.owners == {OWNED: ALIVE}, "one is on its way out, one is no bundle"


async def test_reports_are_read_before_load_is_shed_by_them() -> None:
    view = await of_reports(Cluster()).view([OWNED], {})
    assert cast("object", view) == (True, [OWNED])


@pytest.mark.parametrize(
    ("source", "own", "foreign"),
    [
        (of_stores, "TransferShedder", "AvgShedder"),
        (of_reports, "ThresholdShedder", "TransferShedder"),
    ],
)
def test_each_load_manager_sheds_by_a_strategy_that_reads_what_it_knows(
    source: Any, own: str, foreign: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.bundles.shedding_sources")
    made = source(Cluster())
    config = SheddingConfig(strategy=own)
    assert made.strategy(config).shedder.name == own
    assert caplog.messages == []
    for _ in range(2):
        assert made.strategy(replace(config, strategy=foreign)).shedder.name == own
    assert caplog.messages == [f"{own} sheds load: {foreign} is not for this load manager"]
