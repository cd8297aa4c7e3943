"""Read of a cluster what placing its bundles takes: loads, owners, policies, groups and settings.

What is not there (no policy, no group) is answered with 204 or 404. Anything else that cannot be
read raises: a bundle that is placed without its policy may end where it must not be.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson

from counterpoise.decide.balancing.drain import DrainScene
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.load.fields import LoadDataError
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.rows import BROKER, GAP, ReportRows
from counterpoise.load.view import ClusterView
from counterpoise.names.load_managers import MODULAR
from counterpoise.names.properties import Properties
from counterpoise.pipeline.collect.admin import (
    UNREADABLE,
    Admin,
    AdminOptions,
    RefusedError,
    said,
)
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.shedder import settings_of
from counterpoise.pipeline.collect.told import trouble
from counterpoise.pipeline.collect.where import web_address

NOT_THERE = (204, 404)


async def cluster_settings(admin: Admin, addresses: Sequence[str]) -> Properties:
    """The settings that the cluster runs with; raises `CannotSeeError`."""
    refused = []
    for address in addresses:
        try:
            values = await settings_of(admin, address.rstrip("/"))
        except (*UNREADABLE, ValueError) as error:
            refused.append(f"{address}: {said(error)}")
            continue
        return Properties({name: str(value) for name, value in values.items() if value is not None})
    raise CannotSeeError(f"the cluster does not answer: {'; '.join(refused)}")


class CannotSeeError(RuntimeError):
    """What a plan depends on could not be read; the message is a sentence for a person."""


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at a cluster."""

    rows: ReportRows
    view: ClusterView
    owned: Mapping[str, Sequence[str]]
    """The bundles of each broker that answered, as it says itself."""
    silent: Mapping[str, str]
    """Who did not answer, and why."""
    cluster: str


