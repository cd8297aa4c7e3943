"""What a console is told when it starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.round import Strategy

Settings = Mapping[str, str]
"""A cluster's settings under broker.conf's names."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How a cluster is looked at."""

    addresses: Sequence[str]
    """Admin URLs, tried in turn."""
    every_s: float = 2.0
    """Seconds between the end of a look and the next."""
    patience_s: float = 4.0
    """Seconds a broker may take for one answer: a page does not wait for who hangs."""
    token: str = ""
    """Shown to the brokers when looking; empty: nothing is."""


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Where the console is served, about what, and by which rules it gives advice."""

    watch: WatchOptions
    strategy: Callable[[Settings], tuple[Strategy, str]]
    """The strategy that settings name, and what is to be said of the choice."""
    drain_rules: Callable[[Settings], DrainRules]
    names: Collection[str] = ()
    """Under which names a browser may ask for it, besides addresses and localhost."""
    history: str = ""
    """URI of a balancer's history; empty: there is none to show."""
    rounds: str = ""
    """File in which a balancer without a history keeps its rounds; empty: there is none."""
    backtests: Sequence[str] = field(default_factory=tuple)
    """Files with the results of backtests."""
    acts: bool = True
    """Whether whoever opens the page may act with the console's own token; otherwise with theirs
    only."""
    advise_every_s: float = 10.0
