"""Runs the election machine of `counterpoise.ownership` on a metadata store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from counterpoise.broker import paths
from counterpoise.metadata import (
    BadVersion,
    MetadataStore,
    NodeError,
    Notification,
    SessionEvent,
    StoreUnavailable,
)
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.ownership import election
from counterpoise.ownership.records import LeaderBroker

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Pause before standing again after the store could not be reached."""


class LeaderElection:
    """One broker's part in the election; `leader` is what it knows now."""

    def __init__(
        self, store: MetadataStore, me: LeaderBroker, on_leadership: Callable[[bool], None]
    ) -> None:
        self._store = store
        self._state = election.Election(me)
        self._on_leadership = on_leadership
        self._records: Final = asyncio.Queue[object]()
        self._decided = asyncio.Event()
        self._told = False
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: list[Callable[[], None]] = []

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads."""
        return self._state.role is election.Role.LEADER

    @property
    def leader(self) -> LeaderBroker | None:
        """Who leads, None while nobody is known to."""
        return self._state.leader

    async def start(self) -> None:
        """Take part; returns when a leader is known."""
        self._unsubscribe = [
            self._store.subscribe(self._on_change),
            self._store.subscribe_session(self._on_session),
        ]
        self._records.put_nowait(election.Stand())
        self._task = asyncio.create_task(self._run(), name="leader election")
        await self._decided.wait()

    async def stop(self) -> None:
        """Leave; if this broker led, another one can at once."""
        if self._task is not None:
            self._leave()
            while not self._records.empty():
                self._records.get_nowait()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self._feed(election.Resign())

    def kill(self) -> None:
        """Stop without a word, as a crash would."""
        if self._task is not None:
            self._leave()
            self._task.cancel()
            self._task = None

    def _leave(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def _on_change(self, notification: Notification) -> None:
        if notification.path == paths.LEADER:
            self._records.put_nowait(election.Stand())

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_LOST:
            self._records.put_nowait(election.SessionLost())
        elif event is not SessionEvent.CONNECTION_LOST:
            self._records.put_nowait(election.Stand())

    async def _run(self) -> None:
        while True:
            await self._feed(await self._records.get())

    async def _feed(self, record: object | None) -> None:
        pending = [record]
        while pending:
            if (record := pending.pop(0)) is None:
                continue
            self._state, effects = election.advance(self._state, record)
            for effect in effects:
                try:
                    pending.append(await self._carry_out(effect))
                except StoreUnavailable as error:
                    log.warning("leader election waits for the metadata store: %s", error)
                    asyncio.get_running_loop().call_later(
                        RETRY_S, self._records.put_nowait, election.Stand()
                    )

    async def _carry_out(self, effect: object) -> object | None:
        match effect:
            case election.ReadNode():
                return await self._read()
            case election.CreateNode(value):
                return await self._create(value)
            case election.RemoveNode(version):
                return await self._remove(version)
            case election.Announce(leader, me):
                self._announce(leader, me=me)
        return None

    async def _read(self) -> election.Seen:
        stored = await self._store.get(paths.LEADER)
        if stored is None:
            return election.Seen(None)
        return election.Seen(LeaderBroker.from_json(stored.value), stored.mine, stored.version)

    async def _create(self, value: LeaderBroker) -> object:
        try:
            await self._store.put(
                paths.LEADER, value.to_json(), expected_version=MUST_NOT_EXIST, ephemeral=True
            )
        except BadVersion:
            return election.Beaten()
        return election.Won()

    async def _remove(self, version: int | None) -> object | None:
        # Gone, or somebody else's by now: either way it is not ours any more.
        with contextlib.suppress(NodeError):
            await self._store.delete(paths.LEADER, expected_version=version)
        resigned = self._state.role is election.Role.RESIGNED
        return None if resigned else election.Stand()

    def _announce(self, leader: LeaderBroker | None, *, me: bool) -> None:
        log.info("leader: %s", leader.broker_id if leader else "nobody")
        if leader is not None:
            self._decided.set()
        if me is not self._told:
            self._told = me
            self._on_leadership(me)
