"""Runs the state machine of the leader election on a metadata store."""

import asyncio
import logging
from typing import Final, Protocol

from counterpoise.broker.bundles.node_commands import execute
from counterpoise.broker.bundles.runner import Runner
from counterpoise.metadata import MetadataStore, Notification, NotificationKind, SessionEvent
from counterpoise.metadata.listeners import follow
from counterpoise.names.callbacks import StopListening
from counterpoise.ownership import election
from counterpoise.ownership.election import LEADER_NODE, Election
from counterpoise.ownership.events import Command, NodeChange, NodeChanged, SessionChanged
from counterpoise.ownership.records import LeaderBroker, record_or_none

log = logging.getLogger(__name__)

RESIGN_WITHIN_S: Final = 5.0
"""How long a stopping leader tries to delete its node; later the node ends with the session."""


class LeadershipListener(Protocol):
    """Is notified of election results."""

    def leader_changed(self, leader: LeaderBroker | None) -> None:
        """Called when the leader has changed; None: there is none."""

    def leadership_changed(self, leads: bool) -> None:
        """Called when this broker became the leader (True), or no longer is (False)."""


class LeaderElection:
    """Takes part in the leader election on behalf of this broker."""

    def __init__(self, store: MetadataStore, me: LeaderBroker) -> None:
        self._store = store
        self._listener: LeadershipListener | None = None
        self._runner: Final[Runner[str, Election]] = Runner(
            new=lambda _: Election(me),
            advance=election.advance,
            forgettable=lambda _: False,
            execute=self._execute,
            changed=self._on_state,
        )
        self._decided = asyncio.Event()
        self._resigned = asyncio.Event()
        self._running = False
        self._unsubscribe: StopListening | None = None

    def report_to(self, listener: LeadershipListener) -> None:
        """Set the only listener of changes of the leader; a second call replaces it."""
        self._listener = listener

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads."""
        return self._runner.state(LEADER_NODE).leads

    @property
    def leader(self) -> LeaderBroker | None:
        """The last known leader; None if there is none."""
        return self._runner.state(LEADER_NODE).leader

    async def ask(self) -> LeaderBroker | None:
        """Read the leader from the metadata store; raises `StoreUnavailable`.

        `leader` may lag behind by the delay of a notification.
        """
        stored = await self._store.get(LEADER_NODE)
        return None if stored is None else record_or_none(LeaderBroker.from_json, stored.value)

    async def start(self) -> None:
        """Join the election; returns when a leader is known."""
        self._running = True
        self._unsubscribe = follow(self._store, self._on_change, self._on_session)
        self._feed(election.JoinElection())
        await self._decided.wait()

    async def stop(self) -> None:
        """Leave the election. If this broker led, another can lead at once."""
        if not self._running:
            return
        self._running = False
        self._feed(election.LeaveElection())
        try:
            async with asyncio.timeout(RESIGN_WITHIN_S):
                await self._resigned.wait()
        except TimeoutError:
            log.warning("leadership ends with the session: the metadata store does not answer")
        self.kill()

    def kill(self) -> None:
        """Stop without leaving the election, as a crash would."""
        self._running = False
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._runner.close()

    def _feed(self, event: object) -> None:
        self._runner.feed(LEADER_NODE, event)

    async def _execute(self, _: str, command: Command) -> object:
        return await execute(self._store, command)

    def _on_change(self, notification: Notification) -> None:
        if notification.path == LEADER_NODE:
            gone = notification.kind is NotificationKind.DELETED
            self._feed(
                NodeChanged(LEADER_NODE, NodeChange.VANISHED if gone else NodeChange.APPEARED)
            )

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_LOST:
            self._feed(election.SessionLost())
        elif event is not SessionEvent.CONNECTION_LOST:
            self._feed(SessionChanged())

    def _on_state(self, _: str, before: Election, after: Election) -> None:
        if after.leader is not None:
            self._decided.set()
        if after.role is election.Role.RESIGNED:
            self._resigned.set()
        if after.leader != before.leader:
            log.info("leader: %s", after.leader.broker_id if after.leader else "none")
            if self._listener is not None:
                self._listener.leader_changed(after.leader)
            taken = after.leader is not None and after.leader.broker_id == after.me.broker_id
            if taken and not after.leads:
                log.warning(
                    "another broker leads under this one's id, %s: set advertisedAddress and the "
                    "ports so that each broker has an id of its own",
                    after.me.broker_id,
                )
        if after.leads is not before.leads and self._listener is not None:
            try:
                self._listener.leadership_changed(after.leads)
            except Exception:
                # A listener that fails must not change who leads.
                log.exception("what follows from leadership failed")
