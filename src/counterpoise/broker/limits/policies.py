"""Keeps a broker's rates as policies and settings say, when these change."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from counterpoise.broker.base import paths
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import store_errors_as_not_ready
from counterpoise.broker.limits.groups import GroupSource, ResourceGroupShares
from counterpoise.broker.limits.options import RateOptions
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import TopicRates, rate, rates_of
from counterpoise.metadata import MetadataStore, Notification, SessionEvent
from counterpoise.metadata.listeners import follow
from counterpoise.names.callbacks import NanosecondClock, StopListening
from counterpoise.names.topic import TopicName

_FOLLOWED: Final = tuple(
    f"{each}/" for each in (paths.POLICIES, paths.TOPIC_POLICIES, paths.RESOURCE_GROUPS)
)


class RatePolicies(GroupSource, Protocol):
    """Reads policies and resource groups from the metadata store."""

    async def applied(self, topic: TopicName, cluster: str) -> Mapping[str, Any]:
        """The policies in force for a topic; a partition has those of its partitioned topic."""


class PolicyFollower(Protocol):
    """Applies changes of topics' policies that are not about rates."""

    async def policies_changed(self, names: Iterable[TopicName]) -> None:
        """Called when the policies of these topics may have changed."""


class LimitPolicies:
    """Updates a broker's limits when policies or settings change.

    Changes reported by the store are collected and applied by one task: nothing polls, and a policy
    that is written a hundred times is read once.
    """

    def __init__(
        self,
        broker: str,
        cluster: str,
        store: MetadataStore,
        policies: RatePolicies,
        options: Callable[[], RateOptions],
        *,
        clock_ns: NanosecondClock = time.monotonic_ns,
    ) -> None:
        """``options`` returns the settings in force; call `settings_changed` after a change."""
        self._cluster = cluster
        self._store = store
        self._policies = policies
        self._options = options
        self.publish = PublishLimits(broker, self.rates_of, clock_ns=clock_ns)
        self.groups = ResourceGroupShares(
            broker, store, policies, self.publish, lambda: options().share_interval_s, clock_ns
        )
        self._followers: list[PolicyFollower] = []
        self._changed = asyncio.Event()
        self._paths: set[str | None] = set()
        """Paths of the metadata store that changed; None for everything."""
        self._unsubscribe: StopListening | None = None

    def follow_too(self, follower: PolicyFollower) -> None:
        """Also notify ``follower`` when policies of topics may have changed."""
        self._followers.append(follower)

    def start(self, background: BackgroundTasks) -> None:
        """Set the rates of the whole broker, and apply every change from now on."""
        self._set_broker_rates()
        self._unsubscribe = follow(self._store, self._on_change, self._on_session)
        background.keep("rate limits", self._follow)
        background.keep("resource groups", self.groups.run)

    def _set_broker_rates(self) -> None:
        options = self._options()
        self.publish.set_broker_rate(
            rate(options.broker_publish_messages, options.broker_publish_bytes)
        )
        self.publish.dispatch.set_broker_rate(
            rate(options.broker_dispatch_messages, options.broker_dispatch_bytes)
        )
        self.publish.dispatch.set_counting(
            whole_batches=options.dispatch_whole_batches, caught_up=options.dispatch_caught_up
        )

    def stop(self) -> None:
        """Apply no more changes of policies and settings."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        self.groups.close()
        self.publish.stop()

    def settings_changed(self) -> None:
        """Apply all rates again, since settings have changed."""
        self._note(None)

    async def rates_of(self, topic: TopicName) -> TopicRates:
        """The rates that are in force for a topic now."""
        with store_errors_as_not_ready():
            policies = await self._policies.applied(topic, self._cluster)
            rates = rates_of(policies, self._options())
            if rates.resource_group is not None:
                await self.groups.know(rates.resource_group)
        return rates

    def _on_change(self, notification: Notification) -> None:
        if notification.path.startswith(_FOLLOWED):
            self._note(notification.path)

    def _on_session(self, event: SessionEvent) -> None:
        # Notifications may have been missed; while the store is away it cannot be read.
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            self._note(None)

    def _note(self, path: str | None) -> None:
        self._paths.add(path)
        self._changed.set()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            changed, self._paths = self._paths, set()
            self._changed.clear()
            try:
                await self._take_up(changed)
            except BaseException:
                # The task is started again, and finds what is still to be done.
                self._paths |= changed
                self._changed.set()
                raise

    async def _take_up(self, changed: set[str | None]) -> None:
        if None in changed:
            self._set_broker_rates()
        for group in self.groups.names:
            if None in changed or paths.resource_group(group) in changed:
                await self.groups.refresh(group)
        topics = [
            each
            for each in self.publish.topics
            if None in changed
            or paths.policies(each.name.namespace_name) in changed
            or paths.topic_policies(each.name) in changed
        ]
        await self.publish.refresh(topics)
        for follower in self._followers:
            await follower.policies_changed([each.name for each in topics])
