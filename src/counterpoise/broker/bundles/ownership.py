"""Which bundles this broker owns: runs one lock machine of `counterpoise.ownership` a bundle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, Protocol

from counterpoise.broker import paths
from counterpoise.broker.bundles.nodes import BundleNodes
from counterpoise.metadata import (
    MetadataStore,
    Notification,
    NotificationKind,
    SessionEvent,
    StoreUnavailable,
)
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.ownership import lock as locks
from counterpoise.ownership.records import HandOver, NamespaceEphemeralData

log = logging.getLogger(__name__)


class Drain(Protocol):
    """Closes the topics of a bundle."""

    async def __call__(self, bundle: BundleName, destination: str | None) -> None:
        """Close them and send their clients to a broker, if one is named."""
        ...


class BundleOwnership:
    """The ownership locks of one broker.

    Records of one bundle are taken one after another, each with all that follows from it.
    """

    def __init__(
        self, store: MetadataStore, me: NamespaceEphemeralData, drain: Drain, *, patience_s: float
    ) -> None:
        """``patience_s``: how long a hand-over waits for the successor to take the lock."""
        self._me = me
        self._drain = drain
        self._patience_s = patience_s
        self._locks: Final[dict[BundleName, locks.BundleLock]] = {}
        self._turns: Final[dict[BundleName, asyncio.Lock]] = {}
        self._waiting: Final[dict[BundleName, set[asyncio.Future[None]]]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._nodes = BundleNodes(store, me)
        self._unsubscribe = (
            store.subscribe(self._on_change),
            store.subscribe_session(self._on_session),
        )

    # What others ask.

    def serves(self, bundle: BundleName) -> bool:
        """Whether topics of the bundle may be opened here now."""
        held = self._locks.get(bundle)
        return held is not None and held.serves

    def settling(self, bundle: BundleName) -> bool:
        """Whether it will be known in a moment that the bundle is served here."""
        held = self._locks.get(bundle)
        return held is not None and held.settling

    def owned(self) -> list[BundleName]:
        """The bundles served here, sorted."""
        return sorted(bundle for bundle, held in self._locks.items() if held.serves)

    async def owner(self, bundle: BundleName) -> NamespaceEphemeralData | None:
        """Who holds the lock, by the store's word; raises `StoreUnavailable`."""
        return await self._nodes.owner(bundle)

    async def hand_over(self, bundle: BundleName) -> HandOver | None:
        """Whether the bundle is changing hands, and to whom; raises `StoreUnavailable`."""
        return await self._nodes.hand_over(bundle)

    async def until(
        self, bundle: BundleName, condition: Callable[[], Awaitable[bool]], timeout_s: float
    ) -> bool:
        """Wait until a condition holds, asked again whenever something happens to the bundle."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_s
        while True:
            # Registered before the question: what happens while it is answered wakes us too.
            future = asyncio.get_running_loop().create_future()
            waiting = self._waiting.setdefault(bundle, set())
            waiting.add(future)
            try:
                if await condition():
                    return True
                if clock() >= deadline:
                    return False
                await asyncio.wait([future], timeout=deadline - clock())
            finally:
                waiting.discard(future)

    # What others order.

    async def acquire(self, bundle: BundleName) -> bool:
        """Try to own a bundle; False when somebody else does."""
        await self._feed(bundle, locks.Acquire())
        return self.serves(bundle)

    async def catch_up(self, bundle: BundleName) -> None:
        """Take a bundle over whose hand-over to us we have not heard of yet."""
        hand_over = await self.hand_over(bundle)
        if hand_over is not None and hand_over.destination == self._me.broker_id:
            await self._feed(bundle, locks.Expect())
            # Looked at afterwards: from here on a notification would find the machine waiting.
            if await self.owner(bundle) is None:
                await self._feed(bundle, locks.LockVanished())

    async def release(self, bundle: BundleName, destination: str | None) -> None:
        """Drain a bundle and let go of it, towards a broker if one is named.

        Returns when that broker has it, or has not taken it within the patience there is.
        """
        await self._feed(bundle, locks.Release(destination))
        if destination not in (None, self._me.broker_id):
            await self._await_owner(bundle)
        await self._nodes.withdraw(bundle)

    async def replaced(self, bundle: BundleName) -> None:
        """Let go of a bundle whose parts this broker owns."""
        await self._feed(bundle, locks.Replaced())

    def close(self) -> None:
        """Stop listening and acting; the locks go with the session."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._nodes.close()
        for task in self._tasks:
            task.cancel()

    # How the machine runs.

    async def _feed(self, bundle: BundleName, record: object) -> None:
        async with self._turns.setdefault(bundle, asyncio.Lock()):
            pending: list[object] = [record]
            while pending:
                before = self._locks.get(bundle) or locks.BundleLock(self._me.broker_id)
                after, effects = locks.advance(before, pending.pop(0))
                if after.phase is locks.Phase.FREE:
                    self._locks.pop(bundle, None)
                else:
                    self._locks[bundle] = after
                if after != before:
                    log.debug("%s: %s", bundle, after.phase.value)
                    self._wake(bundle)
                for effect in effects:
                    answer = await self._carry_out(bundle, effect)
                    if answer is not None:
                        pending.append(answer)

    async def _carry_out(self, bundle: BundleName, effect: object) -> object | None:
        match effect:
            case locks.CreateLock():
                return await self._nodes.create(bundle)
            case locks.Announce(destination):
                await self._nodes.announce(bundle, destination)
                return locks.Announced()
            case locks.Withdraw():
                await self._nodes.withdraw(bundle)
            case locks.Drain(destination):
                await self._drain(bundle, destination)
                return locks.Drained()
            case locks.DeleteLock():
                await self._nodes.delete(bundle)
                return locks.LockDeleted()
            case locks.ReadLock():
                return await self._nodes.look(bundle)
            case locks.DropTopics():
                log.warning("%s is owned by another broker now: closing its topics", bundle)
                await self._drain(bundle, None)
        return None

    async def _await_owner(self, bundle: BundleName) -> None:
        async def owned() -> bool:
            return await self.owner(bundle) is not None

        if not await self.until(bundle, owned, self._patience_s):
            log.warning("nobody took %s over; the next lookup places it", bundle)

    # What the store tells.

    def _on_change(self, notification: Notification) -> None:
        gone = notification.kind is NotificationKind.DELETED
        if (bundle := _bundle_below(paths.OWNERSHIP, notification.path)) is not None:
            if gone and bundle in self._locks:
                self._spawn(bundle, locks.LockVanished())
            self._wake(bundle)
        elif (bundle := _bundle_below(paths.HAND_OVERS, notification.path)) is not None:
            if not gone:
                self._start(self._hear_of(bundle))
            elif bundle in self._locks:
                self._spawn(bundle, locks.GiveUp())
            self._wake(bundle)

    async def _hear_of(self, bundle: BundleName) -> None:
        try:
            await self.catch_up(bundle)
        except StoreUnavailable as error:
            log.warning("a hand-over of %s was not read: %s", bundle, error)

    def _on_session(self, event: SessionEvent) -> None:
        if event is not SessionEvent.CONNECTION_LOST:
            for bundle in list(self._locks):
                self._spawn(bundle, locks.Doubt())

    def _spawn(self, bundle: BundleName, record: object) -> None:
        self._start(self._feed(bundle, record))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _wake(self, bundle: BundleName) -> None:
        for future in self._waiting.pop(bundle, ()):
            if not future.done():
                future.set_result(None)


def _bundle_below(parent: str, path: str) -> BundleName | None:
    before, _, name = path.partition(parent + "/")
    if before or name.count("/") != 2:
        return None
    try:
        return BundleName.parse(name)
    except InvalidName:
        log.warning("ignoring what is no bundle: %s", path)
        return None
