"""The results of backtests: how even brokers were, against how much load was moved for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trade:
    """The backtest result of one strategy: imbalance against load moved."""

    label: str
    moved: float
    """Load moved ÷ the load of the whole cluster."""
    imbalance: float
    """The largest broker ÷ the mean, averaged over time."""
    moves: int
    thrash: int
    """Moves of a bundle that had moved less than an hour before."""
    best: bool
    """Whether no other trade has less imbalance with less load moved."""

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        star = "; nothing beats it in both" if self.best else ""
        return (
            f"{self.label}: largest broker {self.imbalance:.2f} times the mean, "
            f"{self.moves:,} moves, {self.moved:.1f} times the load moved{star}"
        )
