"""The options of a console."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.security.client import ANONYMOUS, ClientSecurity

Settings = Mapping[str, str]
"""A cluster's settings under broker.conf's names."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How often the console polls a cluster, and for how long it waits."""

    addresses: Sequence[str]
    """Admin URLs, tried in turn."""
    every_s: float = 2.0
    """Seconds from the end of a poll to the next one."""
    patience_s: float = 4.0
    """Seconds that a broker may take for one answer, so that one that hangs delays no page."""
    security: ClientSecurity = ANONYMOUS
    """The credentials that the console presents to brokers, and the certificates it trusts."""


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Where the console is served, for which cluster, and the rules of its advice."""

    watch: WatchOptions
    strategy: Callable[[Settings], tuple[BalancingStrategy, str]]
    """Returns the strategy for advice by the cluster's settings, and a sentence on the choice."""
    drain_rules: Callable[[Settings], DrainRules]
    """Returns the rules for draining a broker by the cluster's settings."""
    names: Collection[str] = ()
    """Host names under which browsers may request it, besides IP addresses and localhost."""
    backtests: Sequence[str] = field(default_factory=tuple)
    """Files with the results of backtests."""
    history: str = ""
    """The path or URI of the balancer's history, in which operators' actions are recorded, too;
    empty for none."""
    acts: bool = True
    """Whether a page uses the console's own credentials until an operator signs in; otherwise
    it presents none."""
    advise_every_s: float = 10.0
    """Seconds between two rounds of advice."""
