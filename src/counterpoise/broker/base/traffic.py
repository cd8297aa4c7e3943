"""The bytes that went through a broker's sockets."""

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """Bytes received and sent on all binary-protocol connections since the broker started."""

    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def total(self) -> int:
        """Bytes in both directions."""
        return self.bytes_in + self.bytes_out
