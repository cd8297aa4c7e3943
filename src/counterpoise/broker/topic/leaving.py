"""Closes many topics at once, and says of one that it is being deleted."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.ports import ServiceUrls
from counterpoise.broker.topic.topic import Topic
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError

_log = logging.getLogger(__name__)

CLOSING_MAX: Final = 500
"""How many topics without consumers close at a time. More are no quicker, and all that ten thousand
need meanwhile is a second's work for the garbage collector."""
DELETION_S: Final = 5.0
"""How long a client that opens a topic waits for the end of its deletion. One that is refused tries
again, but the C++ and Python clients take a consumer that they have not created yet for connected
and let it wait until it times out."""


async def leave_all(topics: Sequence[Topic], assigned_broker_url: ServiceUrls | None) -> None:
    """Close topics: those with consumers all at once, the others `CLOSING_MAX` at a time.

    ``assigned_broker_url`` is where clients are redirected; None: they look up again.
    """

    for topic in topics:
        topic.leaving = True

    async def close(some: Iterable[Topic]) -> None:
        for topic in some:
            try:
                await topic.leave(assigned_broker_url)
            except Exception as error:
                _log.warning("%s did not close in order: %s", topic.name, error)

    consumed = [topic for topic in topics if topic.has_consumers]
    others = iter([topic for topic in topics if not topic.has_consumers])
    closing = min(CLOSING_MAX, len(topics))
    await asyncio.gather(
        *(close([each]) for each in consumed), *(close(others) for _ in range(closing))
    )


def being_deleted(name: TopicName) -> BrokerError:
    """The error for a client that asks for a topic whose deletion is under way."""
    return BrokerError(ServerError.ServiceNotReady, f"Topic {name} is being deleted")
