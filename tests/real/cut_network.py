"""A network that can be cut: a proxy before each server, and a broker that connects by way of it.

`python -m tests.real.cut_network PORT:PROXY,… WORDS…` runs `counterpoise WORDS…` so that its event
loops connect to each PROXY instead of the PORT that BookKeeper's nodes name.
"""

import asyncio
import contextlib
import socket
import sys
import threading
from collections.abc import Mapping
from typing import Any

from counterpoise.app.main import main as counterpoise_main

LOCALHOST = "127.0.0.1"


class CuttableProxy:
    """Forwards connections to a port. While it is cut, bytes are delayed both ways, ends too."""

    def __init__(self, port: int) -> None:
        self.target = port
        self._passes = threading.Event()
        self._passes.set()
        self._listener = socket.create_server((LOCALHOST, 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """From now on nothing gets through."""
        self._passes.clear()

    def heal(self) -> None:
        """What waited gets through, and what follows."""
        self._passes.set()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection((LOCALHOST, self.target))
            except OSError:
                near.close()
                continue
            for here, there in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(here, there), daemon=True).start()

    def _forward(self, here: socket.socket, there: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = here.recv(1 << 16)
                self._passes.wait()
                if not data:
                    break
                there.sendall(data)
        for each in (here, there):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def redirect(ports: Mapping[int, int]) -> None:
    """Have event loops of this process connect to other ports of the loopback address."""
    # A module that is None cannot be imported: uvloop's loops cannot be changed.
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    create = asyncio.BaseEventLoop.create_connection

    async def create_connection(
        self: asyncio.BaseEventLoop, factory: Any, host: Any = None, port: Any = None, **more: Any
    ) -> Any:
        return await create(self, factory, host, ports.get(port, port), **more)

    asyncio.BaseEventLoop.create_connection = create_connection  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    pairs = (each.split(":") for each in sys.argv[1].split(","))
    redirect({int(port): int(proxy) for port, proxy in pairs})
    sys.exit(counterpoise_main(sys.argv[2:]))
