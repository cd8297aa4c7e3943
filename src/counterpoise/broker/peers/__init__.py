"""A broker as a client of other brokers: the system topics that all of them read and write."""

from counterpoise.broker.peers.connection import PeerError
from counterpoise.broker.peers.system_topic import (
    SystemTopicLink,
    SystemTopicListener,
    SystemTopicMessage,
)

__all__ = ["PeerError", "SystemTopicLink", "SystemTopicListener", "SystemTopicMessage"]
