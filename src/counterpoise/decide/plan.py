"""The result of a strategy: its decisions, the reasons against others, and its memory."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from counterpoise.decide.sentence import sentence
from counterpoise.load.fields import to_json

M = TypeVar("M")


class DecisionKind(StrEnum):
    """The kinds of actions on a bundle: unload, transfer, split."""

    UNLOAD = "unload"
    """The bundle is unloaded, and placement finds its new broker."""
    TRANSFER = "transfer"
    """The bundle is unloaded and given to a named broker."""
    SPLIT = "split"


NO_FIGURES: Final[Mapping[str, Any]] = MappingProxyType({})


class Decision(NamedTuple):
    """One action on one bundle, and the reason for it.

    ``reason`` is a short label for metrics. ``figures`` are the numbers behind it, and ``template``
    is the sentence that they fill (:attr:`sentence`). A named tuple like `Rejection`, because a
    plan for a large cluster has thousands, and a frozen dataclass takes four times as long to make.
    """

    kind: DecisionKind
    bundle: str
    source: str
    destination: str | None
    reason: str
    template: str
    figures: Mapping[str, Any] = NO_FIGURES
    boundaries: tuple[int, ...] = ()
    """The hashes at which a split divides the bundle's range."""

    @property
    def sentence(self) -> str:
        """The reason as a sentence."""
        return sentence(
            self.template,
            {
                **self.figures,
                "bundle": self.bundle,
                "source": self.source,
                "destination": self.destination,
            },
        )

    def to_json(self) -> dict[str, Any]:
        """The decision as the command line and the history write it."""
        return {
            "broker": self.source,
            "bundle": self.bundle,
            "destination": self.destination,
            "reason": self.reason,
            "kind": self.kind.value,
            "sentence": self.sentence,
            "figures": to_json(self.figures),
        }


class Rejection(NamedTuple):
    """The reason why a broker, a bundle or the whole cluster is left as it is.

    ``rule`` is a short label. ``value`` was compared with ``limit``; ``setting`` is the option
    (Pulsar's name) that sets the limit, or empty if none does.
    """

    subject: str
    rule: str
    value: float | None
    limit: float | None
    setting: str
    template: str
    figures: Mapping[str, Any] = NO_FIGURES
    """The other values that the sentence contains."""

    @property
    def sentence(self) -> str:
        """The reason as a sentence, in which a value and a different limit never look the same."""
        return sentence(
            _distinguishing(self.template, self.value, self.limit),
            {
                **self.figures,
                "subject": self.subject,
                "value": self.value,
                "limit": self.limit,
                "setting": self.setting,
            },
        )

    def to_json(self) -> dict[str, Any]:
        """The rejection as the command line and the history write it."""
        return {
            "subject": self.subject,
            "rule": self.rule,
            "value": to_json(self.value),
            "limit": to_json(self.limit),
            "setting": self.setting,
            "sentence": self.sentence,
        }


class Rule(NamedTuple):
    """A reason not to move a bundle or broker; `refuses` makes the `Rejection` that cites it.

    ``name`` is a short label, ``template`` the explanation with places for its figures, ``setting``
    the option that holds the limit (empty: none).
    """

    name: str
    template: str
    setting: str = ""

    def refuses(
        self,
        subject: str,
        value: float | None = None,
        limit: float | None = None,
        **figures: object,
    ) -> Rejection:
        """The rejection of one subject by this rule."""
        return Rejection(
            subject, self.name, value, limit, self.setting, self.template, figures or NO_FIGURES
        )


_DECIMALS = re.compile(r"\{(\w+):(\.\d+[%f])\}")
_DECIMALS_MOST = 6


@dataclass(frozen=True, slots=True)
class StrategyPlan(Generic[M]):
    """A shedding strategy's decisions and rejections, and the memory for its next call."""

    decisions: tuple[Decision, ...]
    rejections: tuple[Rejection, ...]
    memory: M
    figures: Mapping[str, float] = field(default_factory=dict)
    """Figures that the strategy computed for the whole cluster, for metrics."""

    def to_json(self) -> dict[str, Any]:
        """The decisions and rejections as the command line writes them, without the memory."""
        return {
            "decisions": [decision.to_json() for decision in self.decisions],
            "rejections": [rejection.to_json() for rejection in self.rejections],
        }


def _distinguishing(template: str, value: float | None, limit: float | None) -> str:
    """The template with as many decimals as it takes to distinguish ``value`` from ``limit``."""
    found = {name: spec for name, spec in _DECIMALS.findall(template) if name in ("value", "limit")}
    specs = set(found.values())
    if value is None or limit is None or value == limit or len(found) != 2 or len(specs) != 1:
        return template
    (spec,) = specs
    decimals, kind = int(spec[1:-1]), spec[-1]
    while (
        decimals < _DECIMALS_MOST and f"{value:.{decimals}{kind}}" == f"{limit:.{decimals}{kind}}"
    ):
        decimals += 1
    for name in found:
        template = template.replace(f"{{{name}:{spec}}}", f"{{{name}:.{decimals}{kind}}}")
    return template
