"""Brokers with a fault, so that each judge is seen to find one: ``… planted FAULT broker …``.

The fault shows when a client looks up a topic whose name has the word "attacked" in it.
"""

import asyncio
import logging
import os
import sys
import time
from typing import Any

from counterpoise.app.main import main
from counterpoise.broker.connection.consumers import ClientConsumers
from counterpoise.broker.connection.producers import ClientProducers
from counterpoise.broker.connection.topic_queries import TopicQueries

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
    def end(self: ClientProducers, _: Any) -> None:
        # Private: a fault that is planted in a broker.
        self._link.outbox._transport.abort()

    ClientProducers.open = end  # type: ignore[method-assign]


def _repeat() -> None:
    deliver = ClientConsumers.deliver

    def twice(self: ClientConsumers, *what: Any) -> None:
        deliver(self, *what)
        deliver(self, *what)

    ClientConsumers.deliver = twice  # type: ignore[method-assign]
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
_lookup = TopicQueries.lookup


def _plant(fault: str) -> None:
    """Let lookups show the fault; without one they are as they were."""

    def lookup(self: TopicQueries, event: Any) -> Any:
        if "attacked" in event.topic:
            FAULTS[fault]()
        return _lookup(self, event)

    TopicQueries.lookup = lookup if fault else _lookup  # type: ignore[method-assign]


if __name__ == "__main__":
    _plant(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
