"""Ports that no process uses, for tests that have to name them before they start anything."""

import random
import socket
from contextlib import ExitStack, suppress

FIRST, LAST = 20_000, 32_000
"""Below those that a system gives to a process that asks for any (from 32,768 on under Linux)."""
TRIES = 100


def free_ports(count: int = 1) -> int:
    """The first of so many free ports in a row; raises ``OSError`` if there are none."""
    for _ in range(TRIES):
        # Unseeded, so that tests that run at once do not all look at the same ones.
        first = random.SystemRandom().randrange(FIRST, LAST - count)
        with ExitStack() as held, suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise OSError(f"no {count} free ports in a row")