class SceneReader:
    """Reads a cluster's scene again and again, over one `aiohttp` session."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: Sequence[str],
        clock_ms: Callable[[], int],
        *,
        after_poll: int = 0,
    ) -> None:
        self.admin = Admin(session, AdminOptions())
        self.where = partial(web_address, addresses=addresses)
        self._collector = Collector(session, addresses, clock_ms, after_poll=after_poll)
        self.state = FoldState.empty()

    async def look(self) -> Sight:
        """Who is there, what each carries and owns; raises `CannotSeeError` when nobody is."""
        sight = await self._look()
        if reason := trouble(sight.rows):
            raise CannotSeeError(reason)
        return sight

    async def read(self, broker: str, *, all_groups: bool = False) -> DrainScene:
        """The cluster as it is now; raises `CannotSeeError`.

        Anti-affinity groups are those of the broker's namespaces, or of everybody's.
        """
        sight = await self._look()
        if broker not in sight.silent and (reason := trouble(sight.rows)):
            raise CannotSeeError(reason)
        rows, owned, silent, cluster = sight.rows, sight.owned, sight.silent, sight.cluster
        if broker not in owned:
            return DrainScene(broker, self._view(), owned, silent=silent)
        answering = list(owned)
        base = f"{self.where(answering[0])}/admin/v2"
        leaving = [each for one in owned if all_groups or one == broker for each in owned[one]]
        mine = sorted({each.rpartition("/")[0] for each in leaving})
        return DrainScene(
            broker,
            self._view(),
            owned,
            facts=_facts(rows),
            policies=await self._policies(base, cluster),
            groups=await self._groups(base, cluster, mine),
            domains=await self._domains(base, cluster),
            silent=silent,
        )

    async def _look(self) -> Sight:
        rows = await self._collector.poll()
        silent = _gaps(rows)
        self.state = fold(self.state, Batch.of(rows))
        answering = rows["broker"][rows["kind"] == BROKER].tolist()
        owned: dict[str, list[str]] = {}
        cluster = ""
        if answering:
            cluster = await self._cluster(answering[0])
            listed = await asyncio.gather(*(self._owned(cluster, each) for each in answering))
            for name, found in zip(answering, listed, strict=True):
                if isinstance(found, str):
                    silent[name] = found
                else:
                    owned[name] = found
        return Sight(rows, self._view(), owned, silent, cluster)

    def _view(self) -> ClusterView:
        brokers = self.state.brokers
        now_ms = int(brokers["poll_id"].max()) if len(brokers["poll_id"]) else 0
        return cluster_view(self.state, now_ms)

    async def _cluster(self, broker: str) -> str:
        base = f"{self.where(broker)}/admin/v2"
        names = [each for each in await self._needed(f"{base}/clusters") if each != "global"]
        for name in names:
            if len(names) == 1 or broker in (await self._json(f"{base}/brokers/{quote(name)}")):
                return str(name)
        raise CannotSeeError(f"{broker} does not say of which cluster it is")

    async def _owned(self, cluster: str, broker: str) -> list[str] | str:
        url = f"{self.where(broker)}/admin/v2/brokers/{quote(cluster)}/{broker}/ownedNamespaces"
        try:
            return sorted(await self._json(url) or ())
        except (*UNREADABLE, orjson.JSONDecodeError) as error:
            return said(error)

    async def _policies(self, base: str, cluster: str) -> dict[str, IsolationPolicy]:
        url = f"{base}/clusters/{quote(cluster)}/namespaceIsolationPolicies"
        found = await self._needed(url) or {}
        try:
            return {name: IsolationPolicy.from_json(each, name) for name, each in found.items()}
        except LoadDataError as error:
            raise CannotSeeError(
                f"an isolation policy of {cluster} is unreadable: {error}"
            ) from None

    async def _domains(self, base: str, cluster: str) -> dict[str, str]:
        found = await self._needed(f"{base}/clusters/{quote(cluster)}/failureDomains") or {}
        return {
            broker: name for name, each in found.items() for broker in each.get("brokers") or ()
        }

    async def _groups(
        self, base: str, cluster: str, namespaces: Sequence[str]
    ) -> dict[str, frozenset[str]]:
        groups: dict[str, frozenset[str]] = {}
        for namespace in namespaces:
            # The brokers' own namespaces have no policies.
            if ":" in namespace:
                continue
            group = await self._needed(f"{base}/namespaces/{namespace}/antiAffinity")
            if not group:
                continue
            tenant = quote(namespace.partition("/")[0])
            url = f"{base}/namespaces/{quote(cluster)}/antiAffinity/{quote(group)}?tenant={tenant}"
            groups[namespace] = frozenset(await self._needed(url) or (namespace,))
        return groups

    async def _needed(self, url: str) -> Any:
        try:
            return await self._json(url)
        except (*UNREADABLE, orjson.JSONDecodeError) as error:
            raise CannotSeeError(f"{url}: {said(error)}") from None

    async def _json(self, url: str) -> Any:
        try:
            body = await self.admin.get(url)
        except RefusedError as error:
            if error.status in NOT_THERE:
                return None
            raise
        if not body.strip():
            return None
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            # Pulsar answers a group's name as text without quotes.
            if url.endswith("/antiAffinity"):
                return body.decode(errors="replace").strip()
            raise


def _gaps(rows: ReportRows) -> dict[str, str]:
    those = rows["kind"] == GAP
    return dict(zip(rows["broker"][those].tolist(), rows["note"][those].tolist(), strict=True))


def _facts(rows: ReportRows) -> dict[str, BrokerFacts]:
    # The extensible manager is always named: who gave a report without a name runs the modular one.
    those = rows["kind"] == BROKER
    names = ("broker", "load_manager", "broker_version", "persistent_topics",
             "non_persistent_topics", "topics")  # fmt: skip
    return {
        broker: BrokerFacts(
            manager or MODULAR, version or None, bool(lasting), bool(passing), topics
        )
        for broker, manager, version, lasting, passing, topics in zip(
            *(rows[name][those].tolist() for name in names), strict=True
        )
    }
