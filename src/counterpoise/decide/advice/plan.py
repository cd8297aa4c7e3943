"""The content of a plan: loads before and after, steps with costs and reasons, what stays."""

import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import Any

from counterpoise.load.fields import LoadDataError, from_json, to_json

FORMAT = 1
"""The version of a plan's JSON form; it is increased when older plans could be misread."""


class PlanError(ValueError):
    """The file is no plan, or was edited after the plan was made; the message says which."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """One broker's load before or after a plan."""

    broker: str
    bytes_per_s: float
    messages_per_s: float
    usage: float
    """The largest weighted use of a resource, as a fraction of its limit."""
    bundles: int
    topics: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Each broker's load, and their imbalance, before or after a plan."""

    imbalance: float
    """Largest broker's bytes/s ÷ their mean - 1; 0 is perfectly even."""
    brokers: tuple[BrokerLoad, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """What moves cost clients: topics and connections moved, traffic, seconds of waiting."""

    topics: int = 0
    connections: int = 0
    """Producers and consumers that look up and connect again."""
    bytes_per_s: float = 0.0
    seconds: float = 0.0
    """How long the move of the bundle is expected to take; clients wait about as long."""
    messages_out_per_s: float = 0.0
    """Messages/s to the bundle's consumers; unacknowledged ones are sent again after the move."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One move of a plan, with its reason, cost, and the imbalance after it."""

    round: int
    """The round in which the strategy would decide this move."""
    bundle: str
    source: str
    destination: str
    rule: str
    """The label of the strategy's rule that chose the move."""
    why: str
    placement: str
    """Why this destination was chosen."""
    cost: Cost
    imbalance_after: float
    basis: str = ""
    """The loads that the step rests on, as a sentence: averages, measurements and their ages."""


@dataclass(frozen=True, slots=True)
class WhyNot:
    """A bundle or broker that the plan leaves as it is, and the reason."""

    subject: str
    """The bundle's or the broker's name."""
    rule: str
    why: str
    setting: str = ""
    """The option that would change this; empty if there is none."""


@dataclass(frozen=True, slots=True)
class TopicShare:
    """A topic, and its fraction of its bundle's bytes/s (of messages/s if there are no bytes)."""

    topic: str
    share: float


@dataclass(frozen=True, slots=True)
class SplitAdvice:
    """A recommendation whether to split a bundle, with reasons. A split cannot be undone."""

    bundle: str
    broker: str
    verdict: str
    """`split`, `wait`, `partition` (the topic, not the bundle) or `leave`."""
    why: str
    bytes_per_s: float
    hottest: tuple[TopicShare, ...] = ()
    """The busiest topics, the busiest first; empty if their loads could not be read."""
    algorithm: str = ""
    command: str = ""
    """The command that makes the split, since carrying out a plan splits nothing."""


@dataclass(frozen=True, slots=True)
class Redelivery:
    """How many messages a move redelivers, in seconds of the rate at which consumers get messages.

    Messages that were delivered and not acknowledged when a bundle is unloaded are redelivered.
    Without recorded moves there is a rule of thumb: from a tenth of a second, for which Pulsar's
    clients batch acknowledgements, to a second.
    """

    least_s: float = 0.1
    most_s: float = 1.0
    basis: str = "a rule of thumb, as no move of this cluster is recorded that shows it"

    def sentence(self, messages_out_per_s: float) -> str:
        """How many messages a move redelivers at this rate of delivery, as a sentence."""
        ends = f"{self.least_s:.2g}", f"{self.most_s:.2g}"
        messages = [f"{each * messages_out_per_s:,.0f}" for each in (self.least_s, self.most_s)]
        return (
            f"about {' to '.join(dict.fromkeys(messages))} messages that consumers have not "
            "acknowledged by then are delivered again: what they are sent in "
            f"{' to '.join(dict.fromkeys(ends))} s ({self.basis})"
        )


@dataclass(frozen=True, slots=True)
class MoveTime:
    """How long a move takes, by recorded moves or a rule of thumb, and what it redelivers."""

    seconds: float
    slowest_s: float
    basis: str
    """Where these figures come from, as a phrase."""
    quickest_s: float = 0.0
    redelivery: Redelivery = Redelivery()


@dataclass(frozen=True, slots=True)
class AdvisedPlan:
    """A plan for an operator to approve: steps to carry out, their cost, and the balance after
    them.

    Times are milliseconds since 1970. A plan is carried out as it stands or refused.
    """

    format: int
    made_at_ms: int
    seen_at_ms: int
    """When the loads on which the plan is based were read."""
    source: str
    """From where the loads were read, such as a cluster's address."""
    strategy: str
    placement: str
    before: Picture
    after: Picture
    steps: tuple[PlanStep, ...]
    not_done: tuple[WhyNot, ...]
    splits: tuple[SplitAdvice, ...]
    took: MoveTime
    at_once: int
    """How many moves are carried out at the same time."""
    notes: tuple[str, ...] = ()
    """Sentences on the plan as a whole, for the person who approves it."""
    id: str = ""
    """A digest of all other fields, by which a plan that was edited is recognised."""

    @property
    def cost(self) -> Cost:
        """The total cost of all steps; its seconds are less than their sum if steps overlap."""
        return Cost(
            sum(step.cost.topics for step in self.steps),
            sum(step.cost.connections for step in self.steps),
            sum(step.cost.bytes_per_s for step in self.steps),
            math.ceil(len(self.steps) / max(1, self.at_once)) * self.took.seconds,
            sum(step.cost.messages_out_per_s for step in self.steps),
        )

    @property
    def brokers(self) -> list[tuple[BrokerLoad, BrokerLoad]]:
        """Each broker's load before and after the plan, the most loaded first."""
        after = {each.broker: each for each in self.after.brokers}
        before = sorted(self.before.brokers, key=lambda each: (-each.bytes_per_s, each.broker))
        return [(each, after[each.broker]) for each in before]

    def sealed(self) -> "AdvisedPlan":
        """A copy with its id, a digest of the plan's content by which later edits are noticed."""
        # Digest the plan as it is after writing and reading, so that 1 and 1.0 make no difference.
        written = to_json(replace(self, id=""))
        return replace(self, id=_digest(to_json(from_json(AdvisedPlan, written, "plan"))))

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON object."""
        written: dict[str, Any] = to_json(self)
        return written

    @staticmethod
    def from_json(value: object) -> "AdvisedPlan":
        """Read a plan from the JSON object that `to_json` returned; raises `PlanError`."""
        if not isinstance(value, dict) or "format" not in value:
            raise PlanError("it is no plan of `counterpoise advise --json`")
        if value["format"] != FORMAT:
            raise PlanError(f"it has format {value['format']!r}, and this version knows {FORMAT}")
        try:
            plan = from_json(AdvisedPlan, value, "plan")
        except LoadDataError as error:
            raise PlanError(f"it is no whole plan: {error}") from None
        if plan.sealed().id != plan.id:
            raise PlanError("it was changed since it was made: make a new one")
        return plan


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
