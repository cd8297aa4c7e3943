"""Ports that no process uses, for tests that have to name them before they start anything."""

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

FIRST, LAST = 20_000, 32_000
"""Below those that a system gives to a process that asks for any (from 32,768 on under Linux)."""
TRIES = 100


def free_ports(count: int = 1) -> int:
    """The first of so many free ports in a row; raises ``OSError`` if there are none."""
    with taken_ports(count) as (first, _):
        return first


@contextmanager
def taken_ports(count: int) -> Iterator[tuple[int, list[socket.socket]]]:
    """The first of so many ports in a row, and the sockets that listen on them during the block.

    Raises ``OSError`` if there are none.
    """
    for _ in range(TRIES):
        # Unseeded, so that tests that run at once do not all look at the same ones.
        first = random.SystemRandom().randrange(FIRST, LAST - count)
        with ExitStack() as held:
            sockets = list[socket.socket]()
            with suppress(OSError):
                for port in range(first, first + count):
                    taken = socket.create_server(("127.0.0.1", port))
                    sockets.append(held.enter_context(taken))
            if len(sockets) == count:
                yield first, sockets
                return
    raise OSError(f"no {count} free ports in a row")
