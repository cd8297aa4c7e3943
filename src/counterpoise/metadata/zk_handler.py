"""Bounds how long kazoo waits for a ZooKeeper server that takes a connection and does not answer.

Kazoo waits as long as a session lasts. A server that starts is silent for a moment: a client that
connects in that moment would lose its session, although the server serves a second later.
"""

from collections.abc import Sequence
from typing import Final

from kazoo.handlers.threading import SequentialThreadingHandler

ANSWER_S: Final = 5.0
"""How long a server may take to answer a new connection before the client tries another."""


def bounded_handler(answer_s: float) -> SequentialThreadingHandler:
    """Kazoo's handler of threads and sockets, which waits for one socket at most ``answer_s``."""
    handler = SequentialThreadingHandler()
    wait, connect = handler.select, handler.create_connection

    def select(
        readers: Sequence[object],
        writers: Sequence[object],
        errors: Sequence[object],
        timeout: float,
    ) -> tuple[list[object], list[object], list[object]]:
        # With two sockets kazoo waits for the next event or request, which may take any time.
        alone = len(readers) + len(writers) == 1
        found: tuple[list[object], list[object], list[object]] = wait(
            readers, writers, errors, min(timeout, answer_s) if alone else timeout
        )
        return found

    def create_connection(*, timeout: float, **how: object) -> object:
        return connect(timeout=min(timeout, answer_s), **how)

    handler.select, handler.create_connection = select, create_connection
    return handler
