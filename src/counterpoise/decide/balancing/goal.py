"""What a round is for, as every caller asks for it: the leader, the balancer, a plan, a backtest.

`Strategy` (`round.py`) sheds load, `EmptyBroker` (`drain.py`) and `FillBrokers` (`refill.py`) do
what their names say. The way is the same for all: a snapshot and the memory give a round, an
executor carries its moves out, and `RoundMemory.after` takes in their outcomes.
"""

from typing import Protocol

from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.snapshot import ClusterSnapshot


class Goal(Protocol):
    """A purpose with its settings; frozen, so that the same arguments give the same round."""

    @property
    def name(self) -> str:
        """What a round of it is called in the history."""
        ...

    @property
    def placed_by(self) -> str:
        """The placement strategy, or what takes its place."""
        ...

    def plan(self, snapshot: ClusterSnapshot, memory: RoundMemory) -> Round:
        """The round for this snapshot: no clock, no I/O, no randomness of its own."""
        ...
