"""Pulsar's binary protocol, sans-I/O: bytes to events, answers to bytes, nothing in between."""

from counterpoise.wire.errors import ProtocolError, ServerError
from counterpoise.wire.protocol import ServerProtocol

__all__ = ["ProtocolError", "ServerError", "ServerProtocol"]
