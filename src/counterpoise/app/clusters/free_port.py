"""A free port on the loopback address, for a server that needs its number in advance."""

import socket


def free_port() -> int:
    """The number of a TCP port to which no socket is bound at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
    return number
