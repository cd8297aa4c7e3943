"""Closes the topics of a bundle that is released, and prepares those of one that is taken over."""

import contextlib
import logging
from typing import Final

from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.context import BrokerContext
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.broker.topic.ports import ServiceUrls
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.metadata import StoreUnavailable
from counterpoise.names.bundle import BundleName

_log = logging.getLogger(__name__)

PREPARE_S: Final = 0.8
"""For how many seconds a bundle's successor reads its topics' data in advance; the owner waits a
little longer."""


class BundleTopics:
    """The operations on topics that bundle ownership needs.

    Ownership opens and closes topics, so the topic registry is built after bundle ownership and
    `attach`ed here before the broker owns its first bundle.
    """

    def __init__(
        self, context: BrokerContext, bundles: NamespaceBundleCache, registry: BrokerRegistry
    ) -> None:
        self._context = context
        self._bundles = bundles
        self._registry = registry
        self._topics: TopicRegistry

    def attach(self, topics: TopicRegistry) -> None:
        """Set the topic registry whose topics are opened and closed."""
        self._topics = topics

    async def close(self, bundle: BundleName, destination: str | None) -> None:
        """Close a bundle's topics, and redirect their clients to ``destination`` if not None."""
        config, report = self._context.config, None
        if destination is not None and config.ownership.names_owner:
            # If the store does not answer, clients are not redirected; they look the owner up.
            with contextlib.suppress(StoreUnavailable):
                report = await self._registry.report(destination)
        await self._topics.unload_bundle(
            bundle,
            ServiceUrls(
                report.pulsar_service_url,
                report.pulsar_service_url_tls,
                report.advertised_listeners,
            )
            if report
            else None,
            timeout_s=config.namespace_bundle_unloading_timeout_ms / 1000,
        )

    async def prepare(self, bundle: BundleName) -> None:
        """Read ahead what this broker, a bundle's successor, needs to open the bundle's topics.

        The owner serves them meanwhile, and waits.
        """
        names = await self._context.policies.topics(bundle.namespace)
        await self._bundles.get(bundle.namespace)
        mine = [name for name in names if name in bundle]
        if left := await self._topics.prepare(mine, within_s=PREPARE_S):
            message = "%s: in %g s %d of its %d topics were not read ahead, and open more slowly"
            _log.info(message, bundle, PREPARE_S, left, len(mine))
