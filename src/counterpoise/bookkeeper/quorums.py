"""The numbers of bookies that store a ledger and each entry."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quorums:
    """How many bookies store a ledger, how many each entry, and how many must have an entry before
    it is acknowledged.

    The defaults are Pulsar's. Raises `ValueError` if they contradict each other.
    """

    ensemble: int = 2
    """How many bookies a ledger's entries are spread over."""
    write: int = 2
    """How many bookies of the ensemble each entry is sent to."""
    ack: int = 2
    """How many of these bookies must have an entry before it is acknowledged. With 1, the loss of
    one disk loses entries."""

    def __post_init__(self) -> None:
        """Raise `ValueError` if the numbers contradict each other."""
        if not 1 <= self.ack <= self.write <= self.ensemble:
            raise ValueError(
                f"ensemble {self.ensemble}, write quorum {self.write} and ack quorum "
                f"{self.ack} are not in descending order from 1 on"
            )


ONE_BOOKIE = Quorums(1, 1, 1)
"""The quorums of a ledger that gets no entries: one bookie suffices."""
