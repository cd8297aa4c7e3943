"""Where rounds and outcomes are kept."""

from typing import Protocol

from counterpoise.decide.balancing.moves import MoveOutcome, Round, RoundMemory


class History(Protocol):
    """What the balancer needs to remember so that no replay does anything twice."""

    def memory_before(self, poll_id: int) -> RoundMemory:
        """The memory after the latest round that came before this poll."""
        ...

    def is_decided(self, poll_id: int) -> bool:
        """Whether the round of this poll, or a later one, was decided.

        No round is decided behind it: a stream that lost its states folds the past once more.
        """
        ...

    def round(self, poll_id: int) -> Round | None:
        """The round of this poll, when it was decided already."""
        ...

    def cut_off(self) -> Round | None:
        """The latest round, when it was not recorded to its end."""
        ...

    def outcome(self, move_id: str) -> MoveOutcome | None:
        """What became of a move, when that is known already."""
        ...

    def record_round(self, made: Round) -> None:
        """Keep a round before any of its moves is carried out."""
        ...

    def record_outcome(self, outcome: MoveOutcome) -> None:
        """Keep an outcome as soon as it is known."""
        ...

    def record_memory(self, poll_id: int, memory: RoundMemory) -> None:
        """Keep the memory that ends a round."""
        ...
