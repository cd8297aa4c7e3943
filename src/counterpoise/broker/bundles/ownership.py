"""The bundles that this broker owns: runs an ownership protocol's state machine for each."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final, Protocol

from counterpoise import metadata
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.node_commands import execute
from counterpoise.broker.bundles.records import record_paths
from counterpoise.broker.bundles.runner import Runner
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.broker.bundles.waiters import BundleWaiters
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.listeners import follow
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.ownership import events
from counterpoise.ownership.port import (
    BundleLocation,
    BundleProtocol,
    BundleState,
    OwnershipOptions,
)
from counterpoise.ownership.records import NamespaceEphemeralData
from counterpoise.ownership.signals import CLOSED, READY, signal_of, signal_path

log = logging.getLogger(__name__)

PATIENCE_S: Final = 5.0
"""Seconds that a client's request waits at most while the ownership of its bundle changes."""

RETRY_S: Final = 1.0
"""Seconds before a retry, after the metadata store did not answer."""


class TopicCloser(Protocol):
    """Closes the topics of a bundle."""

    async def __call__(self, bundle: BundleName, destination: str | None) -> None:
        """Close the topics. Send their clients to ``destination`` if one is named.

        Even if it fails, no client stays attached to a topic of the bundle.
        """


async def _nothing(bundle: BundleName) -> None:
    del bundle


async def _surely() -> bool:
    return True


async def _no_split(_: BundleName, __: Sequence[BundleName]) -> None:
    pass


