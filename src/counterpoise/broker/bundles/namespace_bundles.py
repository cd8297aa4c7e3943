"""How namespaces are cut into bundles: read from local policies, kept, changed by splits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from counterpoise.broker.base import paths
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.broker.namespaces.policies.namespaces import bundles_json, local_policies_json
from counterpoise.broker.namespaces.policies.records import JsonObject, read_object, write_object
from counterpoise.metadata import BadVersion, MetadataStore, Notification, SessionEvent
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.names.bundle import FULL_RANGE, NamespaceBundles
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.wire.errors import ServerError

log = logging.getLogger(__name__)

SPLIT_ATTEMPTS: Final = 8
"""Tries of a split against others that change the namespace (``BUNDLE_SPLIT_RETRY_LIMIT`` 7)."""
SPLIT_PAUSE_S: Final = 0.1


class NamespaceBundleCache:
    """The bundles of every namespace that this broker has read (``NamespaceBundleFactory``)."""

    def __init__(self, store: MetadataStore, policies: Policies) -> None:
        self._store = store
        self._policies = policies
        self._known: Final[dict[NamespaceName, NamespaceBundles]] = {}
        self._changes = 0
        self._unsubscribe = (
            store.subscribe(self._on_change),
            store.subscribe_session(self._on_session),
        )

    def close(self) -> None:
        """Stop listening."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def peek(self, namespace: NamespaceName) -> NamespaceBundles | None:
        """A namespace's bundles if they are cached."""
        return self._known.get(namespace)

    async def get(self, namespace: NamespaceName) -> NamespaceBundles:
        """A namespace's bundles; raises `BrokerError` (TopicNotFound) if it does not exist."""
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
        """Change a namespace's bundles by compare-and-set, retried while other writers win.

        Raises what ``change`` raises, or `BadVersion` after `SPLIT_ATTEMPTS` tries.
        """
        await self._read(namespace)
        path = paths.local_policies(namespace)
        for attempt in range(SPLIT_ATTEMPTS):
            stored = await self._store.get(path)
            local = {} if stored is None else read_object(stored.value)
            after = change(_bundles_of(namespace, local))
            value = write_object({**local_policies_json(after), **local, **_cut(after)})
            expected = MUST_NOT_EXIST if stored is None else stored.version
            try:
                await self._store.put(path, value, expected_version=expected)
            except BadVersion:
                if attempt + 1 == SPLIT_ATTEMPTS:
                    raise
                await asyncio.sleep(SPLIT_PAUSE_S)
                continue
            self._changes += 1
            self._known[namespace] = after
            return after
        raise BadVersion(path)

    async def _read(self, namespace: NamespaceName) -> NamespaceBundles:
        if namespace.bound_broker is not None:
            return _bundles_of(namespace, {})
        policies = await self._policies.namespace(namespace)
        if policies is None:
            raise BrokerError(ServerError.TopicNotFound, f"Namespace not found: {namespace}")
        local = await self._policies.local_policies(namespace)
        if local is None:
            # Pulsar copies the bundles once, from the policies that all clusters share.
            bundles = _bundles_of(namespace, policies)
            value = write_object(local_policies_json(bundles))
            path = paths.local_policies(namespace)
            try:
                await self._store.put(path, value, expected_version=MUST_NOT_EXIST)
            except BadVersion:
                stored = await self._store.get(path)
                local = read_object(stored.value) if stored else policies
                bundles = _bundles_of(namespace, local)
            return bundles
        return _bundles_of(namespace, local)

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


def _cut(bundles: NamespaceBundles) -> JsonObject:
    return {"bundles": bundles_json(bundles)}


def _bundles_of(namespace: NamespaceName, policies: JsonObject) -> NamespaceBundles:
    boundaries = (policies.get("bundles") or {}).get("boundaries")
    if not boundaries:
        return NamespaceBundles(namespace, (FULL_RANGE.lower, FULL_RANGE.upper))
    return NamespaceBundles.from_text(namespace, boundaries)
