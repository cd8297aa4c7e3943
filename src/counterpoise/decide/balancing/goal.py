"""The goal of a round, as every caller needs it: the leader, the balancer, a plan, a backtest.

`BalancingStrategy` (`round.py`) sheds load, `EmptyBroker` (`drain.py`) drains a broker, and
`FillBrokers` (`refill.py`) refills some. All are used alike: a snapshot and the memory give a
round, an executor carries its moves out, and `RoundMemory.after` adds their outcomes.
"""

from typing import Protocol

from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.snapshot import ClusterSnapshot


class Goal(Protocol):
    """What a round is meant to achieve: shedding load, draining a broker, or refilling some.

    It contains its settings; equal arguments give equal rounds.
    """

    @property
    def name(self) -> str:
        """The name under which the history records a round of this goal."""
        ...

    @property
    def placed_by(self) -> str:
        """The placement strategy's name for the history, or a phrase in its place."""
        ...

    def plan(self, snapshot: ClusterSnapshot, memory: RoundMemory) -> Round:
        """Plan a round on a snapshot, without a clock, I/O or randomness."""
        ...
