"""A fault as data: which operation of which topic and client, what happens to it, and how often."""

from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from typing import Final

from counterpoise.faults.errors import InvalidFault
from counterpoise.wire.errors import ServerError


class Operation(Enum):
    """An operation between a client and a broker that faults can strike."""

    CONNECT = "CONNECT"
    PARTITIONS = "PARTITIONS"
    """A client's request for a topic's number of partitions."""
    LOOKUP = "LOOKUP"
    TOPICS = "TOPICS"
    """A client's request for a namespace's topics."""
    SCHEMA = "SCHEMA"
    PRODUCER = "PRODUCER"
    """Opening a producer."""
    SEND = "SEND"
    RECEIPT = "RECEIPT"
    """The broker's answer to a SEND whose message is stored."""
    SUBSCRIBE = "SUBSCRIBE"
    FLOW = "FLOW"
    """A consumer's permits for more messages."""
    MESSAGE = "MESSAGE"
    """The delivery of a message to a consumer."""
    ACK = "ACK"
    REDELIVER = "REDELIVER"
    """A consumer's request to redeliver messages that it has not acknowledged."""
    SEEK = "SEEK"
    LAST_MESSAGE_ID = "LAST_MESSAGE_ID"
    UNSUBSCRIBE = "UNSUBSCRIBE"


class EffectKind(Enum):
    """What a fault does to an operation."""

    ERROR = "error"
    DELAY = "delay"
    DROP = "drop"
    DISCONNECT = "disconnect"


ONE_WAY: Final = frozenset(
    {Operation.FLOW, Operation.REDELIVER, Operation.RECEIPT, Operation.MESSAGE}
)
"""Operations that the protocol does not answer, so that a fault cannot answer with an error."""
WITHOUT_TOPIC: Final = frozenset({Operation.CONNECT, Operation.TOPICS})
"""Operations that name no topic."""
DELAY_MAX_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """What happens to an operation: an error code, a delay in seconds, a drop or a disconnect."""

    kind: EffectKind
    code: ServerError | None = None
    message: str = ""
    seconds: float = 0.0

    @classmethod
    def error(cls, code: str | ServerError, message: str = "") -> "FaultEffect":
        """Make the effect that the broker answers with a protocol error.

        ``code`` is a `ServerError` or its name. Raises `InvalidFault` for an unknown name.
        """
        try:
            found = code if isinstance(code, ServerError) else ServerError[code]
        except KeyError:
            known = ", ".join(each.name for each in ServerError)
            raise InvalidFault(f"there is no error code {code!r}: choose one of {known}") from None
        return cls(EffectKind.ERROR, found, message or f"{found.name}: a fault that a test has set")

    @classmethod
    def delay(cls, seconds: float) -> "FaultEffect":
        """Make the effect that an operation is served ``seconds`` later; raises `InvalidFault`."""
        # NaN is refused, too: no comparison with it is true.
        if not 0 < seconds <= DELAY_MAX_S:
            raise InvalidFault(
                f"a delay of {seconds} s: it must be more than 0 and at most {DELAY_MAX_S:g}"
            )
        return cls(EffectKind.DELAY, seconds=seconds)

    def __str__(self) -> str:
        if self.code is not None:
            return f"answered with {self.code.name}"
        if self.kind is EffectKind.DELAY:
            return f"delayed by {self.seconds:g} s"
        return "dropped" if self.kind is EffectKind.DROP else "connection closed"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One operation of a client at a broker, which faults are matched against."""

    operation: Operation
    broker: str
    """The broker's id."""
    client: tuple[str, ...] = ()
    """Names of the client: address, version, and its producer's or consumer's name."""
    topic: str | None = None
    subscription: str | None = None
    position: tuple[int, int] | None = None
    """The ledger id and entry id of a RECEIPT or a MESSAGE."""
    redeliveries: int = 0
    """How often a MESSAGE was delivered before."""


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """Which operations a fault can strike, by topic, client and broker id; None includes all.

    ``topic`` and ``client`` may have the wildcards ``*``, ``?`` and ``[…]``. A topic's name may be
    short (``orders``, ``tenant/namespace/orders``) and includes its partitions.
    """

    topic: str | None = None
    client: str | None = None
    broker: str | None = None

    def matches(self, occurrence: Occurrence) -> bool:
        """Whether this target includes an operation."""
        if self.broker is not None and self.broker != occurrence.broker:
            return False
        if self.client is not None and not any(
            fnmatchcase(each, self.client) for each in occurrence.client
        ):
            return False
        return self.topic is None or (
            occurrence.topic is not None and self._names(occurrence.topic)
        )

    def _names(self, topic: str) -> bool:
        pattern = full_name(self.topic or "")
        whole, partition, number = topic.rpartition("-partition-")
        return fnmatchcase(topic, pattern) or (
            bool(partition) and number.isdigit() and fnmatchcase(whole, pattern)
        )

    def __str__(self) -> str:
        parts = {"of topic": self.topic, "by client": self.client, "at broker": self.broker}
        return " ".join(f"{name} {value}" for name, value in parts.items() if value is not None)


