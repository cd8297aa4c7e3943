"""Explains why bundles move or stay, with the figure that decided."""

from collections.abc import Collection, Iterator
from typing import Final

from counterpoise.decide.plan import Decision, DecisionKind, Rejection
from counterpoise.decide.shedding.counterpoise.columns import LoadColumns
from counterpoise.decide.shedding.counterpoise.search import Found, Step
from counterpoise.decide.shedding.counterpoise.timing import Bought
from counterpoise.decide.shedding.explain import GRACE_PERIOD
from counterpoise.load.view import ClusterView

PRICE: Final = "counterpoiseMovePrice"

_MOVE = (
    "{source} is forecast to carry {load:.2f} times the mean broker's load. Moving {bundle} "
    "({share:.1%} of the mean) to {destination} lowers the imbalance score by {gain:.4f}; "
    f"a move must lower it by {{price:.4f}} ({PRICE})"
)


def explained(
    view: ClusterView, cluster: LoadColumns, found: Found, bought: Bought
) -> Iterator[Decision]:
    """The moves to make as decisions, each with its gain and price as the reason."""
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
    """Why nothing, or no more, moves, and why a broker suspected to be slow receives nothing."""
    for broker in sorted(ill):
        yield Rejection(
            broker,
            "ill-broker",
            None,
            None,
            "",
            "{subject} receives no bundles: nearly all of its own carry less than half of their "
            "forecast, while those of other brokers do not. Check whether it is slow",
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
            "{subject} alone is forecast to carry {value:.2f} times the mean broker's load. No "
            "move brings its broker to the mean: split the bundle, or give its busiest topic more "
            "partitions where that is most of it",
        )
    if not bought.steps:
        yield _nothing(view, cluster, found, bought)


def _nothing(view: ClusterView, cluster: LoadColumns, found: Found, bought: Bought) -> Rejection:
    figures = {"fullest": found.fullest}
    start = "the fullest broker is forecast to carry {fullest:.3f} times the mean broker's load"
    if bought.best:
        figures |= {"moves": float(bought.best), "gain": bought.gain}
        moves = "{moves:.0f} moves" if bought.best > 1 else "1 move"
        return Rejection(
            "cluster",
            "not-worth-it",
            max(0.0, bought.sure),
            bought.needed,
            PRICE,
            f"{start}. {moves} would lower the imbalance score by {{gain:.4f}}, but the loads "
            "reported so far vary: only {value:.4f} of that is certain, and {limit:.4f} must be "
            "({setting})",
            figures,
        )
    if found.steps or found.objective - cluster.floor <= bought.prices.lasting:
        first = found.steps[0] if found.steps else None
        return Rejection(
            "cluster",
            "even-enough",
            found.objective - (first.objective if first else cluster.floor),
            bought.prices.of(first, found) if first else bought.prices.lasting,
            PRICE,
            f"{start}; a move would lower the imbalance score by at most {{value:.4f}}, and it "
            "must lower it by {limit:.4f} ({setting})",
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
        "{subject} is forecast to carry {fullest:.3f} times the mean broker's load, and no move "
        "of one of its bundles makes the cluster more even"
        + (
            "; {value:.0f} of its {limit:.0f} bundles moved lately and stay ({setting})"
            if resting
            else ""
        ),
        figures,
    )
