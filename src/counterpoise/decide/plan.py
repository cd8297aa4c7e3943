"""What a strategy answers: decisions, reasons for the ones not taken, and what it remembers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar, overload

from counterpoise.load.fields import to_json

M = TypeVar("M")


class Kind(StrEnum):
    """What is to be done with a bundle."""

    UNLOAD = "unload"
    """Taken from its broker; placement finds it another one."""
    TRANSFER = "transfer"
    """Taken from its broker and given to a named one."""
    SPLIT = "split"


NO_FIGURES: Final[Mapping[str, Any]] = MappingProxyType({})


class Decision(NamedTuple):
    """One thing to do with one bundle, and why.

    ``reason`` is a short label for metrics; ``figures`` are the numbers it rests on, ``template``
    the sentence they fill (see :attr:`sentence`). A named tuple, because a plan for a large cluster
    makes tens of thousands and a frozen dataclass takes four times as long to make.
    """

    kind: Kind
    bundle: str
    source: str
    destination: str | None
    reason: str
    template: str
    figures: Mapping[str, Any] = NO_FIGURES
    boundaries: tuple[int, ...] = ()
    """Where a split cuts."""

    @property
    def sentence(self) -> str:
        """Why, for a person."""
        return self.template.format(
            **self.figures,
            bundle=self.bundle,
            source=self.source,
            destination=self.destination,
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


_Fields = tuple[Kind, str, str, str | None, str, str, Mapping[str, Any], tuple[int, ...]]

decided: Final[Callable[[_Fields], Decision]] = partial(tuple.__new__, Decision)
"""A decision from the tuple of all its fields, in half the time of calling the class."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why nothing was done with a broker, a bundle or the whole cluster.

    ``rule`` is a short label; ``value`` was held against ``limit``, and ``setting`` is the option
    (Pulsar's name) that moves the limit, or an empty string when no option does.
    """

    subject: str
    rule: str
    value: float | None
    limit: float | None
    setting: str
    template: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What else the sentence names."""

    @property
    def sentence(self) -> str:
        """Why, for a person."""
        return self.template.format(
            **self.figures,
            subject=self.subject,
            value=self.value,
            limit=self.limit,
            setting=self.setting,
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


class Rejections(Sequence[Rejection]):
    """Rejections that are worked out when somebody reads them, and not before.

    A cluster at peace rejects every broker on every cycle; explaining all of them would cost more
    than deciding. The producer must depend on immutable data only.
    """

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Iterable[Rejection]]) -> None:
        self._make = make
        self._made: tuple[Rejection, ...] | None = None

    def _all(self) -> tuple[Rejection, ...]:
        if self._made is None:
            self._made = tuple(self._make())
        return self._made

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> Rejection: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Rejection, ...]: ...
    def __getitem__(self, index: int | slice) -> Rejection | tuple[Rejection, ...]:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return f"Rejections({list(self._all())!r})"


@dataclass(frozen=True, slots=True)
class Plan(Generic[M]):
    """A strategy's answer, with the memory to hand it next time."""

    decisions: tuple[Decision, ...]
    rejections: Sequence[Rejection]
    memory: M
    figures: Mapping[str, float] = field(default_factory=dict)
    """What the strategy found about the cluster as a whole, for metrics."""

    def to_json(self) -> dict[str, Any]:
        """Decisions and rejections as the command line writes them; the memory is not in it."""
        return {
            "decisions": [decision.to_json() for decision in self.decisions],
            "rejections": [rejection.to_json() for rejection in self.rejections],
        }
