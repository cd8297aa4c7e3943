"""A port of the loopback address for a server that has to be given one."""

import socket


def free_port() -> int:
    """A port that no socket is bound to just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
    return number
