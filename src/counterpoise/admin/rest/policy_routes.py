"""The routes that read, set and remove a policy, of namespaces and topics alike."""

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping

from aiohttp import web

from counterpoise.admin import route
from counterpoise.admin.access import AccessRule
from counterpoise.admin.backlog_quota import exceeds_retention, whole_quota
from counterpoise.admin.errors import bad_request, precondition_failed
from counterpoise.admin.parameters import whole_number
from counterpoise.admin.policies import BACKLOG_QUOTA, MESSAGE_SIZE_REFUSED, Policy, why_refused
from counterpoise.admin.request import answer, body_of, broker_of, nothing
from counterpoise.admin.rest.clusters import require_allowed_clusters, require_known_clusters
from counterpoise.admin.rest.partitioned_topics import require_partitions
from counterpoise.admin.shapes import FLAG, Json, Shape, nullable, text

log = logging.getLogger(__name__)

_BAD_REQUESTS = frozenset(
    ("persistence", "retention_policies", "retentionPolicies", "entryFilters")
)
"""Policies whose wrong values Pulsar answers with 400 instead of 412."""
_ANSWERED_200 = frozenset(("replication", "offloadThresholdInSeconds"))
"""Policies of namespaces that Pulsar answers with 200 instead of 204 when they are set."""
BACKLOG_QUOTA_TYPE = {"backlogQuotaType": text("destination_storage", "message_age")}


class PolicyHolder(ABC):
    """Base class of the routes that read and change policies, of namespaces or of topics."""

    LEVEL: str
    """What has the policies: "topic" or "namespace"."""
    RETENTION: str
    QUOTAS: str
    """The name of the policy with backlog quotas; ``RETENTION``: that of the retention policy."""
    CHECKED: tuple[str, ...]
    """The types of backlog quota that retention has to exceed."""

    def __init__(
        self,
        base: str,
        query: route.Query,
        access: AccessRule,
        per_cluster: frozenset[str] = frozenset(),
    ) -> None:
        """Describe the routes to be made.

        ``base``: the path before the policy's; ``query``: the parameters that every request may
        have; ``access``: what a request requires of its caller. ``per_cluster``: the policies that
        are stored as a map from cluster to value, of which the API reads and writes this cluster's.
        """
        self.base, self._query, self._access = base, query, access
        self._per_cluster = per_cluster

    async def require(self, request: web.Request) -> None:
        """Return if the topic or namespace exists, where Pulsar checks that before the value."""
        del request

    @abstractmethod
    async def value(self, request: web.Request, name: str) -> Json:
        """The policy's value that the request asks for; None if it was never set."""

    @abstractmethod
    async def inherited(self, request: web.Request, name: str) -> Json:
        """The policy's value, of the topic or else of its namespace; None if neither sets it."""

    @abstractmethod
    async def update(
        self, request: web.Request, change: Callable[[dict[str, Json]], object]
    ) -> None:
        """Change the policies in place; 404 if their namespace or topic does not exist."""

    def routes(self, policy: Policy) -> Iterable[route.Route]:
        """The routes of one policy: read, set, remove."""
        path = f"{self.base}/{policy.path}"
        reads, writes = policy.reads or self._access, policy.writes or self._access
        query = {**self._query, **({"applied": FLAG} if policy.applied else {})}
        yield route.Route("GET", path, self._reader(policy), reads, query=query)
        query = {**self._query, **({policy.by_query: policy.shape} if policy.by_query else {})}
        bare = policy.by_query or policy.value_by_path is not None
        body = None if bare else Shape(nullable(policy.shape))
        if policy.method:
            yield route.Route(policy.method, path, self._writer(policy), writes, body, query)
        if not policy.member:
            yield route.Route("DELETE", path, self.remover(policy), writes, query=self._query)

    def quota_routes(self) -> Iterable[route.Route]:
        """The routes of backlog quotas, of which one policy holds several by type."""
        member, routes, query = self.QUOTAS, route.Routes(), {**BACKLOG_QUOTA_TYPE, **self._query}

        @routes.get(f"{self.base}/backlogQuotaMap", self._access, self._query)
        async def read(request: web.Request) -> web.Response:
            return answer(await self.value(request, member) or {})

        @routes.post(f"{self.base}/backlogQuota", self._access, Shape(BACKLOG_QUOTA), query)
        async def write(request: web.Request) -> None:
            kind, quota = _quota_type(request), body_of(request)
            if quota.get("policy") is None:
                namespace = "{tenant}/{namespace}".format(**request.match_info)
                raise bad_request(
                    f"Set namespace[{namespace}] backlog quota failed because the data validation "
                    "failed. the attribute policy cannot be null"
                )
            quota = whole_quota(quota)
            retention = await self.inherited(request, self.RETENTION)
            if kind in self.CHECKED and exceeds_retention(quota, retention):
                raise precondition_failed(
                    f"Backlog Quota exceeds configured retention quota for {self.LEVEL}. "
                    "Please increase retention quota and retry"
                )
            await self.update(request, lambda it: it.setdefault(member, {}).update({kind: quota}))

        @routes.delete(f"{self.base}/backlogQuota", self._access, query)
        async def remove(request: web.Request) -> None:
            kind = _quota_type(request)
            await self.update(request, lambda it: it.setdefault(member, {}).pop(kind, None))

        return routes

    def _reader(self, policy: Policy) -> route.Handler:
        async def read(request: web.Request) -> web.Response:
            value = await self.value(request, policy.name)
            if policy.name in self._per_cluster and value is not None:
                value = value.get(broker_of(request).config.cluster_name)
            if policy.member:
                value = (value or {}).get(policy.member)
            value = policy.unset if value is None else value
            return nothing() if value is None else answer(value)

        return read

    def _writer(self, policy: Policy) -> route.Handler:
        remove = self.remover(policy)

        async def write(request: web.Request) -> web.StreamResponse | None:
            await self.require(request)
            value = _given(request, policy)
            if value is None:
                value = policy.null
            if value is None:
                return await remove(request)
            await self._check(request, policy, value)
            if not policy.is_read:
                self._warn(request, policy.path, "read by nothing here (docs/UNREAD.md)")
            elif policy.name == "persistence" and not _is_on_bookkeeper(request):
                why = "without effect: messages are not on Apache BookKeeper (ledgerStoreUrl)"
                self._warn(request, policy.path, why)
            if policy.member or policy.name in self._per_cluster:
                value = {policy.member or broker_of(request).config.cluster_name: value}
                await self.update(request, lambda it: it.setdefault(policy.name, {}).update(value))
            else:
                await self.update(request, lambda it: it.update({policy.name: value}))
            is_ok = self.LEVEL == "namespace" and policy.path in _ANSWERED_200
            return nothing() if is_ok else None

        return write

    async def _check(self, request: web.Request, policy: Policy, value: Json) -> None:
        """Check the value of a policy; raises `RestError` if the policy may not have it."""
        refused = why_refused(policy.name, value)
        if refused is not None:
            is_bad = policy.name in _BAD_REQUESTS
            raise bad_request(refused) if is_bad else precondition_failed(refused)
        if policy.low is not None and value < policy.low:
            raise precondition_failed(
                policy.refusal or f"{policy.path} must be {policy.low} or more"
            )
        if policy.path in _CHECKS:
            await _CHECKS[policy.path](self, request, value)

    def remover(self, policy: Policy) -> route.Handler:
        """The handler that removes a policy."""

        async def remove(request: web.Request) -> None:
            if policy.name in self._per_cluster:
                cluster = broker_of(request).config.cluster_name
                await self.update(
                    request, lambda it: it.setdefault(policy.name, {}).pop(cluster, None)
                )
            else:
                await self.update(request, lambda it: it.pop(policy.name, None))

        return remove

    @staticmethod
    def _warn(request: web.Request, path: str, why: str) -> None:
        log.warning(
            "%s: the policy %s is stored, and %s",
            "/".join(value for name, value in request.match_info.items() if name != "domain"),
            path,
            why,
        )


