"""Checks whether an approved plan still fits the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from counterpoise.decide.advice.plan import AdvisedPlan, PlanStep
from counterpoise.decide.balancing.moves import Move, imbalance_of, move_id
from counterpoise.decide.balancing.projection import moved_in
from counterpoise.decide.balancing.snapshot import ClusterSnapshot, part_of
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.load.view import ClusterView


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """An approved plan compared with the cluster now: the steps still to do, and objections."""

    to_do: tuple[PlanStep, ...]
    done: tuple[PlanStep, ...]
    """The steps whose destination owns the bundle already."""
    changed: Mapping[str, str]
    """The bundles whose step does not fit the cluster any more, each with the reason."""
    refusal: str = ""
    """Why the plan is refused as a whole; empty if it is not."""


def check(plan: AdvisedPlan, now: ClusterSnapshot, valid_for_ms: int) -> PlanCheck:
    """Compare an approved plan with a snapshot of the cluster, at the snapshot's time.

    A plan whose loads are older than `valid_for_ms` is refused.
    """
    owners: dict[str, list[str]] = {}
    for broker in sorted(now.owned):
        for bundle in now.owned[broker]:
            owners.setdefault(bundle, []).append(broker)
    to_do, done = [], []
    changed: dict[str, str] = {}
    for step in plan.steps:
        has = owners.get(step.bundle, [])
        if has == [step.destination]:
            done.append(step)
        elif reason := _reason(step, has, now):
            changed[step.bundle] = reason
        else:
            to_do.append(step)
    refusal = _too_old(plan, now.view.now_ms, valid_for_ms) or _no_gain(to_do, now.view)
    return PlanCheck(tuple(to_do), tuple(done), changed, refusal)


def moves_of(steps: Sequence[PlanStep], plan_id: str, view: ClusterView) -> list[Move]:
    """The plan's steps as moves to carry out; their reason is that an operator approved them."""
    now_ms = view.now_ms
    return [
        Move(
            move_id(now_ms, step.bundle),
            now_ms,
            _decision(step),
            f"{step.placement}; approved with plan {plan_id}",
            part_of(view, step.bundle),
        )
        for step in steps
    ]


def _decision(step: PlanStep) -> Decision:
    why = {"why": step.why}
    return Decision(
        DecisionKind.TRANSFER, step.bundle, step.source, step.destination, step.rule, "{why}", why
    )


def _reason(step: PlanStep, has: Sequence[str], now: ClusterSnapshot) -> str:
    for broker in (step.source, step.destination):
        if broker in now.silent:
            return f"{broker} does not answer: {now.silent[broker]}"
        if broker not in now.owned:
            return f"{broker} is no broker of the cluster any more"
    if step.destination in now.cordoned:
        return f"{step.destination} is cordoned: {now.cordoned[step.destination]}"
    if not has:
        return "no broker owns it any more: it was unloaded, or split"
    if has != [step.source]:
        return f"it is on {' and '.join(has)} now, not on {step.source}"
    return ""


def _too_old(plan: AdvisedPlan, now_ms: int, valid_for_ms: int) -> str:
    age_ms = now_ms - plan.seen_at_ms
    if age_ms <= valid_for_ms:
        return ""
    return (
        f"it rests on loads of {age_ms / 60_000:.0f} minutes ago, and is good for "
        f"{valid_for_ms / 60_000:.0f} (--valid-for)"
    )


def _no_gain(steps: Sequence[PlanStep], view: ClusterView) -> str:
    """Why the steps would not help with today's loads; empty when they would."""
    if not steps:
        return ""
    left = view
    for move in moves_of(steps, "", view):
        left = moved_in(left, move.decision)
    before, after = imbalance_of(view), imbalance_of(left)
    # A refill may leave the most loaded broker as it is; then a smaller deviation is a gain.
    if (after, _deviation(left)) < (before, _deviation(view)):
        return ""
    return f"by the loads of now it would leave an imbalance of {after:.2f} instead of {before:.2f}"


def _deviation(view: ClusterView) -> float:
    return float(view.broker.traffic.throughput().std())
