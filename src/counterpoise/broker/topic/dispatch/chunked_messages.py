"""Messages sent in chunks: a Shared subscription delivers all of one to one consumer."""

from typing import Final

from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.wire.entry import chunk_of

MESSAGES_MAX: Final = 10_000
"""How many messages with chunks still to come are remembered; the oldest is forgotten first."""


class ChunkedMessages:
    """Which consumer gets the chunks of each message under way (``SharedConsumerAssignor``).

    A chunk whose consumer has no permits waits for it; later entries go to other consumers
    meanwhile.
    """

    def __init__(self) -> None:
        self._consumers: dict[int, Recipient] = {}
        """By the hash of a message's id, which its producer makes as long as it likes."""
        self._waiting: dict[Recipient, list[int]] = {}

    def consumer_of(self, entry: bytes, index: int, offered: Recipient) -> Recipient | None:
        """The consumer that has to get this entry now; None if the entry waits for its consumer.

        ``offered`` is a consumer with permits. It gets the entry if that is no chunk, or if no
        chunk of the message was sent to another consumer.
        """
        chunk = chunk_of(entry)
        if chunk is None:
            return offered
        message = hash(chunk.uuid)
        consumer = self._consumers.get(message, offered)
        if consumer is not offered and not consumer.ready:
            self._waiting.setdefault(consumer, []).append(index)
            return None
        if chunk.is_last:
            self._consumers.pop(message, None)
        elif chunk.number == 0:
            self._consumers[message] = consumer
            if len(self._consumers) > MESSAGES_MAX:
                del self._consumers[next(iter(self._consumers))]
        return consumer

    def pop_waiting(self, consumer: Recipient) -> list[int]:
        """The indexes of the entries that wait for this consumer; they wait no longer."""
        return self._waiting.pop(consumer, [])

    def leave(self, consumer: Recipient) -> list[int]:
        """Forget a consumer; returns the indexes of the entries that waited for it."""
        for message in [key for key, each in self._consumers.items() if each is consumer]:
            del self._consumers[message]
        return self.pop_waiting(consumer)
