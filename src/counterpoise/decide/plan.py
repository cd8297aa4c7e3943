"""What a strategy answers: decisions, reasons for the ones not taken, and what it remembers."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, overload

from counterpoise.load.fields import to_json

M = TypeVar("M")
T = TypeVar("T")


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

Move = tuple[str, str, str | None]
"""What a decision comes to: source, bundle, and destination (None: placement finds one)."""


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


class _Lazy(Sequence[T]):
    """A sequence whose elements are made when somebody reads them, all at once and only once."""

    __slots__ = ("_made",)

    _made: tuple[T, ...] | None

    @abstractmethod
    def _make(self) -> Iterable[T]:
        """All elements in order."""

    def _all(self) -> tuple[T, ...]:
        if self._made is None:
            self._made = tuple(self._make())
        return self._made

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[T]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self._all())!r})"


class Batch(Protocol):
    """Decisions taken together, such as what one broker gives another."""

    @property
    def moves(self) -> Collection[Move]:
        """What moves, in order."""
        ...

    def decisions(self) -> Iterable[Decision]:
        """What moves, and why, in the same order."""
        ...


class Decisions(_Lazy[Decision]):
    """Decisions that are written out when somebody asks why.

    To put down what a move rests on takes as long as to choose it. How many there are, and what
    moves from where to where, is known without. The batches must not change any more.
    """

    __slots__ = ("_batches",)

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches
        self._made = None

    def __len__(self) -> int:
        return sum([len(batch.moves) for batch in self._batches])

    def moves(self) -> Iterator[Move]:
        """What is decided, without why."""
        return chain.from_iterable([batch.moves for batch in self._batches])

    def _make(self) -> Iterable[Decision]:
        return chain.from_iterable([batch.decisions() for batch in self._batches])


class Rejections(_Lazy[Rejection]):
    """Rejections that are worked out when somebody reads them.

    A cluster at peace rejects every broker on every cycle; explaining all of them would cost more
    than deciding. The producer must depend on immutable data only.
    """

    __slots__ = ("_producer",)

    def __init__(self, producer: Callable[[], Iterable[Rejection]]) -> None:
        self._producer = producer
        self._made = None

    def _make(self) -> Iterable[Rejection]:
        return self._producer()


@dataclass(frozen=True, slots=True)
class Plan(Generic[M]):
    """A strategy's answer, with the memory to hand it next time."""

    decisions: Sequence[Decision]
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
