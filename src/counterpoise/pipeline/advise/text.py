"""A plan as lines of text, for a terminal."""

from collections.abc import Iterator

from counterpoise.decide.advice.plan import AdvisedPlan, BrokerLoad, PlanStep, SplitAdvice
from counterpoise.names.units import aligned, bytes_text, counted

BROKERS_MOST = 20
NOT_DONE_MOST = 20


def lines_of(plan: AdvisedPlan) -> Iterator[str]:
    """A plan as lines of text for a terminal: summary, cost, steps."""
    yield (
        f"plan {plan.id} by {plan.strategy} and {plan.placement}, from {plan.source}: "
        f"{counted(len(plan.steps), 'move')}, imbalance {plan.before.imbalance:.2f} -> "
        f"{plan.after.imbalance:.2f}"
    )
    cost = plan.cost
    if plan.steps:
        yield (
            f"cost: {counted(cost.topics, 'topic')} and {cost.connections:,} producers and "
            f"consumers moved, {bytes_text(cost.bytes_per_s)} among them; about "
            f"{cost.seconds:.1f} s with {plan.at_once} at a time ({plan.took.seconds:.1f} s each, "
            f"{plan.took.quickest_s:.1f} to {plan.took.slowest_s:.1f} s, {plan.took.basis})"
        )
        again = plan.took.redelivery.sentence(cost.messages_out_per_s)
        yield f"      clients wait for at least that long while their bundle moves; {again}"
    yield from (f"note: {note}" for note in plan.notes)
    yield ""
    yield from _brokers(plan)
    if plan.steps:
        yield ""
    for number, step in enumerate(plan.steps, 1):
        yield from step_lines(number, step)
    if plan.splits:
        yield ""
        yield "splits (none is part of the plan: what is split stays split)"
        for advice in plan.splits:
            yield from split_lines(advice)
    if plan.not_done:
        yield ""
        yield "why not the rest"
        yield from (f"  {each.why}" for each in plan.not_done[:NOT_DONE_MOST])
        if (more := len(plan.not_done) - NOT_DONE_MOST) > 0:
            yield f"  and {more} more (--json, --html)"


def step_lines(number: int, step: PlanStep) -> Iterator[str]:
    """A step of a plan as lines of text, with its reason and cost."""
    cost = step.cost
    yield (
        f"{number:>3}. {step.bundle}: {step.source} -> {step.destination}  "
        f"({bytes_text(cost.bytes_per_s)}, {counted(cost.topics, 'topic')}, {cost.connections:,} "
        f"connections; imbalance then {step.imbalance_after:.2f})"
    )
    yield f"     {step.why}; {step.placement}"
    if step.basis:
        yield f"     {step.basis}"


def split_lines(advice: SplitAdvice) -> Iterator[str]:
    """The advice about splitting a bundle as lines of text, with the command to type."""
    yield f"  {advice.verdict}: {advice.bundle} on {advice.broker}: {advice.why}"
    if advice.hottest:
        shares = ", ".join(f"{each.topic} {each.share:.0%}" for each in advice.hottest)
        yield f"     busiest topics: {shares}"
    if advice.command:
        yield f"     {advice.command}"


def _brokers(plan: AdvisedPlan) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        ("broker", "bytes/s", "", "msg/s", "", "used", "", "bundles", "")
    ]
    shown, more = plan.brokers, len(plan.brokers) - BROKERS_MOST
    if more > 0:  # show only the most and the least loaded brokers
        shown = [*shown[: BROKERS_MOST // 2], *shown[-BROKERS_MOST // 2 :]]
    rows += [(before.broker, *_pairs(before, after)) for before, after in shown]
    yield from aligned(rows)
    if more > 0:
        yield f"and {more} brokers between them (--json, --html)"


def _pairs(before: BrokerLoad, after: BrokerLoad) -> Iterator[str]:
    pairs = (
        (bytes_text(before.bytes_per_s), bytes_text(after.bytes_per_s)),
        (f"{before.messages_per_s:,.0f}", f"{after.messages_per_s:,.0f}"),
        (f"{before.usage:.1%}", f"{after.usage:.1%}"),
        (f"{before.bundles:,}", f"{after.bundles:,}"),
    )
    for now, then in pairs:
        yield now
        yield f"-> {then}"