def full_name(topic: str) -> str:
    """A topic's or topic pattern's full name; ``persistent://public/default/`` is the default."""
    if "://" in topic:
        return topic
    return f"persistent://{topic}" if "/" in topic else f"persistent://public/default/{topic}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which of the matching operations a fault strikes; by default every one.

    With ``every`` = n it strikes each nth one; with ``times`` = n, at most n. With a
    ``probability`` it strikes each one with this chance, by a random generator that starts from
    ``seed``, so that a run can be repeated.
    """

    times: int | None = None
    every: int | None = None
    probability: float | None = None
    seed: int = 0

    def but(
        self,
        *,
        times: int | None = None,
        every: int | None = None,
        probability: float | None = None,
        seed: int = 0,
    ) -> "Schedule":
        """Return this schedule with further values; raises `InvalidFault` if they are invalid, or
        contradict each other or its present ones.
        """
        for name, value in (("times", times), ("every", every)):
            if value is not None and value < 1:
                raise InvalidFault(f"{name}({value}): it must be at least 1")
            if value is not None and getattr(self, name) is not None:
                raise InvalidFault(f"{name}({value}): the fault has times or once, or every, twice")
        if probability is not None and not 0 < probability <= 1:
            raise InvalidFault(f"probability({probability}): it must be more than 0 and at most 1")
        if probability is not None:
            after = replace(self, probability=probability, seed=seed)
        else:
            after = replace(self, times=times or self.times, every=every or self.every)
        if after.probability is not None and (after.times, after.every) != (None, None):
            raise InvalidFault(
                "a probability goes with neither once, times nor every: choose chance or count"
            )
        return after

    def __str__(self) -> str:
        parts = []
        if self.every is not None:
            parts.append(f"every {self.every}")
        if self.times is not None:
            parts.append("once" if self.times == 1 else f"{self.times} times")
        if self.probability is not None:
            parts.append(f"with probability {self.probability:g} from seed {self.seed}")
        return ", ".join(parts) or "always"


ALWAYS: Final = Schedule()


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to inject: which operations it can strike, with what effect, and how often.

    Raises `InvalidFault` for a combination that cannot happen.
    """

    operation: Operation
    effect: FaultEffect
    target: FaultTarget = FaultTarget()
    schedule: Schedule = ALWAYS

    def __post_init__(self) -> None:
        """Refuse combinations that cannot happen."""
        name = self.operation.name
        if self.effect.kind is EffectKind.ERROR and self.operation in ONE_WAY:
            raise InvalidFault(
                f"{name} has no answer that could be an error: delay it, drop it or disconnect"
            )
        if self.target.topic is not None and self.operation in WITHOUT_TOPIC:
            raise InvalidFault(f"{name} names no topic: choose by client or broker")
        if self.effect.kind is EffectKind.DROP and self.operation is Operation.CONNECT:
            raise InvalidFault("CONNECT cannot be dropped: delay it, or disconnect")

    def __str__(self) -> str:
        words = (self.operation.name, str(self.target), f"{self.effect}:", str(self.schedule))
        return " ".join(filter(None, words))


def operation_named(name: str | Operation) -> Operation:
    """Return the operation with this name, in any case; raises `InvalidFault` if there is none."""
    if isinstance(name, Operation):
        return name
    try:
        return Operation[name.upper()]
    except KeyError:
        known = ", ".join(each.name for each in Operation)
        raise InvalidFault(f"there is no operation {name!r}: choose one of {known}") from None
