"""Ends transactions on the topics of this broker, and on their subscriptions."""

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.broker.topic.transactional import TransactionalTopic
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant


class LocalParticipants:
    """Commits or aborts transactions on topics of this broker, when their coordinator asks."""

    def __init__(self, topics: TopicRegistry) -> None:
        self._topics = topics

    async def end(self, request: EndOnParticipant) -> None:
        """End a transaction on a topic or a subscription; may be repeated.

        Raises `BrokerError`: ServiceNotReady if another broker owns the topic.
        """
        try:
            topic = await self._topics.get(TopicName.parse(request.topic), create=False)
        except BrokerError as error:
            if error.code is not ServerError.TopicNotFound:
                raise
            return
        if isinstance(topic, TransactionalTopic):
            await topic.end_transaction(request)
