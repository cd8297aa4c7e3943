"""What transaction coordinators call on the rest of the broker."""

from typing import Protocol

from counterpoise.names.topic import TopicName
from counterpoise.wire.events import EndOnParticipant


class ServedTopic(Protocol):
    """What transactions need of a topic that this broker serves."""

    @property
    def is_served(self) -> bool:
        """Whether clients may use the topic on this broker."""


class TopicServer(Protocol):
    """What transactions need of this broker's topic registry."""

    async def get(self, name: TopicName, *, create: bool = True) -> ServedTopic:
        """A topic, loaded if necessary; raises `BrokerError` if this broker does not own it."""


class ParticipantOwner(Protocol):
    """Ends transactions on topics and subscriptions, for coordinators."""

    async def end(self, request: EndOnParticipant) -> None:
        """End a transaction on a topic or a subscription; may be repeated; raises `BrokerError`.

        Succeeds if the topic or subscription does not exist: it has nothing of the transaction.
        """
