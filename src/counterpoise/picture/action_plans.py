"""Plans of an operator's actions on the page: what happens, loads afterwards, objections.

The plan that is shown is the frozen value that is carried out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from counterpoise.decide.balancing.moves import Move, move_id
from counterpoise.decide.balancing.projection import moved_in
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import BundleName, namespace_of
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import bound_to_broker, is_left_in_place
from counterpoise.names.units import bytes_text, counted, times
from counterpoise.picture.cluster_picture import NO_OWNER, ClusterPicture


class Action(StrEnum):
    """An action that an operator can start by a button."""

    TRANSFER = "Transfer"
    UNLOAD = "Unload"
    SPLIT = "Split"
    DRAIN = "Drain"
    CARRY_OUT = "Carry out"


@dataclass(frozen=True, slots=True)
class Effect:
    """What a plan changes for one broker: its bytes/s before and after, also ÷ the mean."""

    broker: str
    before: float
    after: float
    ratio_before: float
    ratio_after: float

    @property
    def sentence(self) -> str:
        """The effect as a sentence."""
        return (
            f"{self.broker}: {bytes_text(self.before)} ({times(self.ratio_before)} the mean) "
            f"becomes {bytes_text(self.after)} ({times(self.ratio_after)})"
        )


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """An action to be confirmed, or the reason why it is refused."""

    action: Action
    title: str
    steps: tuple[str, ...] = ()
    """A sentence for each thing that will happen."""
    effects: tuple[Effect, ...] = ()
    """The effect on each broker whose load changes."""
    imbalance: tuple[float, float] | None = None
    """The largest broker ÷ the mean - 1, before and after; None when it is not known."""
    warnings: tuple[str, ...] = ()
    """Reasons against the action."""
    refused: str = ""
    """Why the action cannot be carried out; empty if it can."""
    moves: tuple[Move, ...] = ()
    bundle: str = ""
    """The bundle to split."""


def plan_transfer(picture: ClusterPicture, bundle: str, destination: str) -> ActionPlan:
    """The plan to move a bundle to a named broker."""
    title = f"Transfer {bundle} to {destination}"
    source, refused = _owner(picture, bundle)
    if not refused and destination == source:
        refused = f"{destination} has it already"
    if not refused and destination not in picture.view.brokers:
        refused = f"the cluster lists no broker {destination}"
    if not refused and destination in picture.silent:
        refused = f"{destination} does not answer: {picture.silent[destination]}"
    if refused:
        return ActionPlan(Action.TRANSFER, title, refused=refused)
    steps = (
        f"{source} closes the bundle's topics; its clients are sent on",
        f"{destination} is asked until it says that it owns the bundle",
    )
    move = _move(picture, bundle, source, destination)
    return of_moves(picture, Action.TRANSFER, title, [move], steps)


def plan_unload(picture: ClusterPicture, bundle: str) -> ActionPlan:
    """The plan to unload a bundle; the cluster's own placement chooses another broker."""
    title = f"Unload {bundle}"
    source, refused = _owner(picture, bundle)
    if refused:
        return ActionPlan(Action.UNLOAD, title, refused=refused)
    move = _move(picture, bundle, source, None)
    steps = (
        f"{source} closes the bundle's topics; its clients look them up again",
        "the cluster's placement chooses who gets it; that may be the same broker",
    )
    return ActionPlan(Action.UNLOAD, title, steps, moves=(move,))


def plan_split(picture: ClusterPicture, bundle: str) -> ActionPlan:
    """The plan to split a bundle into two halves of its range; both stay with its owner."""
    title = f"Split {bundle}"
    source, refused = _owner(picture, bundle)
    if refused:
        return ActionPlan(Action.SPLIT, title, refused=refused)
    try:
        name = BundleName.parse(bundle)
    except InvalidName as error:
        return ActionPlan(Action.SPLIT, title, refused=str(error))
    lower, upper = name.range.lower, name.range.upper
    if upper - lower < 2:
        return ActionPlan(Action.SPLIT, title, refused="its range is too small to be split")
    middle = lower + (upper - lower) // 2
    topics = int(picture.view.bundle.topics[_row(picture, bundle)])
    warnings = ["Pulsar cannot join bundles again: a split is for ever"]
    if topics < 2:
        warnings.append(f"it has {counted(topics, 'topic')}: a split cannot share its load")
    steps = (
        f"{source} splits it into 0x{lower:08x}_0x{middle:08x} and 0x{middle:08x}_0x{upper:08x}",
        "both stay where they are until they are moved",
    )
    return ActionPlan(Action.SPLIT, title, steps, warnings=tuple(warnings), bundle=bundle)


def of_moves(
    picture: ClusterPicture, action: Action, title: str, moves: Sequence[Move], steps: Sequence[str]
) -> ActionPlan:
    """Make a plan of these moves, with their effect on the brokers, for an operator to confirm."""
    after = projected(picture.view, moves)
    then = ClusterPicture(picture.at_ms, after)
    loads, heat = _loads(picture.view), _ratios(picture.view)
    loads_after, heat_after = _loads(then.view), _ratios(then.view)
    part = dict.fromkeys(b for move in moves for b in (move.source, move.destination))
    effects = tuple(
        Effect(broker, loads[row], loads_after[row], heat[row], heat_after[row])
        for broker in part
        if (row := picture.view.broker_index(broker)) is not None
    )
    before, behind = max(heat, default=1.0) - 1, max(heat_after, default=1.0) - 1
    warnings = []
    if behind > before + 0.005:
        warnings.append(f"the cluster becomes less even: {before:.2f} becomes {behind:.2f}")
    return ActionPlan(
        action, title, tuple(steps), effects, (before, behind), tuple(warnings), moves=tuple(moves)
    )


def projected(view: ClusterView, moves: Sequence[Move]) -> ClusterView:
    """The view with the load that is expected after these moves."""
    for move in moves:
        view = moved_in(view, move.decision)
    return view


def _loads(view: ClusterView) -> list[float]:
    found: list[float] = view.broker.short_average.throughput().tolist()
    return found


def _ratios(view: ClusterView) -> list[float]:
    loads = _loads(view)
    mean = sum(loads) / len(loads) if loads else 0.0
    return [load / mean if mean > 0 else 1.0 for load in loads]


def _move(picture: ClusterPicture, bundle: str, source: str, destination: str | None) -> Move:
    kind = DecisionKind.UNLOAD if destination is None else DecisionKind.TRANSFER
    decision = Decision(kind, bundle, source, destination, "console", "an operator asked for it")
    return Move(move_id(picture.at_ms, bundle), picture.at_ms, decision, "an operator asked for it")


def _owner(picture: ClusterPicture, bundle: str) -> tuple[str, str]:
    """The bundle's owner, empty if there is none, and why it cannot be moved, empty if it can."""
    if picture.trouble:
        return "", picture.trouble
    row = picture.view.bundle_index(bundle)
    if row is None or picture.owners[row] == NO_OWNER:
        return "", "no broker reports it just now: it is on its way, was split, or is not loaded"
    if bound_to_broker(namespace_of(bundle)):
        return "", "it belongs to its broker alone and cannot go anywhere"
    if is_left_in_place(namespace_of(bundle)):
        return "", "the cluster's own load manager works on its topics: it stays where it is"
    owner = picture.view.brokers[int(picture.owners[row])]
    if owner in picture.silent:
        return owner, f"its owner {owner} does not answer: {picture.silent[owner]}"
    return owner, ""


def _row(picture: ClusterPicture, bundle: str) -> int:
    row = picture.view.bundle_index(bundle)
    if row is None:
        raise KeyError(bundle)
    return row
