"""The data that the parts of one open page share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from counterpoise.console.actions import Actions
from counterpoise.console.balancer_rounds import BalancerRounds
from counterpoise.console.cluster_watch import ClusterWatch
from counterpoise.console.options import ConsoleOptions
from counterpoise.console.roles import Operator
from counterpoise.names.callbacks import MillisecondClock, Notify, SentenceSink
from counterpoise.picture.cluster_picture import ClusterPicture
from counterpoise.picture.trades import Trade
from counterpoise.picture.treemap import Area, Tile, TileKind, treemap


@dataclass(frozen=True, slots=True)
class Sources:
    """What all open pages share: the polls, the actions, the balancer's rounds, backtests."""

    watch: ClusterWatch
    actions: Actions
    rounds: BalancerRounds
    trades: Callable[[], Sequence[tuple[str, Sequence[Trade]]]]
    """Returns the results of backtests: for each file its name and its `Trade` objects."""
    clock_ms: MillisecondClock

    @property
    def options(self) -> ConsoleOptions:
        """The console's options."""
        return self.watch.options


@dataclass(eq=False, slots=True)
class PageSession:
    """The state of one open page: its operator, and the broker or bundle that is selected."""

    sources: Sources
    operator: Operator
    announce: SentenceSink = lambda sentence: None
    """Announces a sentence to screen readers, and shows it for a moment."""
    what: TileKind | None = None
    """Whether a broker or a bundle is selected; None: nothing is."""
    key: str = ""
    """The name of the selected broker or bundle; empty if none is selected."""
    on_choice: list[Notify] = field(default_factory=list)
    """Listeners that are called when another selection is made."""

    @property
    def picture(self) -> ClusterPicture:
        """The picture of the cluster at the latest poll."""
        return self.sources.watch.picture

    def choose(self, what: TileKind | None, key: str = "") -> None:
        """Select the broker or bundle named `key`, and call the listeners; None selects nothing."""
        self.what, self.key = what, key
        for each in self.on_choice:
            each()


@lru_cache(maxsize=8)
def drawn(picture: ClusterPicture, area: Area, only: str) -> tuple[Tile, ...]:
    """Return the treemap of a picture, of one broker if `only` names it.

    Cached, since all open pages show the same few.
    """
    return treemap(picture, area, only)
