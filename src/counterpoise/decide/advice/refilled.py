"""What brokers are to be filled with, as a plan to read, approve and carry out."""

from collections.abc import Mapping, Sequence

from counterpoise.decide.advice.plan import FORMAT, AdvisedPlan, MoveTime, PlanStep, WhyNot
from counterpoise.decide.advice.planned import cost_of, picture, step_of, with_hosts_usage
from counterpoise.decide.balancing.approval import ApprovalRules, PastMove, approve
from counterpoise.decide.balancing.drain import ClusterSnapshot
from counterpoise.decide.balancing.projection import Projection
from counterpoise.decide.balancing.refill import RefillPlan

STRATEGY = "refill"


def refilled(
    found: RefillPlan,
    scene: ClusterSnapshot,
    connections: Mapping[str, int],
    took: MoveTime,
    made_at_ms: int,
    source: str,
    rules: ApprovalRules,
    before: Sequence[PastMove] = (),
    at_once: int = 4,
) -> AdvisedPlan:
    """The plan; what the operator's rules would withhold now is not part of it, and says so."""
    approved, withheld = approve(found.moves, before, made_at_ms, rules)
    projection, steps = Projection(scene.view), list[PlanStep]()
    for move in approved:
        projection = projection.after(move.decision)
        cost = cost_of(scene.view, move.bundle, connections, took)
        steps.append(step_of(1, move, cost, projection.view))
    return AdvisedPlan(
        FORMAT,
        made_at_ms,
        scene.view.now_ms,
        source,
        STRATEGY,
        "the brokers that were named",
        picture(scene.view),
        picture(with_hosts_usage(projection.view, scene.view)),
        tuple(steps),
        (
            *(WhyNot(each.subject, each.rule, each.sentence) for each in found.rejections),
            *(
                WhyNot(w.move.bundle, "rule", f"{w.move.bundle} stays: {w.reason}")
                for w in withheld
            ),
        ),
        (),
        took,
        at_once,
        tuple(f"{broker} does not answer ({why})" for broker, why in scene.silent.items()),
    ).sealed()
