"""A port on the loopback address, kept for a server that needs its number in advance."""

import socket
import sys

from counterpoise.app.errors import UserError


class ReservedPort:
    """A TCP port that the system does not assign as a free port until it is released.

    A socket is bound to it and does not listen. Linux lets a server that sets ``SO_REUSEADDR``, as
    Java's do, bind and listen beside it, so the port stays reserved while the server is restarted.
    Other systems would refuse the server, so there the port is released at once: it is only a port
    that was free.
    """

    def __init__(self, number: int = 0) -> None:
        """Reserve this port, or with 0 a free one; raises `UserError` if another process has it."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", number))
        except OSError:
            self._socket.close()
            raise UserError(
                f"port {number} of 127.0.0.1 is in use: end the process that has it."
            ) from None
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self.release()

    def release(self) -> None:
        """Let other processes have the port."""
        self._socket.close()
