"""Round robin among recipients that are ready, the best priority first."""

from bisect import bisect_left, insort
from collections import OrderedDict

from counterpoise.broker.topic.dispatch.recipient import Recipient


class RoundRobin:
    """Chooses the next consumer of a Shared subscription: in turn, the best priority (lowest
    number) first.

    A consumer that is not ready at its turn leaves its queue, and `enter`s again once it is ready.
    So a turn costs the same, however many others wait for permits.
    """

    def __init__(self) -> None:
        self._levels: list[int] = []
        self._lines: dict[int, OrderedDict[Recipient, None]] = {}

    def enter(self, recipient: Recipient) -> None:
        """Append a consumer to the queue of its priority, unless it is there already."""
        line = self._lines.get(recipient.priority)
        if line is None:
            line = self._lines[recipient.priority] = OrderedDict()
            insort(self._levels, recipient.priority)
        line.setdefault(recipient)

    def leave(self, recipient: Recipient) -> None:
        """Remove a consumer from its queue, if it is in it."""
        line = self._lines.get(recipient.priority)
        if line is not None:
            line.pop(recipient, None)
            if not line:
                self._close(recipient.priority)

    def next(self) -> Recipient | None:
        """The next consumer, which moves to the end of its queue; None if none is ready."""
        while self._levels:
            level = self._levels[0]
            line = self._lines[level]
            while line:
                recipient = next(iter(line))
                if recipient.ready:
                    line.move_to_end(recipient)
                    return recipient
                del line[recipient]
            self._close(level)
        return None

    def _close(self, level: int) -> None:
        del self._lines[level]
        del self._levels[bisect_left(self._levels, level)]
