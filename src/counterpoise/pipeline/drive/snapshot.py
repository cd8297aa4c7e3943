"""Read of a cluster what placing all of a broker's bundles takes: loads, owners and policies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import aiohttp

from counterpoise.decide.balancing.drain import ClusterSnapshot
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.rows import BROKER, GAP, ReportRows
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import namespace_of
from counterpoise.pipeline.collect.admin import (
    UNREADABLE,
    Admin,
    AdminOptions,
)
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.owned import Ownership, to_be_spared
from counterpoise.pipeline.collect.told import trouble
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.collect.words import said
from counterpoise.pipeline.policies import FACTS, CannotSeeError, PolicyReader, facts_of


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """One look at a cluster."""

    rows: ReportRows
    view: ClusterView
    owned: Mapping[str, Sequence[str]]
    """The bundles of each broker that answered, as it says itself."""
    silent: Mapping[str, str]
    """Who did not answer, and why."""
    cluster: str


class SnapshotReader:
    """Reads a cluster's scene again and again, over one `aiohttp` session."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: Sequence[str],
        clock_ms: Callable[[], int],
        *,
        after_poll: int = 0,
        options: AdminOptions | None = None,
    ) -> None:
        options = options or AdminOptions()
        self.admin = Admin(session, options)
        self.policies = PolicyReader(self.admin)
        self.where = partial(web_address, addresses=addresses)
        self._ownership = Ownership(self.admin, self.where)
        self._collector = Collector(
            session, addresses, clock_ms, after_poll=after_poll, options=options
        )
        self.state = FoldState.empty()

    async def look(self) -> ClusterReading:
        """Who is there, what each carries and owns; raises `CannotSeeError` when nobody is."""
        sight = await self._look()
        if reason := trouble(sight.rows):
            raise CannotSeeError(reason)
        return sight

    async def read(self, broker: str, *, all_groups: bool = False) -> ClusterSnapshot:
        """The cluster as it is now; raises `CannotSeeError`.

        Anti-affinity groups are those of the broker's namespaces, or of everybody's.
        """
        sight = await self._look()
        if broker not in sight.silent and (reason := trouble(sight.rows)):
            raise CannotSeeError(reason)
        rows, owned, silent, cluster = sight.rows, sight.owned, sight.silent, sight.cluster
        if broker not in owned:
            return ClusterSnapshot(broker, self._view(), owned, silent=silent)
        answering = list(owned)
        base = f"{self.where(answering[0])}/admin/v2"
        leaving = [each for one in owned if all_groups or one == broker for each in owned[one]]
        mine = sorted({namespace_of(each) for each in leaving})
        return ClusterSnapshot(
            broker,
            self._view(),
            owned,
            facts=facts_of({name: rows[name][rows["kind"] == BROKER] for name in FACTS}),
            policies=await self.policies.isolation(base, cluster),
            groups=await self._groups(base, cluster, mine),
            domains=await self.policies.domains(base, cluster),
            silent=silent,
        )

    async def _look(self) -> ClusterReading:
        rows = await self._collector.poll()
        silent = _gaps(rows)
        self.state = fold(self.state, Batch.of(rows))
        answering = rows["broker"][rows["kind"] == BROKER].tolist()
        owned: Mapping[str, Sequence[str]] = {}
        cluster = ""
        if answering:
            address = self.where(answering[0])
            cluster = await self.policies.cluster(address, answering[0])
            owned = await self._owned(answering, rows, silent)
        return ClusterReading(rows, self._view(), owned, silent, cluster)

    async def _owned(
        self, brokers: Sequence[str], rows: ReportRows, silent: dict[str, str]
    ) -> dict[str, list[str]]:
        """What each of them owns, as it says itself; who does not becomes silent."""
        if to_be_spared(rows):
            served = self.state.served
            told = zip(served["bundle"].tolist(), served["broker"].tolist(), strict=True)
            try:
                found, missing = await self._ownership.by_bundle(brokers, dict(told))
            except UNREADABLE as error:
                raise CannotSeeError(said(error)) from None
        else:
            found, missing = await self._ownership.listed(brokers)
        silent |= missing
        return {broker: sorted(found[broker]) for broker in brokers if broker in found}

    def _view(self) -> ClusterView:
        brokers = self.state.brokers
        now_ms = int(brokers["poll_id"].max()) if len(brokers["poll_id"]) else 0
        return cluster_view(self.state, now_ms)

    async def _groups(
        self, base: str, cluster: str, mine: Sequence[str]
    ) -> dict[str, frozenset[str]]:
        asked = self.policies
        named = await asked.groups(base, mine)
        return {
            namespace: await asked.members(base, cluster, group, namespace)
            for namespace, group in named.items()
        }


def _gaps(rows: ReportRows) -> dict[str, str]:
    those = rows["kind"] == GAP
    return dict(zip(rows["broker"][those].tolist(), rows["note"][those].tolist(), strict=True))
