"""Runs state machines: feeds events to them and carries out the effects that they return.

An event is applied at once. Each `Command` among the effects becomes a task, which goes on if the
code that fed the event is cancelled; its result is fed to the machine as an event. A command that
raises, is cancelled or takes too long results in the event `CommandFailed`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.metadata import MetadataError
from counterpoise.ownership import events

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")


class Runner(Generic[K, S]):
    """Runs state machines of one kind, one for each key, such as a bundle."""

    def __init__(
        self,
        *,
        new: Callable[[K], S],
        advance: Callable[[S, object], tuple[S, events.Effects]],
        forgettable: Callable[[S], bool],
        execute: Callable[[K, events.Command], Awaitable[object]],
        changed: Callable[[K, S, S], None],
        prepare: Callable[[K], Awaitable[None]] | None = None,
        report_release: Callable[[K], Awaitable[None]] | None = None,
    ) -> None:
        """``new`` makes a machine's first state; ``advance`` returns the state after an event, and
        the effects to carry out; ``execute`` carries out a command and returns the result event.

        ``changed`` is called with the state before and after a change, before the effects begin; it
        must not block.

        ``prepare`` carries out `Prepare`, and ``report_release`` `ReportRelease`; neither has a
        result event.

        A state that is ``forgettable`` is not kept: the next event starts from a ``new`` one.
        """
        self._new = new
        self._advance = advance
        self._forgettable = forgettable
        self._execute = execute
        self._changed = changed
        self._prepare = prepare
        self._report_release = report_release
        self._states: Final[dict[K, S]] = {}
        self._events: Final[deque[tuple[K, object]]] = deque()
        self._applying = False
        self._closed = False
        self._timers: Final[dict[K, asyncio.TimerHandle]] = {}
        self._commands: Final = BackgroundTasks()
        self._logged_failures: Final[dict[K, str]] = {}

    def state(self, key: K) -> S:
        """The current state of the machine with this key."""
        found = self._states.get(key)
        return self._new(key) if found is None else found

    def known(self) -> list[K]:
        """The keys of the machines that are not in their initial state, oldest first."""
        return list(self._states)

    def feed(self, key: K, event: object) -> None:
        """Send an event to a machine, after the events before it; ignored once closed."""
        self._events.append((key, event))
        if self._applying:
            return
        self._applying = True
        try:
            while self._events:
                self._apply(*self._events.popleft())
        finally:
            self._applying = False

    def close(self) -> None:
        """Stop all machines. Running commands may still take effect; their results are ignored."""
        self._closed = True
        self._events.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._commands.cancel()

    def _apply(self, key: K, event: object) -> None:
        if self._closed:
            return
        before = self.state(key)
        try:
            after, effects = self._advance(before, event)
        except events.UnexpectedEvent as error:
            log.error("%s: %s; it is left as it is", key, error)
            return
        if self._forgettable(after):
            self._states.pop(key, None)
            self._logged_failures.pop(key, None)
            self._set_timer(key, None)
        else:
            self._states[key] = after
        if after != before:
            self._changed(key, before, after)
        for effect in effects:
            self._begin_effect(key, effect)

    def _begin_effect(self, key: K, effect: object) -> None:
        match effect:
            case events.StartTimer(after_s):
                self._set_timer(key, after_s)
            case events.Command():
                what = f"{key}: {type(effect).__name__}"
                self._commands.start(what, self._run_command(key, effect))
            case events.Prepare() if self._prepare is not None:
                why = "this broker could not prepare"
                self._commands.start(f"{key}: Prepare", self._run_work(key, self._prepare, why))
            case events.ReportRelease() if self._report_release is not None:
                why = "the release could not be reported"
                self._commands.start(
                    f"{key}: ReportRelease", self._run_work(key, self._report_release, why)
                )
            case _:
                raise AssertionError(f"no runner carries out {effect}")

    def _set_timer(self, key: K, after_s: float | None) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if after_s is not None:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(after_s, self._fire, key)

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.feed(key, events.TimerFired())

    async def _run_work(self, key: K, work: Callable[[K], Awaitable[None]], why: str) -> None:
        # ``work`` is called here: a coroutine made earlier would never be awaited if this task is
        # cancelled before it begins.
        try:
            await work(key)
        except Exception as error:
            log.info("%s: %s: %s", key, why, str(error) or type(error).__name__)

    async def _run_command(self, key: K, command: events.Command) -> None:
        result: object
        try:
            async with asyncio.timeout(command.within_s):
                result = await self._execute(key, command)
        except asyncio.CancelledError:
            if self._closed:
                raise
            # Not this task but something that the command waited for was cancelled.
            result = events.CommandFailed("it was cancelled")
        except TimeoutError:
            result = events.CommandFailed(f"no result within {command.within_s:g} s", late=True)
        except MetadataError as error:
            result = events.CommandFailed(str(error))
        except Exception as error:
            log.exception("%s: %s failed in a way it should not", key, type(command).__name__)
            result = events.CommandFailed(f"{type(error).__name__}: {error}")
        if isinstance(result, events.CommandFailed):
            self._log_failure(key, command, result.reason)
        else:
            self._logged_failures.pop(key, None)
        self.feed(key, result)

    def _log_failure(self, key: K, command: events.Command, reason: str) -> None:
        """Log why a command fails, once for consecutive failures."""
        what = f"{type(command).__name__}: {reason}"
        level = logging.DEBUG if self._logged_failures.get(key) == what else logging.WARNING
        log.log(level, "%s: %s", key, what)
        self._logged_failures[key] = what
