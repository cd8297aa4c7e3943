"""What a deed would do, before anybody does it: who carries what then, and what speaks against it.

The same frozen plan is shown and carried out, so nobody confirms one thing and gets another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from counterpoise.decide.balancing.moves import Move, move_id
from counterpoise.decide.balancing.projection import Projection
from counterpoise.decide.plan import Decision, Kind
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import BundleName, namespace_of
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import bound_to_broker
from counterpoise.picture.scene import NOBODY, Scene
from counterpoise.picture.units import bytes_per_s, counted, times


class Deed(StrEnum):
    """What can be done by button."""

    TRANSFER = "Transfer"
    UNLOAD = "Unload"
    SPLIT = "Split"
    DRAIN = "Drain"
    CARRY_OUT = "Carry out"


@dataclass(frozen=True, slots=True)
class Effect:
    """What a broker carries before and after, bytes/s and ÷ the mean."""

    broker: str
    before: float
    after: float
    ratio_before: float
    ratio_after: float

    @property
    def sentence(self) -> str:
        """The same for a person."""
        return (
            f"{self.broker}: {bytes_per_s(self.before)} ({times(self.ratio_before)} the mean) "
            f"becomes {bytes_per_s(self.after)} ({times(self.ratio_after)})"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """A deed that can be confirmed, or the reason why not."""

    deed: Deed
    title: str
    steps: tuple[str, ...] = ()
    """What will happen, a sentence each."""
    effects: tuple[Effect, ...] = ()
    """Of the brokers for which anything changes."""
    imbalance: tuple[float, float] | None = None
    """The largest broker ÷ the mean - 1, before and after; None when nobody can tell."""
    warnings: tuple[str, ...] = ()
    """What speaks against it."""
    refused: str = ""
    """Why it cannot be done; empty when it can."""
    moves: tuple[Move, ...] = ()
    bundle: str = ""
    """The bundle to split."""


def plan_transfer(scene: Scene, bundle: str, destination: str) -> Plan:
    """Give a bundle to a broker that is named."""
    title = f"Transfer {bundle} to {destination}"
    source, refused = _owner(scene, bundle)
    if not refused and destination == source:
        refused = f"{destination} has it already"
    if not refused and destination not in scene.view.brokers:
        refused = f"the cluster lists no broker {destination}"
    if not refused and destination in scene.silent:
        refused = f"{destination} does not answer: {scene.silent[destination]}"
    if refused:
        return Plan(Deed.TRANSFER, title, refused=refused)
    steps = (
        f"{source} closes the bundle's topics; its clients are sent on",
        f"{destination} is asked until it says that it owns the bundle",
    )
    move = _move(scene, bundle, source, destination)
    return of_moves(scene, Deed.TRANSFER, title, [move], steps)


def plan_unload(scene: Scene, bundle: str) -> Plan:
    """Take a bundle from its broker; the cluster's own placement finds it another."""
    title = f"Unload {bundle}"
    source, refused = _owner(scene, bundle)
    if refused:
        return Plan(Deed.UNLOAD, title, refused=refused)
    move = _move(scene, bundle, source, None)
    steps = (
        f"{source} closes the bundle's topics; its clients look them up again",
        "the cluster's placement chooses who gets it; that may be the same broker",
    )
    return Plan(Deed.UNLOAD, title, steps, moves=(move,))


def plan_split(scene: Scene, bundle: str) -> Plan:
    """Cut a bundle in two halves of its range, and let go of both."""
    title = f"Split {bundle}"
    source, refused = _owner(scene, bundle)
    if refused:
        return Plan(Deed.SPLIT, title, refused=refused)
    try:
        name = BundleName.parse(bundle)
    except InvalidName as error:
        return Plan(Deed.SPLIT, title, refused=str(error))
    lower, upper = name.range.lower, name.range.upper
    if upper - lower < 2:
        return Plan(Deed.SPLIT, title, refused="its range is too small to be cut")
    middle = lower + (upper - lower) // 2
    topics = int(scene.view.bundle.topics[_row(scene, bundle)])
    warnings = ["Pulsar cannot join bundles again: a split is for ever"]
    if topics < 2:
        warnings.append(f"it has {counted(topics, 'topic')}: a split cannot share its load")
    steps = (
        f"{source} cuts it into 0x{lower:08x}_0x{middle:08x} and 0x{middle:08x}_0x{upper:08x}",
        "both stay where they are until somebody moves them",
    )
    return Plan(Deed.SPLIT, title, steps, warnings=tuple(warnings), bundle=bundle)


def of_moves(
    scene: Scene, deed: Deed, title: str, moves: Sequence[Move], steps: Sequence[str]
) -> Plan:
    """A plan that consists of moves, with what they do to the picture."""
    after = projected(scene.view, moves)
    then = Scene(scene.at_ms, after)
    loads, heat = _loads(scene.view), _ratios(scene.view)
    loads_after, heat_after = _loads(then.view), _ratios(then.view)
    part = dict.fromkeys(b for move in moves for b in (move.source, move.destination))
    effects = tuple(
        Effect(broker, loads[row], loads_after[row], heat[row], heat_after[row])
        for broker in part
        if (row := scene.view.broker_index(broker)) is not None
    )
    before, behind = max(heat, default=1.0) - 1, max(heat_after, default=1.0) - 1
    warnings = []
    if behind > before + 0.005:
        warnings.append(f"the cluster becomes less even: {before:.2f} becomes {behind:.2f}")
    return Plan(
        deed, title, tuple(steps), effects, (before, behind), tuple(warnings), moves=tuple(moves)
    )


def projected(view: ClusterView, moves: Sequence[Move]) -> ClusterView:
    """The view as it is once these have moved."""
    projection = Projection(view)
    for move in moves:
        projection = projection.after(move.decision)
    return projection.view


def _loads(view: ClusterView) -> list[float]:
    found: list[float] = view.broker.short_average.throughput().tolist()
    return found


def _ratios(view: ClusterView) -> list[float]:
    loads = _loads(view)
    mean = sum(loads) / len(loads) if loads else 0.0
    return [load / mean if mean > 0 else 1.0 for load in loads]


def _move(scene: Scene, bundle: str, source: str, destination: str | None) -> Move:
    kind = Kind.UNLOAD if destination is None else Kind.TRANSFER
    decision = Decision(kind, bundle, source, destination, "console", "an operator asked for it")
    return Move(move_id(scene.at_ms, bundle), scene.at_ms, decision, "an operator asked for it")


def _owner(scene: Scene, bundle: str) -> tuple[str, str]:
    """Who has it, or why nothing can be done with it."""
    if scene.trouble:
        return "", scene.trouble
    row = scene.view.bundle_index(bundle)
    if row is None or scene.owners[row] == NOBODY:
        return "", "no broker reports it just now: it is on its way, was split, or is not loaded"
    if bound_to_broker(namespace_of(bundle)):
        return "", "it belongs to its broker alone and cannot go anywhere"
    owner = scene.view.brokers[int(scene.owners[row])]
    if owner in scene.silent:
        return owner, f"its owner {owner} does not answer: {scene.silent[owner]}"
    return owner, ""


def _row(scene: Scene, bundle: str) -> int:
    row = scene.view.bundle_index(bundle)
    if row is None:
        raise KeyError(bundle)
    return row
