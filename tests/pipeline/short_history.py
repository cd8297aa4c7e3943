"""A balancer's history that forgets when the process ends."""

from counterpoise.decide.balancing.moves import MoveOutcome, Round, RoundMemory


class ShortHistory:
    """A history in the process's own memory, for clusters that live no longer than the process."""

    def __init__(self) -> None:
        self.rounds: dict[int, Round] = {}
        self.outcomes: dict[str, MoveOutcome] = {}
        self.memories: dict[int, RoundMemory] = {}

    def memory_before(self, poll_id: int) -> RoundMemory:
        """The memory after the latest round that came before this poll."""
        earlier = [poll for poll in self.memories if poll < poll_id]
        return self.memories[max(earlier)] if earlier else RoundMemory()

    def is_decided(self, poll_id: int) -> bool:
        """Whether the round of this poll, or a later one, was decided."""
        return poll_id <= max(self.rounds, default=-1)

    def round(self, poll_id: int) -> Round | None:
        """The round of this poll, when it was decided already."""
        return self.rounds.get(poll_id)

    def cut_off(self) -> Round | None:
        """The latest round, when it was not recorded to its end."""
        newest = max(self.rounds, default=0)
        return None if newest in self.memories else self.rounds.get(newest)

    def outcome(self, move_id: str) -> MoveOutcome | None:
        """What became of a move, when that is known already."""
        return self.outcomes.get(move_id)

    def record_round(self, made: Round) -> None:
        """Keep a round before any of its moves is carried out."""
        self.rounds[made.poll_id] = made

    def record_outcome(self, outcome: MoveOutcome) -> None:
        """Keep an outcome as soon as it is known."""
        self.outcomes[outcome.id] = outcome

    def record_memory(self, poll_id: int, memory: RoundMemory) -> None:
        """Keep the memory that ends a round."""
        self.memories[poll_id] = memory
