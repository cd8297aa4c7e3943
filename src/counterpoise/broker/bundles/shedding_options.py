"""Settings of the shedding that a cluster's leader does itself."""

from dataclasses import dataclass, field, make_dataclass
from typing import Any, Final

from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.shedding.option_classes import OPTION_CLASSES
from counterpoise.names.options import option, sections_of

THRESHOLD_SHEDDER: Final = "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder"

_BALANCE = BalanceOptions()
_STRATEGIES: Any = make_dataclass(
    "StrategyOptions",
    [(kind.__name__, kind, field(default=kind())) for kind in OPTION_CLASSES],
    frozen=True,
    slots=True,
)()
"""The settings of every registered strategy: a field for each class of options."""


@dataclass(frozen=True, slots=True)
class SheddingConfig:
    """The leader's shedding strategy, and the settings of every strategy."""

    strategy: str = option(THRESHOLD_SHEDDER, "loadBalancerLoadSheddingStrategy", dynamic=True)
    """The class name of the strategy that chooses the bundles to take from busy brokers."""
    balance: BalanceOptions = _BALANCE
    strategies: Any = _STRATEGIES
    """The settings of each registered strategy."""
    own: Any = None
    """Options made in code: of a strategy that is not registered, or instead of `strategies`."""

    def options_of(self, kind: type[Any]) -> Any:
        """The strategy options that are an instance of ``kind``; defaults if there are none."""
        if type(self.own) is kind:
            return self.own
        sections = {each: name for name, each in sections_of(type(self.strategies))}
        return getattr(self.strategies, sections[kind]) if kind in sections else kind()
