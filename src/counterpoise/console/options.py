"""The options of a console."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.round import Strategy
from counterpoise.security.client import ANONYMOUS, ClientSecurity

Settings = Mapping[str, str]
"""A cluster's settings under broker.conf's names."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How often the console polls a cluster, and for how long it waits."""

    addresses: Sequence[str]
    """Admin URLs, tried in turn."""
    every_s: float = 2.0
    """Seconds between the end of a look and the next."""
    patience_s: float = 4.0
    """Seconds a broker may take for one answer: a page does not wait for who hangs."""
    security: ClientSecurity = ANONYMOUS
    """The credentials that the console shows to brokers, and the certificates that it trusts."""


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Where the console is served, for which cluster, and the rules of its advice."""

    watch: WatchOptions
    strategy: Callable[[Settings], tuple[Strategy, str]]
    """The strategy that settings name, and what is to be said of the choice."""
    drain_rules: Callable[[Settings], DrainRules]
    names: Collection[str] = ()
    """Under which names a browser may ask for it, besides addresses and localhost."""
    backtests: Sequence[str] = field(default_factory=tuple)
    """Files with the results of backtests."""
    history: str = ""
    """The balancer's, in which what is done from a page is kept; empty for none."""
    acts: bool = True
    """Whether a page acts with the console's own credentials until an operator signs in."""
    advise_every_s: float = 10.0
