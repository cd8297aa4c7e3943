"""What a round is for, as every caller asks for it: the leader, the balancer, a plan, a backtest.

`Strategy` (`round.py`) sheds load, `EmptyBroker` (`drain.py`) and `FillBrokers` (`refill.py`) do
what their names say. The way is the same for all: a snapshot and the memory give a round, an
executor carries its moves out, and `RoundMemory.after` takes in their outcomes.
"""

from typing import Protocol

from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.snapshot import ClusterSnapshot


class Goal(Protocol):
    """What a round is meant to achieve, with its settings. Equal arguments give equal rounds."""

    @property
    def name(self) -> str:
        """The name under which the history records a round of this goal."""
        ...

    @property
    def placed_by(self) -> str:
        """What chooses destinations, for the history: a placement strategy's name or a phrase."""
        ...

    def plan(self, snapshot: ClusterSnapshot, memory: RoundMemory) -> Round:
        """Plan a round on a snapshot, without a clock, I/O or randomness."""
        ...
