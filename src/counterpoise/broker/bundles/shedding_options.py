"""Settings of the shedding that a cluster's leader does by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.shedding.options import (
    AvgOptions,
    OverloadOptions,
    ThresholdOptions,
    TransferOptions,
    UniformOptions,
)
from counterpoise.names.options import option

THRESHOLD_SHEDDER: Final = "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder"

_BALANCE = BalanceOptions()
_AVG = AvgOptions()
_OVERLOAD = OverloadOptions()
_THRESHOLD = ThresholdOptions()
_TRANSFER = TransferOptions()
_UNIFORM = UniformOptions()


@dataclass(frozen=True, slots=True)
class SheddingConfig:
    """Which strategy takes bundles from busy brokers, and the settings of each."""

    strategy: str = option(
        THRESHOLD_SHEDDER,
        conf="loadBalancerLoadSheddingStrategy",
        dynamic=True,
        why="which strategy takes bundles from busy brokers",
    )
    balance: BalanceOptions = _BALANCE
    avg: AvgOptions = _AVG
    overload: OverloadOptions = _OVERLOAD
    threshold: ThresholdOptions = _THRESHOLD
    transfer: TransferOptions = _TRANSFER
    uniform: UniformOptions = _UNIFORM
    own: Any = None
    """The settings of a user's own strategy, where it has any."""

    def options_of(self, kind: type[Any]) -> Any:
        """The settings of one kind; those of an unknown kind have their defaults."""
        known = (self.own, self.avg, self.overload, self.threshold, self.transfer, self.uniform)
        return next((each for each in known if type(each) is kind), None) or kind()
