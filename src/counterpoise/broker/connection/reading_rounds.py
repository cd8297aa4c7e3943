"""Fair reading: how long a broker serves one connection before the others get their turn."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from counterpoise.names.callbacks import Notify

T = TypeVar("T")

_log = logging.getLogger(__name__)

TURN_S: Final = 0.005
"""For how many seconds one connection is served before the others have their turn.

This is processor time. By the wall clock, turns on a busy machine would also include time in which
this thread did not run: they, and group commits, would be smaller, and no client would be served
sooner."""

ROUND_S: Final = 0.02
"""After how many seconds of serving connections the event loop checks its sockets again."""
REQUEST_S: Final = 0.0001
"""How many seconds of a round a request is charged: it begins in a turn and is served later."""

SHARE_MIN: Final = 1 / 32
"""The smallest fraction of a full turn, however many connections wait: a turn itself costs time."""
_AT_ONCE: Final = ROUND_S / TURN_S


class ReadingRounds:
    """Divides a broker's time for reading among its connections.

    ``left`` is the rest of this round, in seconds. A client's turn is short, but a thousand clients
    may want one. Once the round's time is used up, connections that want to read wait in a queue
    for the next round, and the event loop does its other work first. So a client that sends little
    gets its turn beside many that send much.
    """

    __slots__ = ("_line", "_renews", "left")

    def __init__(self) -> None:
        self.left = ROUND_S
        self._line: deque[Notify] = deque()
        self._renews = False

    @property
    def share(self) -> float:
        """The fraction of a full turn that a connection gets now: less, the more of them wait."""
        return max(_AT_ONCE / (_AT_ONCE + len(self._line)), SHARE_MIN)

    def spend(self, seconds: float) -> None:
        """Subtract the seconds that a turn took from this round."""
        self.left -= seconds
        self._renew_soon()

    def wait(self, take_turn: Notify) -> None:
        """Call ``take_turn`` in a later round, after those already waiting."""
        self._line.append(take_turn)
        self._renew_soon()

    def _renew_soon(self) -> None:
        if not self._renews:
            self._renews = True
            asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        self._renews = False
        self.left = ROUND_S
        # Only those that wait now: a connection that asks for another turn in its turn gets it in
        # the next round.
        for _ in range(len(self._line)):
            if self.left <= 0:
                break
            try:
                self._line.popleft()()
            except Exception:
                _log.exception("A connection's turn failed in a way it must not")


def one_by_one(leaving: deque[T], close: Callable[[T], None]) -> None:
    """Call ``close`` for each producer or consumer that is leaving, some in each turn of the loop.

    With many, all of them would take seconds. An exception does not keep the rest from being
    closed.
    """
    ends = time.thread_time() + TURN_S
    try:
        while leaving and time.thread_time() < ends:
            close(leaving.popleft())
    finally:
        if leaving:
            asyncio.get_running_loop().call_soon(one_by_one, leaving, close)
