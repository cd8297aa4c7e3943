"""A log on BookKeeper, open for its owner."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Coroutine
from typing import TypeVar

from counterpoise.bookkeeper.client_port import LedgerOver
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.storage.ledger_index import IndexedLedger
from counterpoise.storage.managed.context import ManagedContext
from counterpoise.storage.managed.current_ledger import CurrentLedger
from counterpoise.storage.managed.entries import count_messages
from counterpoise.storage.managed.ledger_chain import LedgerChain
from counterpoise.storage.managed.ledger_reads import LedgerReads
from counterpoise.storage.managed.takeover import TakenOver
from counterpoise.storage.port import (
    EntryGroup,
    LogFencedError,
    LogListener,
    Lost,
    Persistence,
    StorageError,
)
from counterpoise.storage.stored_log import StoredLog

C = TypeVar("C")
_log = logging.getLogger(__name__)

GROUPS_IN_FLIGHT = 64
"""How many groups of entries may be on their way to the bookies at once."""

ABANDON_S = 5.0
"""Seconds for which a released log tries to close its ledgers; the next owner recovers the rest."""

RETRY_S = 10.0
"""Seconds between two attempts to begin a new ledger; meanwhile the full one is written on."""


class ManagedLog(StoredLog[C]):
    """A log in BookKeeper: groups go to the current ledger, entry by entry.

    Several groups are in flight; they are committed in order, as the ledger confirms their entries.
    When the ledger accepts no more entries, for whatever reason, it is closed, a new one is listed,
    and unconfirmed entries are sent again, in order. Only a list written by another owner ends the
    log.
    """

    groups_in_flight = GROUPS_IN_FLIGHT

    def __init__(
        self,
        name: str,
        listener: LogListener[C],
        context: ManagedContext,
        taken: TakenOver,
        persistence: Persistence,
    ) -> None:
        chain = taken.chain
        ledgers = [(each.ledger, each.entries, each.size) for each in chain.closed]
        ledgers.append((chain.current.ledger_id, 0, 0))
        super().__init__(name, listener, ledgers, taken.cursors, context.cache)
        self._context = context
        self._chain: LedgerChain = chain
        self._keeper = taken.keeper
        self._reads = LedgerReads(context.client)
        self._tasks: set[asyncio.Task[None]] = set()
        self._trimmed: set[int] = set()
        self._mark_deletes_per_s = persistence.mark_deletes_per_s
        self._save_timer: asyncio.TimerHandle | None = None
        self._saved_at = -math.inf
        self._saving = asyncio.Lock()
        self._not_before = 0.0
        self._given = 0
        """The current ledger was given the first groups in flight: how many groups, and how many
        entries and bytes they have in all."""
        self._given_entries = 0
        self._given_size = 0
        self._undecided = 0
        """How many of the first entries in flight the ledger that ended may have, unconfirmed."""
        self._is_rolling = False
        chain.current.events = self

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(self, group: EntryGroup[C]) -> None:
        self._give()

    def _give(self) -> None:
        """Send groups in flight that were not sent yet to the current ledger.

        If another ledger has to begin first, nothing is sent until the current one has confirmed
        all entries that it was given.
        """
        while not self._is_rolling and self._given < len(self._submitted):
            if self._chain.current.is_over or self._is_due():
                if self._chain.current.is_over or not self._given:
                    self._is_rolling = True
                    self._keep(self._begin_next())
                return
            super()._begin(self._submitted[self._given])

    def _committed(self) -> int:
        """The number of committed entries of the current ledger."""
        last = self._index.last
        return last.entries if last.ledger_id == self._chain.current.ledger_id else 0

    def _is_due(self) -> bool:
        context, entries, now = self._context, self._committed(), self._context.now()
        size = (self._index.last.size if entries else 0) + self._given_size
        entries += self._given_entries
        if now < self._not_before:
            return False
        age = now - self._chain.current.begun
        return context.options.is_due(entries, size, age, context.ledger_bytes)

    async def _begin_next(self) -> None:
        try:
            await self._roll_over()
        except LogFencedError as error:
            self._fail(error)
        except StorageError as error:
            self._refuse(error)
        except Exception as error:
            _log.exception("%s: the next ledger could not begin", self.name)
            self._refuse(StorageError(f"{self.name}: {error!r}"))
        finally:
            self._is_rolling = False
        self._give()

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
        # Entries that were sent but not confirmed, and that the ledger has nevertheless: another
        # client closed it behind them.
        committed = self._committed()
        found = await chain.settle(ended, committed) - committed
        heads = self._cut_off(min(found, self._undecided), ended.ledger_id)
        adopted = sum(len(each.entries) for each in heads)
        size = self._index.last.size if committed else 0
        size += sum(each.size for each in heads)
        await chain.list_next(following, committed + adopted, size)
        chain.current.events = self
        self._reads.forget([ended.ledger_id])
        self._undecided = 0
        for each in heads:
            # Groups that were refused while the list was written are skipped: their callers got an
            # error.
            if self._submitted and self._submitted[0] is each:
                self._written(each)

    def _cut_off(self, count: int, ledger_id: int) -> list[EntryGroup[C]]:
        """Separate the first ``count`` entries in flight from the rest, as groups of ledger
        ``ledger_id``.

        A group that contains more entries is split in two.
        """
        heads: list[EntryGroup[C]] = []
        at = self._committed()
        while count > 0 and len(heads) < len(self._submitted):
            group = self._submitted[len(heads)]
            if len(group.entries) > count:
                group = self._cut(len(heads), count)
            group.ledger_id, group.first_entry = ledger_id, at
            group.size = sum(map(len, group.entries))
            heads.append(group)
            at, count = at + len(group.entries), count - len(group.entries)
        return heads

    def _cut(self, place: int, count: int) -> EntryGroup[C]:
        """Split a group in flight; returns the first part, which has ``count`` entries."""
        rest, head = self._submitted[place], EntryGroup[C]()
        head.entries, rest.entries = rest.entries[:count], rest.entries[count:]
        head.messages, rest.messages = rest.messages[:count], rest.messages[count:]
        head.contexts, rest.contexts = rest.contexts[:count], rest.contexts[count:]
        self._submitted.insert(place, head)
        return head

    def _place(self, group: EntryGroup[C]) -> tuple[int, int]:
        return self._chain.current.ledger_id, self._committed() + self._given_entries

    def _write(self, group: EntryGroup[C]) -> None:
        ledger = self._chain.current
        group.size = sum(map(len, group.entries))
        try:
            ledger.writer.add(*group.entries)
        except LedgerOver as error:
            ledger.ended(error)
        else:
            self._count_given(group, 1)

    def _count_given(self, group: EntryGroup[C], sign: int) -> None:
        self._given += sign
        self._given_entries += sign * len(group.entries)
        self._given_size += sign * group.size

    def _give_nothing(self) -> None:
        self._given = self._given_entries = self._given_size = 0

    def ledger_confirmed(self, ledger: CurrentLedger, last: int) -> None:
        """Commit the groups whose entries, up to and including ``last``, the ledger confirmed."""
        if ledger is not self._chain.current:
            return
        while self._given:
            group = self._submitted[0]
            if last < group.first_entry + len(group.entries) - 1:
                break
            self._count_given(group, -1)
            self._written(group)
        self._give()

    def ledger_ended(self, ledger: CurrentLedger, error: BookKeeperError) -> None:
        """Continue with a new ledger, since this one accepts no more entries."""
        if ledger is not self._chain.current or self._error is not None:
            return
        _log.warning("%s: ledger %d ended: %s", self.name, ledger.ledger_id, error)
        confirmed = ledger.writer.last_confirmed + 1 - self._committed()
        self._undecided = self._given_entries - confirmed
        self._give_nothing()
        for each in self._cut_off(confirmed, ledger.ledger_id):
            self._written(each)
        self._give()

    def _drop_waiting(self) -> list[C]:
        if self._given:
            # A refused entry may be in the ledger nevertheless: nothing may follow it there.
            self._chain.current.is_over = True
        self._give_nothing()
        self._undecided = 0
        return super()._drop_waiting()

    async def _read(
        self, ledger: IndexedLedger, entry_id: int, max_bytes: int
    ) -> tuple[list[bytes], list[int]]:
        entries = await self._reads.read(ledger, entry_id, max_bytes, self._chain.current)
        return entries, [count_messages(entry) for entry in entries]

    async def _check_mine(self) -> None:
        await self._chain.owned.check_mine()

    def _log_lost(self, lost: Lost) -> None:
        _log.error("%s: %s: no bookie has these entries", self.name, lost)

    def _delete_ledgers(self, ledger_ids: list[int]) -> None:
        self._reads.forget(ledger_ids)
        self._trimmed.update(ledger_ids)
        self._keep(self._trim())

    async def _trim(self) -> None:
        trimmed = set(self._trimmed)
        try:
            # Cursors are saved before the ledgers are deleted, since they have what is known of
            # these ledgers' messages, such as producers' sequence ids.
            await self._persist()
            self._trimmed -= trimmed
            self._chain.drop(trimmed)
            await self._chain.trim()
        except LogFencedError as error:
            self._fail(error)
        except StorageError as error:
            # The ledgers stay listed until the next trim.
            _log.warning("%s: %s", self.name, error)

    def set_persistence(self, persistence: Persistence | None) -> None:
        """Set quorums from the next ledger on, as Pulsar does; the rate of cursor saves at once."""
        chosen = persistence or self._context.options.persistence
        self._chain.quorums = chosen.quorums
        if self._mark_deletes_per_s != chosen.mark_deletes_per_s:
            self._mark_deletes_per_s = chosen.mark_deletes_per_s
            if self._save_timer is not None:
                self._save_timer.cancel()
                self._save_timer = None
                self._state_changed()

    def _state_changed(self) -> None:
        if self._save_timer is None:
            rate = self._mark_deletes_per_s
            due = self._saved_at + 1 / rate if rate else 0.0
            wait = max(0.0, due - self._loop.time())
            self._save_timer = self._loop.call_later(wait, self._save_soon)

    def _save_soon(self) -> None:
        self._save_timer = None
        self._saved_at = self._loop.time()
        if self._error is None and not self._context.is_closed:
            self._keep(self._save_now())

    async def _persist(self) -> None:
        async with self._saving:
            try:
                await self._keeper.save(dict(self._cursors))
            except LogFencedError as error:
                self._fail(error)
                raise

    async def _write_final_state(self) -> None:
        cursors, ledgers = await asyncio.gather(
            self._close_cursors(), self._close_ledgers(), return_exceptions=True
        )
        for found in (cursors, ledgers):
            if isinstance(found, BaseException) and not isinstance(found, LogFencedError):
                raise found
        if cursors is None:
            steps = [self._keeper.discard_unused()]
            if ledgers is True:
                version = self._chain.owned.version
                steps.append(self._context.mark_released(self.name, version))
            await asyncio.gather(*steps)

    async def _close_cursors(self) -> None:
        async with self._saving:
            await self._keeper.close(dict(self._cursors))

    async def _close_ledgers(self) -> bool:
        if self._tasks:
            await asyncio.wait(self._tasks)
        return await self._chain.close(self._committed())

    async def _release(self) -> None:
        if self._save_timer is not None:
            self._save_timer.cancel()
        self._cache.close()
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ABANDON_S):
                await asyncio.gather(self._keeper.abandon(), self._chain.abandon())
