"""Runs machines: feeds records to a table and carries out what follows.

No turn is held across I/O, and nothing belongs to whoever asked. A record is applied at once; each
question that follows becomes a task of the runner's own, and its answer comes back as a record. A
question that raises, is cancelled from within or takes too long is answered with `Failed`: it is
the table that knows what to do then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.metadata import MetadataError
from counterpoise.ownership.machine import Effects, ProtocolError
from counterpoise.ownership.port import Failed, Prepare, Question, TellHeir, WakeMe, Woken

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")


class Runner(Generic[K, S]):
    """Machines of one kind, by key."""

    def __init__(
        self,
        *,
        new: Callable[[K], S],
        advance: Callable[[S, object], tuple[S, Effects]],
        forgettable: Callable[[S], bool],
        ask: Callable[[K, Question], Awaitable[object]],
        changed: Callable[[K, S, S], None],
        prepare: Callable[[K], Awaitable[None]] | None = None,
        tell_heir: Callable[[K], Awaitable[None]] | None = None,
    ) -> None:
        """``changed`` hears of every new state, before its effects begin; it must not block.

        ``prepare`` carries out `Prepare`, and ``tell_heir`` `TellHeir`; however they end, no
        machine hears of it.

        A machine that is ``forgettable`` is not kept: the next record finds a ``new`` one.
        """
        self._new = new
        self._advance = advance
        self._forgettable = forgettable
        self._ask = ask
        self._changed = changed
        self._prepare = prepare
        self._tell_heir = tell_heir
        self._states: Final[dict[K, S]] = {}
        self._records: Final[deque[tuple[K, object]]] = deque()
        self._applying = False
        self._closed = False
        self._alarms: Final[dict[K, asyncio.TimerHandle]] = {}
        self._questions: Final = BackgroundTasks()
        self._complaints: Final[dict[K, str]] = {}

    def state(self, key: K) -> S:
        """What the machine knows now."""
        found = self._states.get(key)
        return self._new(key) if found is None else found

    def known(self) -> list[K]:
        """The keys of the machines that are kept, in order of their beginning."""
        return list(self._states)

    def feed(self, key: K, record: object) -> None:
        """Apply a record, after those that are being applied; does nothing once closed."""
        self._records.append((key, record))
        if self._applying:
            return
        self._applying = True
        try:
            while self._records:
                self._apply(*self._records.popleft())
        finally:
            self._applying = False

    def close(self) -> None:
        """Stop acting. What was asked may still happen, its answer is not waited for."""
        self._closed = True
        self._records.clear()
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()
        self._questions.cancel()

    def _apply(self, key: K, record: object) -> None:
        if self._closed:
            return
        before = self.state(key)
        try:
            after, effects = self._advance(before, record)
        except ProtocolError as error:
            log.error("%s: %s; it is left as it is", key, error)
            return
        if self._forgettable(after):
            self._states.pop(key, None)
            self._complaints.pop(key, None)
            self._wake(key, None)
        else:
            self._states[key] = after
        if after != before:
            self._changed(key, before, after)
        for effect in effects:
            self._begin(key, effect)

    def _begin(self, key: K, effect: object) -> None:
        match effect:
            case WakeMe(after_s):
                self._wake(key, after_s)
            case Question():
                what = f"{key}: {type(effect).__name__}"
                self._questions.start(what, self._put(key, effect))
            case Prepare() if self._prepare is not None:
                why = "it is not prepared"
                self._questions.start(f"{key}: Prepare", self._try(key, self._prepare, why))
            case TellHeir() if self._tell_heir is not None:
                why = "its heir is not told"
                self._questions.start(f"{key}: TellHeir", self._try(key, self._tell_heir, why))
            case _:
                raise AssertionError(f"no runner carries out {effect}")

    def _wake(self, key: K, after_s: float | None) -> None:
        if (alarm := self._alarms.pop(key, None)) is not None:
            alarm.cancel()
        if after_s is not None:
            loop = asyncio.get_running_loop()
            self._alarms[key] = loop.call_later(after_s, self._ring, key)

    def _ring(self, key: K) -> None:
        self._alarms.pop(key, None)
        self.feed(key, Woken())

    async def _try(self, key: K, work: Callable[[K], Awaitable[None]], why: str) -> None:
        # Called here and not before: what is cancelled before it began has left nothing unawaited.
        try:
            await work(key)
        except Exception as error:
            log.info("%s: %s: %s", key, why, str(error) or type(error).__name__)

    async def _put(self, key: K, question: Question) -> None:
        answer: object
        try:
            async with asyncio.timeout(question.within_s):
                answer = await self._ask(key, question)
        except asyncio.CancelledError:
            if self._closed:
                raise
            # Whatever it waited for was cancelled by somebody else.
            answer = Failed("it was cancelled")
        except TimeoutError:
            answer = Failed(f"no answer within {question.within_s:g} s", late=True)
        except MetadataError as error:
            answer = Failed(str(error))
        except Exception as error:
            log.exception("%s: %s failed in a way it should not", key, type(question).__name__)
            answer = Failed(f"{type(error).__name__}: {error}")
        if isinstance(answer, Failed):
            self._complain(key, question, answer.reason)
        else:
            self._complaints.pop(key, None)
        self.feed(key, answer)

    def _complain(self, key: K, question: Question, reason: str) -> None:
        """Say once why something does not go on, not at every try."""
        what = f"{type(question).__name__}: {reason}"
        level = logging.DEBUG if self._complaints.get(key) == what else logging.WARNING
        log.log(level, "%s: %s", key, what)
        self._complaints[key] = what
