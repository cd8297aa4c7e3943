"""The methods of the rest of the broker that transaction coordinators call."""

from __future__ import annotations

from typing import Protocol

from counterpoise.names.topic import TopicName
from counterpoise.wire.events import EndOnParticipant


class ServedTopic(Protocol):
    """A topic that this broker serves."""

    @property
    def is_served(self) -> bool:
        """Whether clients may use it here."""


class TopicServer(Protocol):
    """The topics of this broker."""

    async def get(self, name: TopicName, *, create: bool = True) -> ServedTopic:
        """A topic; raises `BrokerError` if this broker does not own it."""


class ParticipantOwner(Protocol):
    """A broker's topics and subscriptions, as coordinators use them."""

    async def end(self, request: EndOnParticipant) -> None:
        """End a transaction on a topic or a subscription; may be repeated; raises `BrokerError`.

        A topic or subscription that does not exist has nothing of the transaction: a success.
        """
