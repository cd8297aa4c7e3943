"""A client's connection to the broker: the asyncio shell around `counterpoise.wire`."""

from counterpoise.broker.connection.connection import Connection
from counterpoise.broker.connection.ports import ConnectionConfig, Services

__all__ = ["Connection", "ConnectionConfig", "Services"]
