"""Fair delivery: how much one turn of the event loop delivers, over all topics."""

import asyncio
import logging
from collections import OrderedDict, deque
from typing import Final

from counterpoise.names.callbacks import Notify

_log = logging.getLogger(__name__)

TURN: Final = 4000
"""The work of one turn: entries examined plus kilobytes sent; it takes some five milliseconds."""
SHARE_MIN: Final = 200
"""The smallest part of a turn's work that is done for one client, however many others there are."""

_Waiting = tuple[Notify, int]


class DeliveryTurns:
    """Divides a broker's time for deliveries among its clients.

    ``left`` is the work that dispatchers may still do in this turn of the event loop. When none is
    left, they wait in a queue for a later turn. So the loop serves everything else in between,
    whatever the backlog and the permits.

    Each client has its own queue, and the queues are served round robin: a client with ten thousand
    subscriptions delays its own, not those of other clients.
    """

    __slots__ = ("_lines", "_renews", "_turn", "left")

    def __init__(self, turn: int = TURN) -> None:
        self._turn = self.left = turn
        self._lines: OrderedDict[object, deque[_Waiting]] = OrderedDict()
        self._renews = False

    def spend(self, entries: int, size: int = 0) -> None:
        """Subtract work done from this turn: entries examined, and bytes sent."""
        self.left -= 1 + entries + (size >> 10)
        if not self._renews:
            self._renews = True
            asyncio.get_running_loop().call_soon(self._renew)

    def wait(self, go_on: Notify, who: object = None, work: int = 0) -> None:
        """Call ``go_on`` in a later turn, since no work is left in this one.

        ``who``: the client in whose queue it waits. ``work`` is spent when it is called.
        """
        line = self._lines.get(who)
        if line is None:
            line = self._lines[who] = deque()
        line.append((go_on, work))

    async def take(self, work: int, who: object = None) -> None:
        """Wait until there is work left in a turn, and subtract ``work`` from it.

        However many callers wait at once, the loop serves everything else in between.
        """
        if self.left > 0 and who not in self._lines:
            self.spend(work)
            return
        turn = asyncio.Event()
        self.wait(turn.set, who, work)
        await turn.wait()

    def _renew(self) -> None:
        self._renews = False
        budget = self._turn
        while budget > 0 and self._lines:
            who = next(iter(self._lines))
            self._lines.move_to_end(who)
            share = self.left = min(budget, max(self._turn // len(self._lines), SHARE_MIN))
            self._serve(self._lines[who])
            if not self._lines[who]:
                del self._lines[who]
            budget -= share - self.left
        self.left = budget

    def _serve(self, line: deque[_Waiting]) -> None:
        while line and self.left > 0:
            go_on, work = line.popleft()
            # Charged before it goes on: what it does may come later, in a task of its own.
            self.spend(work)
            try:
                go_on()
            except Exception:
                # An exception must not keep the other dispatchers from their turn.
                _log.exception("A delivery failed in a way it must not")
