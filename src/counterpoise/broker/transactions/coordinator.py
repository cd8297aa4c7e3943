"""One transaction coordinator: its table and its log; ends transactions on all participants."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.transactions.coordinator_figures import CoordinatorFigures
from counterpoise.broker.transactions.coordinator_log import CoordinatorLog
from counterpoise.broker.transactions.ports import ParticipantOwner
from counterpoise.broker.transactions.table import (
    CoordinatedTransaction,
    CoordinatorTable,
    Record,
    TransactionState,
)
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import StorageError
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant
from counterpoise.wire.values import TransactionId

_RETRY_S: Final = 0.1
_RETRY_MAX_S: Final = 10.0
_log = logging.getLogger(__name__)


class Coordinator:
    """A transaction coordinator: opens transactions, logs them, and ends each on all topics.

    A logged decision to end is carried out even if the client has gone, and after a crash.
    """

    def __init__(
        self,
        table: CoordinatorTable,
        log: CoordinatorLog,
        participants: ParticipantOwner,
        background: BackgroundTasks,
        clock_ms: MillisecondClock,
        is_owner: Callable[[], bool],  # whether this broker still serves the coordinator
    ) -> None:
        self.table = table
        self.figures = CoordinatorFigures()
        self._log = log
        self._participants = participants
        self._background = background
        self._clock_ms = clock_ms
        self._is_owner = is_owner
        self._ending: dict[int, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    @property
    def is_usable(self) -> bool:
        """Whether this coordinator works; if not, it has to be opened again, here or elsewhere."""
        return not self.closed and self._log.broken is None and self._is_owner()

    @property
    def log(self) -> Log[Any]:
        """The log with this coordinator's records."""
        return self._log.log

    async def resume(self) -> None:
        """Restore the transactions from the log, and go on with those that were being ended."""
        self.figures.recovery_began_ms = self._clock_ms()
        for index, record in await self._log.read():
            self.table.apply(record, index)
        self.figures.recovery_ended_ms = self._clock_ms()
        for transaction in list(self.table.transactions.values()):
            if transaction.state is not TransactionState.OPEN:
                self._finish(transaction)
        self._set_timer()

    async def open(self, timeout_ms: int, owner: str | None) -> TransactionId:
        """Open a transaction, which is aborted after ``timeout_ms``; returns its id."""
        record = self.table.open(self._clock_ms(), timeout_ms, owner)
        await self._write(record)
        self.figures.created += 1
        self._set_timer()
        return TransactionId(self.table.coordinator, record["txn"])

    async def add(
        self,
        transaction: TransactionId,
        topics: tuple[str, ...] = (),
        subscriptions: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Add topics and subscriptions to a transaction."""
        record = self.table.add(transaction, topics, subscriptions)
        if record is not None:
            await self._write(record)

    async def end(self, transaction: TransactionId, *, commit: bool) -> None:
        """Commit or abort a transaction; returns when it has ended on every participant."""
        record = self.table.end(transaction, commit=commit)
        known = self.table.find(transaction)
        if record is not None:
            await self._write(record)
        else:
            # The end may have been requested before: wait until that decision is stored.
            await self.log.drain()
        await asyncio.shield(self._finish(known))

    async def close(self) -> None:
        """Stop; the coordinator's next owner ends the transactions that are open."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._ending.values():
            task.cancel()
        try:
            await self._log.close()
        except StorageError as error:
            _log.info("transaction coordinator %d: %s", self.table.coordinator, error)

    async def _write(self, record: Record) -> None:
        if not self.is_usable:
            raise not_here(self.table.coordinator)
        self.table.apply(record, self.log.end)
        try:
            await self._log.append(record)
        except StorageError as error:
            # Most likely another broker has the coordinator by now: clients look it up again.
            raise not_here(self.table.coordinator, str(error)) from error
        self.figures.records += 1

    def _finish(self, transaction: CoordinatedTransaction) -> asyncio.Task[None]:
        number = transaction.id.number
        task = self._ending.get(number)
        if task is None:
            task = self._ending[number] = self._background.start(
                f"ending transaction {transaction.id}",
                self._end_everywhere(transaction),
                expected=(BrokerError,),
            )
            task.add_done_callback(lambda _: self._ending.pop(number, None))
        return task

    async def _end_everywhere(self, transaction: CoordinatedTransaction) -> None:
        commit = transaction.state is TransactionState.COMMITTING
        await asyncio.gather(
            *(
                self._end_on(transaction.id, commit, topic, name)
                for topic, name in transaction.participants
            )
        )
        await self._write(self.table.ended(transaction.id))
        self.figures.ended(self._clock_ms() - transaction.opened_ms, commit=commit)
        self.log.trim(self.table.kept_from(self.log.end))

    async def _end_on(
        self, transaction: TransactionId, commit: bool, topic: str, subscription: str | None
    ) -> None:
        """End a transaction on a topic or subscription; retried, since the topic may be moving."""
        pause_s = _RETRY_S
        while self.is_usable:
            mark = self.table.low_watermark
            request = EndOnParticipant(0, transaction, commit, mark, topic, subscription)
            try:
                await self._participants.end(request)
            except BrokerError as error:
                _log.info("%s: %s; it is retried in %g s", topic, error, pause_s)
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_MAX_S)
        raise not_here(self.table.coordinator)

    def _set_timer(self) -> None:
        """Set the timer for the open transaction that times out next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        open_ones = (
            it.due_ms
            for it in self.table.transactions.values()
            if it.state is TransactionState.OPEN
        )
        due_ms = min(open_ones, default=None)
        if due_ms is not None and not self.closed:
            wait_s = max(due_ms - self._clock_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._abort_due)

    def _abort_due(self) -> None:
        self._timer = None
        if not self.is_usable:
            return
        now_ms = self._clock_ms()
        for each in list(self.table.transactions.values()):
            if each.state is TransactionState.OPEN and each.due_ms <= now_ms:
                self.figures.timed_out += 1
                self._background.start(
                    f"aborting transaction {each.id}, whose time is over",
                    self.end(each.id, commit=False),
                    expected=(BrokerError,),
                )
        # The tasks have not begun yet, so their transactions are still open: set the timer later.
        asyncio.get_running_loop().call_soon(self._set_timer)


def not_here(coordinator: int, why: str = "") -> BrokerError:
    """The error that makes a client look the coordinator up again."""
    message = f"Transaction coordinator with id {coordinator} not found!"
    return BrokerError(
        ServerError.TransactionCoordinatorNotFound, f"{message} {why}" if why else message
    )
