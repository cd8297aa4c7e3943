"""Asks brokers that timed out in their own time, so that they do not delay every poll.

A broker that timed out delays that one poll, which records a gap. From then on a poll does not wait
for it, and its response counts for the next poll. Once it responds in half of the time-out, polls
wait for it again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from counterpoise.load.poll_rows import Fetched, Gap
from counterpoise.names.callbacks import MillisecondClock

AT_LEAST_S = 1.0
"""A poll waits at least so many seconds for such a broker, even if all others are quicker."""


@dataclass(frozen=True, slots=True)
class Hung:
    """Stands for the answer of a broker that did not respond within the time-out."""

    reason: str
    until_asked: str = "no answer yet: it hung, and is asked beside the others"
    """Why later polls have no report of this broker, until it has responded."""


Ask = Callable[[str], Awaitable[Fetched | Hung]]
"""Asks the broker with this id for its report."""


@dataclass(slots=True)
class _Asked:
    """The pending request to a broker that timed out, since when, and why it was asked."""

    task: asyncio.Task[Fetched | Hung]
    since: float
    before: Hung
    took: float = field(default=float("inf"))


class Beside:
    """Asks brokers that timed out, independently of the polls."""

    def __init__(self, ask: Ask, timeout_s: float, clock_ms: MillisecondClock) -> None:
        self._ask = ask
        self._timeout_s = timeout_s
        self._clock_ms = clock_ms
        self._asked: dict[str, _Asked] = {}

    def __contains__(self, broker: str) -> bool:
        return broker in self._asked

    def keep(self, brokers: Collection[str]) -> None:
        """Cancel the requests to all brokers that are not among ``brokers``."""
        for broker in self._asked.keys() - set(brokers):
            self._asked.pop(broker).task.cancel()

    def hung(self, broker: str, hung: Hung) -> Fetched:
        """From now on ask this broker beside the polls; returns its gap for this poll."""
        self._begin(broker, hung)
        return self._gap(broker, hung.reason)

    async def answers(self, began: float) -> list[Fetched]:
        """The responses of the brokers asked here, or a gap for each that has not responded yet.

        `began` is when the poll began, by the event loop's clock: responses are awaited for a
        minimum time from then.
        """
        loop = asyncio.get_running_loop()
        open_ = {each.task for each in self._asked.values() if not each.task.done()}
        left = began + AT_LEAST_S - loop.time()
        if open_ and left > 0:
            await asyncio.wait(open_, timeout=left)
        return [self._answer(broker) for broker in sorted(self._asked)]

    def _answer(self, broker: str) -> Fetched:
        query = self._asked[broker]
        if not query.task.done():
            return self._gap(broker, query.before.until_asked)
        answer = query.task.result()
        if isinstance(answer, Hung):
            return self.hung(broker, answer)
        if query.took <= self._timeout_s / 2:
            del self._asked[broker]
        else:
            self._begin(broker, query.before)
        return answer

    def _begin(self, broker: str, before: Hung) -> None:
        clock = asyncio.get_running_loop().time

        async def ask() -> Fetched | Hung:
            try:
                return await self._ask(broker)
            finally:
                query.took = clock() - query.since

        query = self._asked[broker] = _Asked(asyncio.ensure_future(ask()), clock(), before)

    def _gap(self, broker: str, reason: str) -> Fetched:
        return Fetched(broker, self._clock_ms(), Gap(reason))
