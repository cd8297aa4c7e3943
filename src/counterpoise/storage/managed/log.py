"""A log on BookKeeper, open for its owner."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Coroutine
from typing import TypeVar

from counterpoise.bookkeeper.client_port import LedgerOver
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.storage.cache import LogCache
from counterpoise.storage.grouplog import GroupLog
from counterpoise.storage.lost_entries import empty_chunk, lost_from, merged
from counterpoise.storage.managed.context import ManagedContext
from counterpoise.storage.managed.current_ledger import CurrentLedger
from counterpoise.storage.managed.entries import count_messages
from counterpoise.storage.managed.ledger_chain import LedgerChain
from counterpoise.storage.managed.ledger_reads import LedgerReads, LostEntries
from counterpoise.storage.managed.takeover import TakenOver
from counterpoise.storage.port import (
    Chunk,
    EntryGroup,
    LogFencedError,
    LogListener,
    Lost,
    StorageError,
)

C = TypeVar("C")
_log = logging.getLogger(__name__)

RETRY_S = 10.0
"""How long a full ledger is written on where no other could be created."""


class ManagedLog(GroupLog[C]):
    """Groups go to the current ledger, an entry of BookKeeper's for each of theirs.

    When it takes no more, whatever the reason, its end is settled, another one is listed, and what
    was not confirmed is sent again, in order. Only another owner's list ends the log.
    """

    def __init__(
        self,
        name: str,
        listener: LogListener[C],
        context: ManagedContext,
        taken: TakenOver,
    ) -> None:
        chain = taken.chain
        ledgers = [(each.ledger, each.entries, each.size) for each in chain.closed]
        ledgers.append((chain.current.ledger_id, 0, 0))
        super().__init__(name, listener, ledgers, taken.cursors)
        self._context = context
        self._chain: LedgerChain = chain
        self._keeper = taken.keeper
        self._reads = LedgerReads(context.client)
        self._cache = LogCache(context.cache)
        self._tasks: set[asyncio.Task[None]] = set()
        self._save_timer: asyncio.TimerHandle | None = None
        self._saved_at = -math.inf
        self._saving = asyncio.Lock()
        self._not_before = 0.0
        #: The group that the current ledger was given, and how many of its entries.
        self._sending: EntryGroup[C] | None = None
        self._given = 0
        #: How many entries at the front of the group in flight the ledger that ended may have.
        self._undecided = 0
        chain.current.events = self

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(self, group: EntryGroup[C]) -> None:
        if self._chain.current.is_over or self._is_due():
            self._keep(self._begin_in_next(group))
        else:
            super()._begin(group)

    def _committed(self) -> int:
        """How many entries of the current ledger are committed."""
        last = self._index.last
        return last.entries if last.ledger_id == self._chain.current.ledger_id else 0

    def _is_due(self) -> bool:
        context, entries, size = self._context, self._committed(), self._index.last.size
        now = context.now()
        if not entries or now < self._not_before:
            return False
        age = now - self._chain.current.begun
        return context.options.is_due(entries, size, age, context.ledger_bytes)

    async def _begin_in_next(self, group: EntryGroup[C]) -> None:
        try:
            await self._roll_over()
        except LogFencedError as error:
            self._fail(error)
        except StorageError as error:
            self._refuse(error)
        except Exception as error:
            _log.exception("%s: the next ledger could not begin", self.name)
            self._refuse(StorageError(f"{self.name}: {error!r}"))
        else:
            if self._submitted is group:
                super()._begin(group)

    async def _roll_over(self) -> None:
        chain, ended = self._chain, self._chain.current
        try:
            following = await chain.create_next()
        except StorageError as error:
            if ended.is_over:
                raise
            self._not_before = self._context.now() + RETRY_S
            _log.warning("%s: %s; ledger %d grows on", self.name, error, ended.ledger_id)
            return
        ended.is_over = True
        # Sent, not confirmed, and stored all the same: another client has closed the ledger there.
        committed = self._committed()
        found = await chain.settle(ended, committed) - committed
        group = self._submitted
        adopted = min(found, self._undecided) if group is not None else 0
        added = sum(map(len, group.entries[:adopted])) if group is not None else 0
        size = self._index.last.size if committed else 0
        await chain.list_next(following, committed + adopted, size + added)
        chain.current.events = self
        self._reads.forget([ended.ledger_id])
        self._undecided = 0
        if self._submitted is group and group is not None and adopted > 0:
            group.ledger_id, group.first_entry = ended.ledger_id, committed
            self._written_first(group, adopted)

    def _written_first(self, group: EntryGroup[C], count: int) -> None:
        """The first entries of a group are stored for good; those that follow are sent again."""
        head: EntryGroup[C] = EntryGroup()
        head.ledger_id, head.first_entry = group.ledger_id, group.first_entry
        head.entries, head.messages = group.entries[:count], group.messages[:count]
        head.contexts = group.contexts[:count]
        again = self._gathering
        again.entries[:0], again.messages[:0] = group.entries[count:], group.messages[count:]
        again.contexts[:0] = group.contexts[count:]
        head.size = sum(map(len, head.entries))
        self._written(head)

    def _place(self, group: EntryGroup[C]) -> tuple[int, int]:
        return self._chain.current.ledger_id, self._committed()

    def _write(self, group: EntryGroup[C]) -> None:
        ledger = self._chain.current
        group.size = sum(map(len, group.entries))
        self._sending, self._given = group, 0
        try:
            for entry in group.entries:
                ledger.writer.add(entry)
                self._given += 1
        except LedgerOver as error:
            ledger.ended(error)

    def ledger_confirmed(self, ledger: CurrentLedger, last: int) -> None:
        """See `LedgerEvents.ledger_confirmed`."""
        group = self._sending
        if (
            ledger is self._chain.current
            and group is not None
            and last >= group.first_entry + len(group.entries) - 1
        ):
            self._sending = None
            self._written(group)

    def ledger_ended(self, ledger: CurrentLedger, error: BookKeeperError) -> None:
        """See `LedgerEvents.ledger_ended`: all goes on in another ledger."""
        if ledger is not self._chain.current or self._error is not None:
            return
        _log.warning("%s: ledger %d ended: %s", self.name, ledger.ledger_id, error)
        group, self._sending = self._sending, None
        if group is None:
            return
        confirmed = max(0, ledger.writer.last_confirmed - group.first_entry + 1)
        self._undecided = self._given - confirmed
        if confirmed:
            self._written_first(group, confirmed)
        else:
            self._begin(group)

    def _drop_waiting(self) -> list[C]:
        self._sending, self._undecided = None, 0
        return super()._drop_waiting()

    def _remember(self, group: EntryGroup[C]) -> None:
        self._cache.add(group)

    @property
    def cached_bytes(self) -> int:
        """See `Log.cached_bytes`."""
        return self._cache.size

    def cached(self, index: int) -> Chunk | None:
        """A chunk of recently written entries that contains ``index``."""
        return self._cache.at(index)

    async def read(self, index: int, max_bytes: int) -> Chunk:
        """Read from bookies."""
        ledger = self._index.holding(index)
        entry_id = index - ledger.base
        if lost := lost_from(self._lost, ledger.ledger_id, entry_id):
            return empty_chunk(index, lost)
        try:
            entries = await self._reads.read(ledger, entry_id, max_bytes, self._chain.current)
        except LostEntries as error:
            # A successor may delete what this log would miss.
            await self._chain.owned.check_mine()
            self._found_lost(error.lost)
            return empty_chunk(index, error.lost.entries)
        return Chunk(index, entries, [count_messages(entry) for entry in entries])

    def _found_lost(self, lost: Lost) -> None:
        before = list(self._lost)
        self._lost = list(merged([*before, lost]))
        if self._lost != before:
            _log.error("%s: %s: no bookie has them any more", self.name, lost)
            self._listener.lost(lost)

    def _delete_ledgers(self, ledger_ids: list[int]) -> None:
        self._reads.forget(ledger_ids)
        self._chain.drop(ledger_ids)
        self._keep(self._trim())

    async def _trim(self) -> None:
        try:
            await self._chain.trim()
        except LogFencedError as error:
            self._fail(error)
        except StorageError as error:
            # They are listed still; the next change of the list leaves them out.
            _log.warning("%s: %s", self.name, error)

    def _state_changed(self) -> None:
        if self._save_timer is None:
            rate = self._context.options.mark_deletes_per_s
            due = self._saved_at + 1 / rate if rate else 0.0
            wait = max(0.0, due - self._loop.time())
            self._save_timer = self._loop.call_later(wait, self._save_soon)

    def _save_soon(self) -> None:
        self._save_timer = None
        self._saved_at = self._loop.time()
        if self._error is None and not self._context.is_closed:
            self._keep(self._save_now())

    async def _save_now(self) -> None:
        try:
            await self._persist()
        except StorageError as error:
            # Nothing acknowledged depends on it: the next change tries again.
            _log.warning("%s", error)

    async def _persist(self) -> None:
        async with self._saving:
            try:
                await self._keeper.save(dict(self._cursors))
            except LogFencedError as error:
                self._fail(error)
                raise

    async def _write_final_state(self) -> None:
        with contextlib.suppress(LogFencedError):
            async with self._saving:
                await self._keeper.close(dict(self._cursors))
            if self._tasks:
                await asyncio.wait(self._tasks)
            if await self._chain.close(self._committed()):
                await self._context.mark_released(self.name, self._chain.owned.version)

    async def _release(self) -> None:
        if self._save_timer is not None:
            self._save_timer.cancel()
        self._cache.close()
        for task in self._tasks:
            task.cancel()
        await self._keeper.abandon()
        await self._chain.abandon()
