"""Reads a cluster through its admin API: loads, owners, and policies if a goal needs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import aiohttp

from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.decide.balancing.snapshot import ClusterSnapshot, snapshot_of
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.rows import BROKER, ReportRows
from counterpoise.names.bundle import namespace_of
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, AdminOptions
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.owned import Ownership, to_be_spared
from counterpoise.pipeline.collect.poll_log import trouble
from counterpoise.pipeline.collect.restarted import BrokerHealth, health_of
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.collect.words import error_text
from counterpoise.pipeline.policies import FACTS, CannotSeeError, PolicyReader, facts_of


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """One poll of a cluster, with the owners that the brokers report, and the cluster's name."""

    rows: ReportRows
    snapshot: ClusterSnapshot
    """The loads and owners; `policies` is None."""
    cluster: str


class SnapshotReader:
    """Makes snapshots of a live cluster from its admin API."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: Sequence[str],
        clock_ms: MillisecondClock,
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

    async def poll(self) -> ClusterReading:
        """Poll loads and owners, without policies; raises `CannotSeeError` if no broker answers."""
        reading = await self._look()
        if reason := trouble(reading.rows):
            raise CannotSeeError(reason)
        return reading

    async def health(self, broker: str) -> BrokerHealth:
        """When a broker started, its version, and whether it answers lookups; never raises."""
        in_use = self._collector.name_in_use()
        return await health_of(self.admin, self.where(broker), broker, in_use)

    async def read(self, broker: str, *, all_groups: bool = False) -> ClusterSnapshot:
        """A snapshot of the cluster now, with policies; raises `CannotSeeError`.

        It has the anti-affinity groups of the namespaces that `broker` serves; with `all_groups`,
        those of all namespaces.
        """
        reading = await self._look()
        snapshot, rows = reading.snapshot, reading.rows
        if broker not in snapshot.silent and (reason := trouble(rows)):
            raise CannotSeeError(reason)
        owned = snapshot.owned
        if broker not in owned:
            return snapshot
        base = f"{self.where(next(iter(owned)))}/admin/v2"
        leaving = [each for one in owned if all_groups or one == broker for each in owned[one]]
        policies = PlacementPolicies(
            facts_of({name: rows[name][rows["kind"] == BROKER] for name in FACTS}),
            isolation=await self.policies.isolation(base, reading.cluster),
            groups=await self._groups(base, reading.cluster, sorted(map(namespace_of, leaving))),
            domains=await self.policies.domains(base, reading.cluster),
        )
        return replace(snapshot, policies=policies)

    async def _look(self) -> ClusterReading:
        rows = await self._collector.poll()
        silent = rows.silent
        self.state = fold(self.state, Batch.of(rows))
        answering = rows["broker"][rows["kind"] == BROKER].tolist()
        owned: Mapping[str, Sequence[str]] = {}
        cluster = ""
        if answering:
            address = self.where(answering[0])
            cluster = await self.policies.cluster(address, answering[0])
            owned = await self._owned(answering, rows, silent)
        snapshot = replace(snapshot_of(self.state), owned=owned, silent=silent)
        return ClusterReading(rows, snapshot, cluster)

    async def _owned(
        self, brokers: Sequence[str], rows: ReportRows, silent: dict[str, str]
    ) -> dict[str, list[str]]:
        """The bundles that each broker owns; one that does not say it is added to `silent`, with
        the reason.
        """
        if to_be_spared(rows):
            served = self.state.served
            reported = zip(served["bundle"].tolist(), served["broker"].tolist(), strict=True)
            try:
                found, missing = await self._ownership.by_bundle(brokers, dict(reported))
            except UNREADABLE as error:
                raise CannotSeeError(error_text(error)) from None
        else:
            found, missing = await self._ownership.listed(brokers)
        silent |= missing
        return {broker: sorted(found[broker]) for broker in brokers if broker in found}

    async def _groups(self, base: str, cluster: str, leaving: Sequence[str]) -> dict[str, str]:
        """The anti-affinity group of each namespace that shares one with a namespace `leaving`."""
        named = await self.policies.groups(base, dict.fromkeys(leaving))
        found: dict[str, str] = {}
        for namespace, group in named.items():
            if namespace not in found:
                members = await self.policies.members(base, cluster, group, namespace)
                found |= dict.fromkeys(members, group)
        return found
