"""The bundles of namespaces: read from local policies, cached, changed by splits."""

import logging
from collections.abc import Callable
from typing import Final

from counterpoise.broker.base import paths
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.base.single_flight import SingleFlight
from counterpoise.broker.namespaces.policies import Policies, bundles_json, local_policies_json
from counterpoise.broker.namespaces.policies.records import JsonObject
from counterpoise.metadata import BadVersion, MetadataStore, Notification, SessionEvent
from counterpoise.metadata.listeners import follow
from counterpoise.names.bundle import FULL_RANGE, NamespaceBundles
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.wire.errors import ServerError

log = logging.getLogger(__name__)


class NamespaceBundleCache:
    """Caches how namespaces are divided into bundles (``NamespaceBundleFactory``).

    A namespace is cached when it is first asked for, and dropped when its local policies change.
    """

    def __init__(self, store: MetadataStore, policies: Policies) -> None:
        self._store = store
        self._policies = policies
        self._known: Final[dict[NamespaceName, NamespaceBundles]] = {}
        self._learned = SingleFlight(self._learn)
        self._changes = 0
        self._unsubscribe = follow(store, self._on_change, self._on_session)

    def close(self) -> None:
        """Stop listening to the metadata store."""
        self._unsubscribe()

    def peek(self, namespace: NamespaceName) -> NamespaceBundles | None:
        """A namespace's bundles if they are cached, else None."""
        return self._known.get(namespace)

    async def get(self, namespace: NamespaceName) -> NamespaceBundles:
        """A namespace's bundles; raises `BrokerError` (TopicNotFound) if it does not exist."""
        known = self._known.get(namespace)
        # A thousand clients may ask at once for what the first of them has read.
        return await self._learned(namespace) if known is None else known

    async def _learn(self, namespace: NamespaceName) -> NamespaceBundles:
        known = self._known.get(namespace)
        if known is not None:
            return known
        before = self._changes
        bundles = await self._read(namespace)
        if before == self._changes:
            self._known[namespace] = bundles
        return bundles

    async def update(
        self, namespace: NamespaceName, change: Callable[[NamespaceBundles], NamespaceBundles]
    ) -> NamespaceBundles:
        """Change a namespace's bundles by compare-and-set, retried if another broker wrote them.

        Raises what ``change`` raises, or `BadVersion` after too many retries.
        """
        await self._read(namespace)
        after: list[NamespaceBundles] = []

        def changed(local: JsonObject) -> JsonObject:
            bundles = change(_bundles_of(namespace, local))
            after[:] = [bundles]
            return {**local_policies_json(bundles), **local, "bundles": bundles_json(bundles)}

        await self._policies.local_policies(namespace).change(changed, create=True)
        self._changes += 1
        self._known[namespace] = after[0]
        return after[0]

    async def _read(self, namespace: NamespaceName) -> NamespaceBundles:
        if namespace.bound_broker is not None:
            return _bundles_of(namespace, {})
        policies = await self._policies.namespace(namespace)
        if policies is None:
            raise BrokerError(ServerError.TopicNotFound, f"Namespace not found: {namespace}")
        node = self._policies.local_policies(namespace)
        local = await node.get()
        if local is None:
            # As in Pulsar, bundles are copied once from the policies that all clusters share.
            bundles = _bundles_of(namespace, policies)
            try:
                await node.create(local_policies_json(bundles))
            except BadVersion:
                local = await node.get()
            else:
                return bundles
        return _bundles_of(namespace, policies if local is None else local)

    def _on_change(self, notification: Notification) -> None:
        for below in (paths.LOCAL_POLICIES, paths.POLICIES):
            if notification.path.startswith(below + "/"):
                self._forget(notification.path.removeprefix(below + "/"))

    def _on_session(self, _: SessionEvent) -> None:
        self._changes += 1
        self._known.clear()

    def _forget(self, namespace: str) -> None:
        self._changes += 1
        if namespace.count("/") == 1:
            try:
                self._known.pop(NamespaceName.parse(namespace), None)
            except InvalidName:
                log.warning("ignoring policies of what is no namespace: %s", namespace)


def _bundles_of(namespace: NamespaceName, policies: JsonObject) -> NamespaceBundles:
    try:
        boundaries = (policies.get("bundles") or {}).get("boundaries")
        if not boundaries:
            return NamespaceBundles(namespace, (FULL_RANGE.lower, FULL_RANGE.upper))
        return NamespaceBundles.from_text(namespace, boundaries)
    except (AttributeError, TypeError, InvalidName) as error:
        # Another program wrote them. Clients try again until an administrator has repaired them.
        local, shared = paths.local_policies(namespace), paths.policies(namespace)
        raise BrokerError(
            ServerError.ServiceNotReady,
            f"the bundles of {namespace} cannot be read: {error} (repair 'bundles' in the metadata "
            f"node {local}, or in {shared} if that has none)",
        ) from None
