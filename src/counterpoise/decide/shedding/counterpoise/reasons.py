"""Why bundles move, and why no more do, with the figures that would have changed it."""

from collections.abc import Collection, Iterator
from typing import Final

from counterpoise.decide.plan import Decision, DecisionKind, Rejection
from counterpoise.decide.shedding.counterpoise.columns import LoadColumns
from counterpoise.decide.shedding.counterpoise.search import Found, Step
from counterpoise.decide.shedding.counterpoise.timing import Bought
from counterpoise.decide.shedding.explain import GRACE_PERIOD
from counterpoise.load.view import ClusterView

PRICE: Final = "counterpoiseMovePrice"
MOVES: Final = "counterpoiseMaxMovesPerRound"

_MOVE = (
    "{source} is forecast to carry {load:.2f} times the mean: moving {bundle}, {share:.1%} of the "
    "mean, to {destination} wins {gain:.4f} of imbalance, and a move must win {price:.4f} "
    f"({PRICE})"
)


def explained(
    view: ClusterView, cluster: LoadColumns, found: Found, bought: Bought
) -> Iterator[Decision]:
    """The steps as decisions: what each wins, and what it costs."""
    use = cluster.use.copy()
    before: Found | Step = found
    for step in bought.steps:
        added = cluster.load[:, :, step.bundle] * cluster.scale[:, :, step.source]
        figures = {
            "load": float(use[:, -1, step.source].max()),
            "share": float(added[:, -1].max()),
            "gain": before.objective - step.objective,
            "price": bought.prices.of(step, before),
            "fullest": step.fullest,
            "throughput": view.bundle.short.throughput_of(step.bundle),
        }
        use[:, :, step.source] -= added
        use[:, :, step.destination] += (
            cluster.load[:, :, step.bundle] * cluster.scale[:, :, step.destination]
        )
        before = step
        yield Decision(
            DecisionKind.TRANSFER,
            view.bundles[step.bundle],
            view.brokers[step.source],
            view.brokers[step.destination],
            "Uneven",
            _MOVE,
            figures,
        )


def why_nothing(
    view: ClusterView, cluster: LoadColumns, found: Found, bought: Bought, ill: Collection[str]
) -> Iterator[Rejection]:
    """Why nothing moves, or nothing goes to a broker."""
    for broker in sorted(ill):
        yield Rejection(
            broker,
            "ill-broker",
            None,
            None,
            "",
            "{subject} receives nothing: all its bundles together carry far less than forecast, "
            "while those of other brokers do not",
        )
    size = cluster.sizes
    largest = int(size.argmax()) if len(size) else -1
    if largest >= 0 and size[largest] > 1.0:
        yield Rejection(
            view.bundles[largest],
            "larger-than-a-share",
            float(size[largest]),
            1.0,
            "",
            "{subject} alone is forecast to carry {value:.2f} times the mean broker's load: no "
            "assignment brings its broker to the mean, only a split of the bundle does",
        )
    if not bought.steps:
        yield _nothing(view, cluster, found, bought)


def _nothing(view: ClusterView, cluster: LoadColumns, found: Found, bought: Bought) -> Rejection:
    figures = {"fullest": found.fullest}
    start = "the fullest broker is forecast to carry {fullest:.3f} times the mean"
    if bought.best:
        figures |= {"moves": float(bought.best), "gain": bought.gain}
        return Rejection(
            "cluster",
            "not-worth-it",
            bought.sure,
            bought.needed,
            PRICE,
            f"{start}; {{moves:.0f}} moves would win {{gain:.4f}} of imbalance, but no more than "
            "{value:.4f} where forecasts err against them, and they cost {limit:.4f} ({setting})",
            figures,
        )
    if found.steps or found.objective - cluster.floor <= bought.prices.lasting:
        won = found.objective - (found.steps[0].objective if found.steps else cluster.floor)
        return Rejection(
            "cluster",
            "even-enough",
            won,
            bought.prices.lasting,
            PRICE,
            f"{start}; a move would win at most {{value:.4f}} of imbalance, and it must win "
            "{limit:.4f} ({setting})",
            figures,
        )
    fullest = int((cluster.weight @ cluster.utilisation).argmax())
    mine = cluster.owner == fullest
    resting = int((mine & ~cluster.movable & view.bundle.movable).sum())
    return Rejection(
        view.brokers[fullest],
        "no-useful-move",
        float(resting),
        float(mine.sum()),
        GRACE_PERIOD if resting else "",
        "{subject} is forecast to carry {fullest:.3f} times the mean, and none of its bundles "
        "would make the cluster more even elsewhere"
        + ("; {value:.0f} of {limit:.0f} moved lately and stay ({setting})" if resting else ""),
        figures,
    )
