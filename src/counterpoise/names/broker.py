"""A broker's identity in the cluster: the host and port of its web service."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.errors import InvalidName


@dataclass(frozen=True, slots=True, order=True)
class BrokerId:
    """A broker's id, ``host:webPort``, as brokers register under ``/loadbalance/brokers``."""

    host: str
    port: int

    def __post_init__(self) -> None:
        if not self.host or "/" in self.host:
            raise InvalidName(str(self), "expected host:port, the host must not be empty")
        if not 0 <= self.port <= 65535:
            raise InvalidName(str(self), "the port must be 0 to 65535")

    @staticmethod
    def parse(text: str) -> BrokerId:
        """Parse ``host:port``; raises `InvalidName` for anything else."""
        host, mark, port = text.rpartition(":")
        if not mark or not (port.isascii() and port.isdigit()):
            raise InvalidName(text, "expected host:port")
        return BrokerId(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
