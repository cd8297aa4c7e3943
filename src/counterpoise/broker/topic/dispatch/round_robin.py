"""Round robin among recipients that are ready, the best priority first."""

from bisect import bisect_left, bisect_right, insort
from itertools import count

from counterpoise.broker.topic.dispatch.recipient import Recipient


class RoundRobin:
    """Chooses the next consumer of a Shared subscription: in turn, the best priority (lowest
    number) first.

    Within a priority the turn goes in the order in which consumers came, so that one that has just
    joined follows the one that joined before it, as in Pulsar. A consumer that is not ready at its
    turn leaves its queue, and `enter`s again once it is ready. So consumers that wait for permits
    cost nothing at each turn.
    """

    def __init__(self) -> None:
        self._counter = count()
        self._numbers: dict[Recipient, int] = {}
        self._consumers: dict[int, Recipient] = {}
        self._levels: list[int] = []
        self._lines: dict[int, list[int]] = {}
        self._served = -1

    def enter(self, recipient: Recipient) -> None:
        """Put a consumer into the queue of its priority, unless it is there already."""
        number = self._numbers.get(recipient)
        if number is None:
            number = self._numbers[recipient] = next(self._counter)
            self._consumers[number] = recipient
        line = self._lines.get(recipient.priority)
        if line is None:
            line = self._lines[recipient.priority] = []
            insort(self._levels, recipient.priority)
        at = bisect_left(line, number)
        if line[at : at + 1] != [number]:
            line.insert(at, number)

    def leave(self, recipient: Recipient) -> None:
        """Remove a consumer that is detached."""
        number = self._numbers.pop(recipient, None)
        if number is None:
            return
        del self._consumers[number]
        line = self._lines.get(recipient.priority, [])
        at = bisect_left(line, number)
        if line[at : at + 1] == [number]:
            del line[at]
            if not line:
                self._close(recipient.priority)

    def next(self) -> Recipient | None:
        """The next consumer, which is then the last one served; None if none is ready."""
        while self._levels:
            level = self._levels[0]
            line = self._lines[level]
            while line:
                at = bisect_right(line, self._served) % len(line)
                recipient = self._consumers[line[at]]
                if recipient.ready:
                    self._served = line[at]
                    return recipient
                del line[at]
            self._close(level)
        return None

    def _close(self, level: int) -> None:
        del self._lines[level]
        del self._levels[bisect_left(self._levels, level)]