class BundleOwnership:
    """Which bundles this broker owns, and their changes, under any ownership protocol."""

    def __init__(
        self,
        store: metadata.MetadataStore,
        protocol: BundleProtocol[Any],
        options: OwnershipOptions,
        close_topics: TopicCloser,
        tally: BundleTally | None = None,
        *,
        prepare: Callable[[BundleName], Awaitable[None]] = _nothing,
    ) -> None:
        """``prepare`` is called for a bundle soon owned here, to load what it will need."""
        self._store = store
        self._protocol = protocol
        self._options = options
        self._close_topics = close_topics
        self._prepare = prepare
        self._preparing: Final[set[BundleName]] = set()
        self._tally = tally or BundleTally()
        self._splitting: Final[set[BundleName]] = set()
        """Bundles whose split is being carried out here."""
        self._splits: Final = BackgroundTasks()
        self.on_split: Callable[[BundleName, Sequence[BundleName]], Awaitable[None]] = _no_split
        """Splits a bundle into parts, or completes a split that was begun."""
        self._waiters: Final = BundleWaiters()
        self._values: Final = {
            root: MetadataCache(store, root, lambda value: value) for root in protocol.roots
        }
        self._runner: Final[Runner[BundleName, BundleState]] = Runner(
            new=lambda bundle: protocol.new(str(bundle)),
            advance=protocol.advance,
            forgettable=lambda state: state.forgettable,
            execute=self._execute,
            changed=self._on_state,
            prepare=self._get_ready,
            report_release=lambda bundle: self._signal(CLOSED, bundle),
        )
        self._unsubscribe = follow(store, self._on_change, self._on_session)

    # Queries.

    @property
    def me(self) -> NamespaceEphemeralData:
        """This broker's addresses, as it writes them into locks."""
        return self._options.me

    def serves(self, bundle: BundleName) -> bool:
        """Whether topics of the bundle may be opened here now."""
        return self._runner.state(bundle).serves

    def serves_at_rest(self, bundle: BundleName) -> bool:
        """Whether this broker serves the bundle, and no change of that is under way."""
        state = self._runner.state(bundle)
        return state.serves and not state.in_progress

    def is_undecided(self, bundle: BundleName) -> bool:
        """Whether clients should wait, since it is being decided which broker serves the bundle."""
        return self._runner.state(bundle).undecided

    def taking_over(self, bundle: BundleName) -> bool:
        """Whether this broker owns the bundle while its former owner may still have open topics."""
        return self._runner.state(bundle).taking_over

    def owned(self) -> list[BundleName]:
        """The bundles served here, or whose ownership is being checked; sorted."""
        return sorted(each for each in self._runner.known() if self._runner.state(each).holds)

    async def locate(self, bundle: BundleName) -> BundleLocation:
        """The bundle's owner and successor by the metadata store; raises `StoreUnavailable`."""
        where: BundleLocation | None = None
        try:
            nodes = self._protocol.nodes(str(bundle))
            values = await asyncio.gather(*map(self._value, nodes))
            where = self._protocol.locate(dict(zip(nodes, values, strict=True)))
            return where
        finally:
            self._tally.looked_up(where)

    async def locations(
        self, namespaces: Collection[str] | None = None
    ) -> dict[str, BundleLocation]:
        """Owner and successor of each bundle of these namespaces (None: of all) that has a record.

        Raises `StoreUnavailable`.
        """
        found = {}
        for path, bundle in (await record_paths(self._store, self._protocol, namespaces)).items():
            value = await self._value(path)
            if value is not None:
                found[bundle] = self._protocol.locate({path: value})
        return found

    async def splitting(self, namespaces: Collection[str]) -> list[str]:
        """The bundles of these namespaces that are being split; raises `StoreUnavailable`."""
        found = await self.locations(namespaces)
        return sorted(bundle for bundle, where in found.items() if where.splitting)

    async def until(
        self, bundle: BundleName, condition: Callable[[], Awaitable[bool]], timeout_s: float
    ) -> bool:
        """Wait until a condition holds, which is checked at each event of the bundle.

        Returns whether it holds, after ``timeout_s`` at the latest.
        """
        return await self._waiters.until(bundle, condition, timeout_s)

    # Requests. They are carried out even if their caller is cancelled.

    async def request(
        self, bundle: BundleName, request: events.Request, within_s: float = PATIENCE_S
    ) -> None:
        """Send a request to a bundle's state machine, and wait until it has been carried out.

        Returns after ``within_s`` seconds even if it has not; check `serves` or `locate`
        afterwards.
        """
        self._runner.feed(bundle, request)

        async def at_rest() -> bool:
            return not self._runner.state(bundle).in_progress

        await self.until(bundle, at_rest, within_s)

    @property
    def release_within_s(self) -> float:
        """The longest time that a release takes, in seconds."""
        return self._options.prepare_s + self._options.close_topics_s + self._options.successor_s

    async def acquire(self, bundle: BundleName, *, as_split_part: bool = False) -> bool:
        """Try to own a bundle; returns whether this broker owns it, after `PATIENCE_S` at the
        latest.

        ``as_split_part``: the bundle is part of one that this broker owns.
        """
        await self.request(bundle, events.Acquire(as_split_part=as_split_part))
        return self.serves(bundle)

    async def wait_until_served(
        self, bundle: BundleName, is_released: Callable[[], Awaitable[bool]] = _surely
    ) -> bool:
        """Wait for a transfer of a bundle to this broker, if there is one; returns whether topics
        may be opened here.

        It first reads the bundle's record if necessary. While this broker is `taking_over`,
        ``is_released`` says whether the former owner has closed the client's topic; it is called
        again after `look_again`.
        """
        if self.serves(bundle):
            return True
        self._runner.feed(bundle, events.CheckOwnership())

        async def known() -> bool:
            if self.taking_over(bundle):
                return await is_released()
            return not self.is_undecided(bundle)

        found = await self.until(bundle, known, PATIENCE_S)
        return self.serves(bundle) or (found and self.taking_over(bundle))

    def look_again(self, bundle: BundleName) -> None:
        """Make all calls that wait for this bundle check their conditions again."""
        self._waiters.wake(bundle)

    async def release(self, bundle: BundleName, destination: str | None) -> bool:
        """Close a bundle's topics and release it, to ``destination`` if it is not None.

        Returns when that broker owns the bundle or has taken too long; False at once if this broker
        does not serve the bundle or is splitting it.
        """
        if not self.serves(bundle) or self._runner.state(bundle).split_into:
            return False
        await self.request(bundle, events.Release(destination), self.release_within_s)
        return True

    async def announce_split(self, bundle: BundleName, parts: Iterable[BundleName]) -> bool:
        """Announce a split, if the protocol records splits.

        Returns False if the bundle is not served here. `replaced` or `finish_split` ends an
        announced split.
        """
        if not self._protocol.changes_by_record or not self.serves(bundle):
            return self.serves(bundle)
        self._splitting.add(bundle)
        await self.request(bundle, events.Split(tuple(str(part.range) for part in parts)))
        announced = bool(self._runner.state(bundle).split_into)
        if not announced:
            self._splitting.discard(bundle)
        return announced

    @property
    def changes_by_record(self) -> bool:
        """Whether every change of a bundle is first written into a record that all brokers read.

        If so, a split that has begun can only be finished.
        """
        return self._protocol.changes_by_record

    def finish_split(self, bundle: BundleName) -> None:
        """Finish an announced split in the background."""
        self._splitting.discard(bundle)
        if self._runner.state(bundle).split_into:
            self._splitting.add(bundle)
            self._splits.start(f"finishing the split of {bundle}", self._finish(bundle))

    async def _finish(self, bundle: BundleName) -> None:
        try:
            while ranges := self._runner.state(bundle).split_into:
                parts = [BundleName.parse(f"{bundle.namespace}/{each}") for each in ranges]
                try:
                    await self.on_split(bundle, parts)
                except (BrokerError, metadata.MetadataError, InvalidName) as error:
                    log.warning("%s is split later: %s", bundle, error)
                await asyncio.sleep(RETRY_S)
        finally:
            self._splitting.discard(bundle)

    async def replaced(self, bundle: BundleName) -> None:
        """Release a bundle that has been split; this broker owns its parts."""
        await self.request(bundle, events.SplitCompleted())

    async def resume(self) -> None:
        """Resume the transfers and splits that this broker began before it restarted.

        The leader repairs them only if the broker's session has timed out in between.
        """
        me = self._options.me.broker_id.encode()
        while True:
            try:
                for path in await record_paths(self._store, self._protocol):
                    if me in (await self._value(path) or b""):
                        self._on_change(
                            metadata.Notification(metadata.NotificationKind.MODIFIED, path)
                        )
            except metadata.StoreUnavailable as error:
                log.warning("bundles owned before the restart are read later: %s", error)
                await asyncio.sleep(RETRY_S)
            else:
                return

    def close(self) -> None:
        """Stop listening and acting. Bundles stay owned until this broker's session ends."""
        self._unsubscribe()
        for values in self._values.values():
            values.close()
        self._runner.close()
        self._splits.cancel()

    # How the machines run.

    async def _execute(self, bundle: BundleName, command: events.Command) -> object:
        if isinstance(command, events.CloseTopics):
            await self._close_topics(bundle, command.destination)
            return events.TopicsClosed()
        failed = True
        try:
            answer = await execute(self._store, command)
            failed = False
            return answer
        finally:
            if isinstance(command, events.WriteRecord):
                self._tally.wrote(command.value, failed=failed)
            # The store notifies this broker of its own write only later: forget the old value now.
            if not isinstance(command, events.ReadNode):
                path = getattr(command, "path", "")
                for root, values in self._values.items():
                    if path.startswith(root):
                        values.forget(path)

    async def _get_ready(self, bundle: BundleName) -> None:
        if bundle in self._preparing:
            return
        self._preparing.add(bundle)
        try:
            async with asyncio.timeout(self._options.successor_s):
                await self._prepare(bundle)
            await self._signal(READY, bundle)
        finally:
            self._preparing.discard(bundle)

    async def _signal(self, news: str, bundle: BundleName) -> None:
        path = signal_path(news, str(bundle))
        await self._store.put(path, self._options.me.broker_id.encode(), ephemeral=True)
        await self._store.delete(path)

    async def _value(self, path: str) -> bytes | None:
        root = next(each for each in self._values if path.startswith(each))
        return await self._values[root].get(path)

    def _on_state(self, bundle: BundleName, before: BundleState, after: BundleState) -> None:
        log.debug("%s: %s", bundle, after)
        self._tally.moved_on(before, after)
        if before.holds and not after.holds:
            log.debug("%s is not served here any more", bundle)
        if after.split_into and bundle not in self._splitting:
            # Announced before this broker restarted, or by a broker that is gone.
            self.finish_split(bundle)
        self._waiters.wake(bundle)

    # Notifications of the store.

    def _on_change(self, notification: metadata.Notification) -> None:
        news = signal_of(notification.path)
        name = news[0] if news is not None else self._protocol.bundle_of(notification.path)
        if name is None:
            return
        try:
            bundle = BundleName.parse(name)
        except InvalidName:
            log.warning("ignored a metadata node whose name is no bundle: %s", notification.path)
            return
        known = not self._runner.state(bundle).forgettable
        gone = notification.kind is metadata.NotificationKind.DELETED
        if news is not None:
            if known and not gone:
                self._runner.feed(bundle, news[1])
            return
        change = events.NodeChange.VANISHED if gone else events.NodeChange.APPEARED
        if known or self._protocol.concerns_unknown(notification.path, change):
            self._runner.feed(bundle, events.NodeChanged(notification.path, change))
        self._waiters.wake(bundle)

    def _on_session(self, event: metadata.SessionEvent) -> None:
        if event is not metadata.SessionEvent.CONNECTION_LOST:
            for bundle in self._runner.known():
                self._runner.feed(bundle, events.SessionChanged())
