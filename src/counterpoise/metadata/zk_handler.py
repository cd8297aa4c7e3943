"""Bounds how long kazoo waits for a ZooKeeper server that takes a connection and does not answer.

Kazoo waits as long as a session lasts. A server that starts is silent for a moment: a client that
connects in that moment would lose its session, although the server serves a second later.
"""

from collections.abc import Sequence
from select import POLLIN, POLLOUT, poll
from socket import socket
from typing import Final

from kazoo.handlers.threading import SequentialThreadingHandler

ANSWER_S: Final = 5.0
"""How many seconds a server may take to accept a session before the client tries another."""


def bounded_handler(answer_s: float) -> SequentialThreadingHandler:
    """Kazoo's handler of threads and sockets, which waits for one socket at most ``answer_s``."""
    handler = SequentialThreadingHandler()
    connect = handler.create_connection

    def select(
        readers: Sequence[socket], writers: Sequence[socket], _: Sequence[socket], timeout: float
    ) -> tuple[list[socket], list[socket], list[socket]]:
        # Kazoo's own makes and closes an epoll object for each wait, which was measured to be a
        # third of what a request costs.
        sockets = poll()
        for each in readers:
            sockets.register(each, POLLIN)
        for each in writers:
            sockets.register(each, POLLOUT)
        # With two sockets kazoo waits for the next event or request, which may take any time.
        alone = len(readers) + len(writers) == 1
        found = sockets.poll(1000 * (min(timeout, answer_s) if alone else timeout))
        ready = {descriptor for descriptor, _ in found}
        return (
            [each for each in readers if each.fileno() in ready],
            [each for each in writers if each.fileno() in ready],
            [],
        )

    def create_connection(*, timeout: float, **how: object) -> object:
        return connect(timeout=min(timeout, answer_s), **how)

    handler.select, handler.create_connection = select, create_connection
    return handler
