"""Limits the memory of published messages that wait for storage, over all connections."""

from __future__ import annotations

from counterpoise.broker.connection.pause import PauseReason, ReadingPause


class PublishBuffer:
    """Counts bytes that wait for storage, and pauses reading from the clients that sent them.

    From half of the limit on, a connection is paused if it has at least the average of all
    connections with waiting bytes; at the limit, every connection with a producer is. All are read
    again at a quarter of the limit. So one client that publishes too much to a disk that does not
    respond does not stop clients that publish little, or to other disks.
    """

    def __init__(self, limit: int) -> None:
        """``limit`` is in bytes; 0 for no limit."""
        self._limit = limit
        self._publishers: set[PublishShare] = set()
        self._waiting: set[PublishShare] = set()
        self._paused: set[PublishShare] = set()
        self._full = False
        self.waiting = 0
        """Bytes that wait now, of all connections."""

    @property
    def limit(self) -> int:
        """The limit in bytes; 0 for no limit."""
        return self._limit

    def set_limit(self, limit: int) -> None:
        """Set the limit in bytes; connections that it no longer stops are read again."""
        self._limit = limit
        self._full = bool(limit) and self.waiting >= limit
        if self._full:
            for each in self._publishers:
                self._hold(each)
        elif not limit or self.waiting < limit // 2:
            self._release_all()

    def share(self, pause: ReadingPause) -> PublishShare:
        """Make a new connection's share of the count; ``pause`` pauses reading from it."""
        return PublishShare(self, pause)

    def join(self, share: PublishShare) -> None:
        """Count a connection with its first producer among those that a full buffer pauses.

        Called by `PublishShare`.
        """
        self._publishers.add(share)
        if self._full:
            self._hold(share)

    def leave(self, share: PublishShare) -> None:
        """Forget a closed connection; its waiting bytes still count. Called by `PublishShare`."""
        self._publishers.discard(share)
        self._paused.discard(share)

    def add(self, share: PublishShare, by: int) -> None:
        """Add a connection's waiting bytes (negative: subtract). Called by `PublishShare`."""
        share.waiting += by
        self.waiting += by
        if share.waiting:
            self._waiting.add(share)
        else:
            self._waiting.discard(share)
        if by > 0:
            if self._limit and self.waiting >= self._limit // 2:
                self._grown(share)
        elif self._paused:
            self._shrunk(share)

    def _grown(self, share: PublishShare) -> None:
        """Pause this connection if its share is at least the average; pause all at the limit."""
        if share.waiting * len(self._waiting) >= self.waiting:
            self._hold(share)
        if self.waiting >= self._limit and not self._full:
            self._full = True
            for each in self._publishers:
                self._hold(each)

    def _shrunk(self, share: PublishShare) -> None:
        if self.waiting <= self._limit // 4:
            self._full = False
            self._release_all()
        elif not share.waiting and not self._full and share in self._paused:
            self._paused.remove(share)
            share.pause.release(PauseReason.PUBLISH_BUFFER)

    def _release_all(self) -> None:
        paused, self._paused = self._paused, set()
        for each in paused:
            each.pause.release(PauseReason.PUBLISH_BUFFER)

    def _hold(self, share: PublishShare) -> None:
        self._paused.add(share)
        share.pause.hold(PauseReason.PUBLISH_BUFFER)


class PublishShare:
    """The published bytes of one connection that wait for storage, as part of `PublishBuffer`."""

    __slots__ = ("_buffer", "new", "pause", "waiting")

    def __init__(self, buffer: PublishBuffer, pause: ReadingPause) -> None:
        self._buffer = buffer
        self.pause = pause
        self.waiting = 0
        self.new = 0
        """Bytes accepted since the last `book`; if subtracted before it they never wait."""

    def join(self) -> None:
        """Note that this connection has a producer, so that a full buffer pauses it."""
        self._buffer.join(self)

    def leave(self) -> None:
        """Note that this connection is closed: it is not paused any more."""
        self._buffer.leave(self)

    def book(self) -> None:
        """Count the bytes of entries accepted since the last call as waiting."""
        if self.new:
            self._buffer.add(self, self.new)
            self.new = 0

    def subtract(self, size: int) -> None:
        """Subtract bytes that have been stored or lost."""
        if self.new:
            self.new -= size
        elif size:
            self._buffer.add(self, -size)
