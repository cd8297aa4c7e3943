"""Reads a cluster's placement policies: isolation, anti-affinity groups, domains, filters'
settings.

A missing policy or group is answered with 204 or 404. Anything else that cannot be read raises: a
bundle placed without its policy may end where it must not be.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import orjson

from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.load.fields import LoadDataError
from counterpoise.load.fold import FoldState
from counterpoise.load.rows import Column
from counterpoise.load.view import bundle_namespace
from counterpoise.names.errors import ExplainedError
from counterpoise.names.load_managers import MODULAR
from counterpoise.names.options import from_conf
from counterpoise.names.properties import Properties
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.settings import cluster_of, settings_of, settings_of_any
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.collect.words import error_text

NOT_THERE: Final = (204, 404)
GROUPS_FOR: Final = 10
"""For how many rounds a namespace's anti-affinity group is cached."""
ASKED_MOST: Final = 3
"""The most brokers that are asked for policies, one after the other, before a round gives up."""
FACTS: Final = (
    "broker",
    "load_manager",
    "broker_version",
    "persistent_topics",
    "non_persistent_topics",
    "topics",
)


class CannotSeeError(ExplainedError):
    """Data that a plan depends on could not be read; the message is a sentence."""


class PolicyReader:
    """Reads placement policies from a cluster's admin API; raises `CannotSeeError`.

    `base` is the URL of a broker's admin API, with its `/admin/v2`.
    """

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def cluster(self, address: str, broker: str) -> str:
        """The name of the cluster of a broker with this admin address."""
        try:
            return await cluster_of(self._admin, address, broker)
        except UNREADABLE as error:
            raise CannotSeeError(f"{address}: {error_text(error)}") from None

    async def settings(self, addresses: Sequence[str]) -> Properties:
        """The settings of the first of these brokers that answers."""
        try:
            return await settings_of_any(self._admin, addresses)
        except RefusedError as error:
            raise CannotSeeError(str(error)) from None

    async def isolation(self, base: str, cluster: str) -> dict[str, IsolationPolicy]:
        """The cluster's namespace isolation policies by name."""
        url = f"{base}/clusters/{quote(cluster)}/namespaceIsolationPolicies"
        found = await self._needed(url) or {}
        try:
            return {name: IsolationPolicy.from_json(each, name) for name, each in found.items()}
        except LoadDataError as error:
            raise CannotSeeError(
                f"an isolation policy of {cluster} is unreadable: {error}"
            ) from None

    async def domains(self, base: str, cluster: str) -> dict[str, str]:
        """The failure domain by broker id; brokers without one are absent."""
        found = await self._needed(f"{base}/clusters/{quote(cluster)}/failureDomains") or {}
        return {
            broker: name for name, each in found.items() for broker in each.get("brokers") or ()
        }

    async def groups(self, base: str, namespaces: Iterable[str]) -> dict[str, str]:
        """The anti-affinity group of each of these namespaces that is in one."""
        # The brokers' own namespaces have no policies.
        names = [each for each in namespaces if ":" not in each]
        urls = [f"{base}/namespaces/{namespace}/antiAffinity" for namespace in names]
        found = await asyncio.gather(*map(self._needed, urls))
        return {name: str(group) for name, group in zip(names, found, strict=True) if group}

    async def members(self, base: str, cluster: str, group: str, one: str) -> frozenset[str]:
        """The namespaces of an anti-affinity group in the tenant of `one`, a known member."""
        tenant = quote(one.partition("/")[0])
        url = f"{base}/namespaces/{quote(cluster)}/antiAffinity/{quote(group)}?tenant={tenant}"
        return frozenset(await self._needed(url) or (one,))

    async def answer(self, url: str) -> Any:
        """Return a response's JSON; None if it is empty, or its status is 204 or 404.

        Raises one of `UNREADABLE`, or `orjson.JSONDecodeError`.
        """
        try:
            body = await self._admin.get(url)
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

    async def _needed(self, url: str) -> Any:
        try:
            return await self.answer(url)
        except (*UNREADABLE, orjson.JSONDecodeError) as error:
            raise CannotSeeError(f"{url}: {error_text(error)}") from None


class RoundPolicies:
    """Reads the placement policies again for each round of a balancer.

    Anti-affinity groups, which take a request for each namespace, are cached for `GROUPS_FOR`
    rounds; those of a new namespace are read at once.
    """

    def __init__(self, session: aiohttp.ClientSession, addresses: Sequence[str]) -> None:
        self._admin = Admin(session, AdminOptions())
        self._policies = PolicyReader(self._admin)
        self._addresses = addresses
        self._round = 0
        self._groups: dict[str, tuple[int, str]] = {}
        """The anti-affinity group of each namespace, if any, and the round in which it was read."""

    async def read(self, state: FoldState) -> PlacementPolicies:
        """Read the policies for a round with this state's bundles; raises `CannotSeeError`."""
        self._round += 1
        brokers = state.brokers
        newest = brokers["poll_id"] == max(brokers["poll_id"].tolist(), default=0)
        refused = "no broker answers"
        for broker in brokers["broker"][newest].tolist()[:ASKED_MOST]:
            try:
                return await self._read(state, broker)
            except CannotSeeError as error:
                refused = str(error)
        raise CannotSeeError(refused)

    async def _read(self, state: FoldState, broker: str) -> PlacementPolicies:
        address = web_address(broker, self._addresses)
        base = f"{address}/admin/v2"
        cluster = await self._policies.cluster(address, broker)
        filters, policies, domains, groups = await asyncio.gather(
            self._filters(address),
            self._policies.isolation(base, cluster),
            self._policies.domains(base, cluster),
            self._groups_of(base, {bundle_namespace(b) for b in state.served["bundle"].tolist()}),
        )
        facts = facts_of({name: state.brokers[name] for name in FACTS})
        return PlacementPolicies(
            facts, isolation=policies, groups=groups, domains=domains, filters=filters
        )

    async def _filters(self, address: str) -> FilterOptions:
        """The brokers' own filter settings, without `distribute_evenly`: the balancer evens out
        load, not the number of bundles.
        """
        try:
            conf = await settings_of(self._admin, address)
            return replace(from_conf(FilterOptions, conf.values), distribute_evenly=False)
        except (*UNREADABLE, ValueError) as error:
            if isinstance(error, RefusedError) and error.status in NOT_THERE:
                return FilterOptions(distribute_evenly=False)
            raise CannotSeeError(
                f"{address} does not return its settings: {error_text(error)}"
            ) from None

    async def _groups_of(self, base: str, namespaces: set[str]) -> dict[str, str]:
        fresh = {
            name: (at, group)
            for name, (at, group) in self._groups.items()
            if name in namespaces and self._round - at < GROUPS_FOR
        }
        missing = sorted(namespaces - fresh.keys())
        found = await self._policies.groups(base, missing)
        fresh |= {name: (self._round, found.get(name, "")) for name in missing}
        self._groups = fresh
        return {name: group for name, (_, group) in fresh.items() if group}


def facts_of(columns: Mapping[str, Column]) -> dict[str, BrokerFacts]:
    """The facts for placement filters from each broker's load report; `columns` are those of
    `FACTS`.
    """
    # Reports of the extensible manager name it; a report that names none is the modular one's.
    return {
        broker: BrokerFacts(
            manager or MODULAR, version or None, bool(lasting), bool(passing), topics
        )
        for broker, manager, version, lasting, passing, topics in zip(
            *(columns[name].tolist() for name in FACTS), strict=True
        )
    }