async def _check_message_size(_: PolicyHolder, request: web.Request, size: int) -> None:
    if size > broker_of(request).config.connection.max_message_size:
        raise precondition_failed(MESSAGE_SIZE_REFUSED)


async def _check_partitions(_: PolicyHolder, request: web.Request, override: Json) -> None:
    require_partitions(request, override.get("defaultNumPartitions") or 0)


async def _check_retention(holder: PolicyHolder, request: web.Request, retention: Json) -> None:
    quotas = await holder.inherited(request, holder.QUOTAS) or {}
    if any(exceeds_retention(quotas.get(kind), retention) for kind in holder.CHECKED):
        raise precondition_failed(
            f"Retention Quota must exceed configured backlog quota for {holder.LEVEL}."
        )


async def _check_allowed(_: PolicyHolder, request: web.Request, clusters: list[str]) -> None:
    await require_allowed_clusters(request, clusters)


async def _check_replication(
    holder: PolicyHolder, request: web.Request, clusters: list[str]
) -> None:
    if not clusters:
        raise precondition_failed("ClusterIds should not be null or empty")
    if holder.LEVEL == "topic" and broker_of(request).config.cluster_name not in clusters:
        raise precondition_failed(
            "Can not remove local cluster from the local topic-level replication clusters policy"
        )
    await require_known_clusters(request, clusters)
    await require_allowed_clusters(request, clusters)


_CHECKS: Mapping[str, Callable[[PolicyHolder, web.Request, Json], Awaitable[None]]] = {
    "allowedClusters": _check_allowed,
    "autoTopicCreation": _check_partitions,
    "maxMessageSize": _check_message_size,
    "replication": _check_replication,
    "retention": _check_retention,
}
"""By a policy's path: a further check of a value, after those of its shape and its least value."""


def _is_on_bookkeeper(request: web.Request) -> bool:
    return broker_of(request).config.storage.bookkeeper_metadata is not None


def in_place(
    change: Callable[[dict[str, Json]], object],
) -> Callable[[dict[str, Json]], dict[str, Json]]:
    """Turn a function that changes policies in place into one that returns a changed copy.

    So it can be repeated after a conflict.
    """

    def changed(policies: dict[str, Json]) -> dict[str, Json]:
        fresh = copy.deepcopy(policies)
        change(fresh)
        return fresh

    return changed


def _given(request: web.Request, policy: Policy) -> Json:
    if policy.value_by_path is not None:
        return policy.value_by_path
    if policy.by_query is None:
        return body_of(request)
    parameter = request.query.get(policy.by_query)
    return None if parameter is None else Shape(policy.shape).check(whole_number(parameter))


def _quota_type(request: web.Request) -> str:
    """The type of backlog quota that a request is about: by size or by time."""
    kind = request.query.get("backlogQuotaType") or "destination_storage"
    if kind not in ("destination_storage", "message_age"):
        raise precondition_failed(f"backlogQuotaType={kind[:40]!r}: no such type")
    return kind
