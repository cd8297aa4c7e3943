"""Pulsar's binary protocol, sans-I/O: bytes to events, answers to bytes, nothing in between."""

from counterpoise.wire.errors import ProtocolViolationError, ServerError
from counterpoise.wire.protocol import ServerProtocol

__all__ = ["ProtocolViolationError", "ServerError", "ServerProtocol"]
