"""A broker as a client of other brokers, to read and write the topics that all of them share."""

from counterpoise.broker.peers.connection import PeerError
from counterpoise.broker.peers.system_topic import (
    SystemTopicLink,
    SystemTopicListener,
    SystemTopicMessage,
)

__all__ = ["PeerError", "SystemTopicLink", "SystemTopicListener", "SystemTopicMessage"]
