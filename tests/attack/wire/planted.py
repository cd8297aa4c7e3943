"""Brokers with a fault, so that each judge is seen to bark: ``… planted FAULT broker …``.

The fault shows when a client looks up a topic whose name has the word "attacked" in it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from typing import Any

from counterpoise.app.main import main
from counterpoise.broker.connection.consuming import Consuming
from counterpoise.broker.connection.finding import Finding
from counterpoise.broker.connection.producing import Producing

_kept: list[bytes] = []


def _stall() -> None:
    time.sleep(1.5)
    _plant("")


def _leak() -> None:
    if not _kept:
        _kept.append(os.urandom(400 << 20))


def _traceback() -> None:
    try:
        raise ValueError("planted")
    except ValueError:
        logging.getLogger("planted").exception("a fault")


def _unseen() -> None:
    async def fail() -> None:
        raise ValueError("planted")

    asyncio.get_running_loop().create_task(fail())


def _die() -> None:
    os._exit(3)


def _hang_up() -> None:
    def end(self: Producing, _: Any) -> None:
        self._link.outbox._transport.abort()

    Producing.open = end  # type: ignore[method-assign]


def _repeat() -> None:
    deliver = Consuming.deliver

    def twice(self: Consuming, *what: Any) -> None:
        deliver(self, *what)
        deliver(self, *what)

    Consuming.deliver = twice  # type: ignore[method-assign]
    _plant("")


FAULTS = {
    "gap": _stall,
    "memory": _leak,
    "traceback": _traceback,
    "never retrieved": _unseen,
    "dead": _die,
    "afterwards": _hang_up,
    "bystander": _repeat,
}
_lookup = Finding.lookup


def _plant(fault: str) -> None:
    """Let lookups show the fault; without one they are as they were."""

    def lookup(self: Finding, event: Any) -> None:
        if "attacked" in event.topic:
            FAULTS[fault]()
        _lookup(self, event)

    Finding.lookup = lookup if fault else _lookup  # type: ignore[method-assign]


if __name__ == "__main__":
    _plant(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
