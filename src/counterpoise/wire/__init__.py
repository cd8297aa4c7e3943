"""Pulsar's binary protocol without I/O: decodes bytes to events, encodes responses."""

from counterpoise.wire.errors import ProtocolViolationError, ServerError
from counterpoise.wire.protocol import ServerProtocol

__all__ = ["ProtocolViolationError", "ServerError", "ServerProtocol"]
