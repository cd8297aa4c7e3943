"""A subscription's cursor: acknowledgements, saved from time to time."""

import asyncio
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.dispatch.dispatcher import NO_TRANSACTION
from counterpoise.broker.topic.shared_parts import SharedByTopics
from counterpoise.names.callbacks import Notify
from counterpoise.names.topic import TopicName
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import CursorState, LogFencedError, Lost, StorageError
from counterpoise.wire.errors import ServerError

SAVE_WORK = 20
"""How much work of a turn (`DeliveryTurns`) saving a cursor counts as."""

SAVE_SECONDS = 1.0
"""After how many seconds an acknowledgement is saved at the latest; in a crash, messages with later
ones are redelivered."""


class SubscriptionCursor:
    """What a subscription has acknowledged in its topic's log; stored there if it is durable."""

    def __init__(
        self,
        name: str,
        topic: TopicName,
        log: Log[Any],
        acks: AckState,
        properties: Mapping[str, str],
        commons: SharedByTopics,
        on_advanced: Notify,
        *,
        durable: bool,
    ) -> None:
        """``acks``: what is acknowledged already; ``durable``: whether acknowledgements are saved.
        ``on_advanced`` is called from time to time after entries were acknowledged.
        """
        self.name = name
        self.topic = topic
        self.log = log
        self.acks = acks
        self.durable = durable
        self.properties = dict(properties)
        self._on_advanced = on_advanced
        self._commons = commons
        self._dirty = False
        self._curtailed = False
        """Whether the last save may have left out acknowledged ranges."""
        self.closed = False
        """Whether acknowledgements come too late: the cursor is saved for the next owner."""
        self.hidden: AckState | None = None
        """Entries that are never delivered: markers and aborted messages; None: none."""
        self.stable_end = NO_TRANSACTION
        """Index of the first message of an open transaction; nothing is delivered from it on."""

    @property
    def backlog(self) -> int:
        """The number of stored entries that are not acknowledged."""
        return self.acks.backlog(self.log.end)

    def backlog_entry(self, number: int) -> int:
        """The index of the nth unacknowledged entry, from 1; the log's end if there are fewer."""
        return min(self.acks.unacked(number), self.log.end)

    @property
    def last_index(self) -> int:
        """The index of the last entry that may be delivered; before the log's begin if none may."""
        last = min(self.log.end, self.stable_end) - 1
        while self.hidden is not None and last >= self.log.begin and self.hidden.is_acked(last):
            last -= 1
        return last

    def check_open(self) -> None:
        """Raise `BrokerError` if it is closed: what a client asks for now would be lost."""
        if self.closed:
            why = f"Subscription {self.name} was closed meanwhile; subscribe again"
            raise BrokerError(ServerError.ServiceNotReady, why)

    def note(self, properties: Mapping[str, str]) -> None:
        """Replace the properties that users have set on the subscription."""
        self.properties = dict(properties)
        self._touch()
        self.save()

    def pass_over(self, lost: Iterable[Lost]) -> None:
        """Acknowledge entries that were lost: they cannot be delivered."""
        begins = ((self.log.index((it.ledger_id, it.first)), it.entries) for it in lost)
        self.hide((begin, begin + count - 1) for begin, count in begins)

    def hide(self, stretches: Iterable[tuple[int, int]]) -> None:
        """Acknowledge ranges of entries that are never delivered (first and last index each)."""
        changed = False
        for first, last in stretches:
            changed |= self.acks.ack_range(first, last)
        if changed and not self._dirty:
            self._touch()

    async def stored(self) -> None:
        """Wait until its creation, deletion or seek survives this broker; raises `BrokerError`."""
        try:
            if self.durable:
                await self.log.cursors_saved()
        except StorageError as failure:
            is_fenced = isinstance(failure, LogFencedError)
            code = ServerError.ServiceNotReady if is_fenced else ServerError.PersistenceError
            why = f"The subscription could not be saved: {failure}"
            raise BrokerError(code, why) from failure

    async def saved(self) -> None:
        """Save the cursor, and return when it is stored; raises `StorageError`."""
        self._dirty = True
        self.save(whole=True)
        await self.log.cursors_saved()

    def _touch(self) -> None:
        """Save the cursor soon, since it has moved."""
        self._dirty = True
        asyncio.get_running_loop().call_later(SAVE_SECONDS, self._save_in_turn)

    def _save_in_turn(self) -> None:
        """Save, or defer to the next turn if this turn of the loop has saved many already."""
        turns = self._commons.turns
        if turns.left <= 0:
            turns.wait(self._save_in_turn, "saving cursors")
        else:
            turns.spend(SAVE_WORK)
            self.save()

    def save(self, *, whole: bool = False) -> None:
        """Save the cursor in the log if it has changed.

        With ``whole`` every acknowledged range is saved, otherwise a limited number of them.
        """
        if self.closed or not (self._dirty or (whole and self._curtailed)):
            return
        self._dirty = False
        if self.durable:
            self.log.save_cursor(self.cursor_state(whole=whole))
        self._on_advanced()

    def cursor_state(self, *, whole: bool = False) -> CursorState:
        """Return what the topic's next owner needs to continue the subscription.

        With ``whole`` it has all acknowledged ranges, otherwise at most as many as
        ``managedLedgerMaxUnackedRangesToPersist`` says.
        """
        position = self.log.position
        most = None if whole else self._commons.options.saved_ranges
        ranges = tuple((position(a), position(b)) for a, b in islice(self.acks.ranges(), most))
        self._curtailed = len(ranges) == most
        partial = tuple((position(at), tuple(self.acks.ack_set(at))) for at in self.acks.partial)
        return CursorState(self.name, position(self.acks.mark), ranges, self.properties, partial)
