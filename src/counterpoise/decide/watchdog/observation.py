"""The watchdog's input at one moment, and its memory of earlier ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ChannelRecord:
    """The bundle state channel's record of a bundle (PIP-192)."""

    state: str
    """Pulsar's name: `Owned`, `Assigning`, `Releasing`, `Splitting`, `Free`, `Disabled`, …"""
    owner: str
    """The broker that owns the bundle, or is to own it."""
    since_ms: int


@dataclass(frozen=True, slots=True)
class ClusterObservation:
    """What the watchdog has read of a cluster at one poll."""

    now_ms: int
    brokers: tuple[str, ...]
    """The brokers that the cluster lists."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """The listed brokers that did not answer, each with the reason."""
    without_lookups: frozenset[str] = frozenset()
    """Silent brokers that answer requests but serve no lookups."""
    starting: frozenset[str] = frozenset()
    """Silent brokers that refuse lookups because their state channel has not started."""
    owned: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    """The bundles of each broker that answered, as it lists them: whether each is active, that is
    the broker is not just opening or closing it."""
    carried: Mapping[str, float] = field(default_factory=dict)
    """Bytes/s of each bundle that some broker's report has."""
    leaders: Mapping[str, str] = field(default_factory=dict)
    """The broker that each broker names as leader, by broker; empty if it knows none."""
    answered_s: Mapping[str, float] = field(default_factory=dict)
    """How many seconds each broker took to name the leader."""
    records: Mapping[str, ChannelRecord] | None = field(default_factory=dict)
    """The records of the bundle state channel; empty if it is not read, None if it cannot be read
    at present."""
    sheds: bool = False
    """Whether the cluster is set to shed load by itself."""
    imbalance: float = 0.0
    deleted: frozenset[str] = frozenset()
    """Namespaces that carried load a while ago and do not exist any more."""


@dataclass(frozen=True, slots=True)
class WatchdogMemory:
    """What the watchdog remembers from one observation to the next."""

    since_ms: Mapping[str, int] = field(default_factory=dict)
    """When each suspected fault was first seen, by `WatchdogFinding.subject_key`."""
    carried_at_ms: Mapping[str, int] = field(default_factory=dict)
    """When each bundle last carried anything."""
    carried: Mapping[str, float] = field(default_factory=dict)
    """The bytes/s that each bundle carried at that time."""
    owners: Mapping[str, str] = field(default_factory=dict)
    """The last owner of each bundle."""
    moved_at_ms: int = 0
    """When a bundle was last found to have changed its owner."""
    recorded: tuple["WatchdogFinding", ...] = ()
    """The findings from the state channel's records when these were last read."""
    slow_looks: Mapping[str, int] = field(default_factory=dict)
    """In how many observations in a row each broker was slow."""
    quick_looks: Mapping[str, int] = field(default_factory=dict)
    """For a broker found slow: in how many observations in a row since then it was not slow."""


@dataclass(frozen=True, slots=True)
class WatchdogOptions:
    """How long a fault must last before the watchdog reports it, whatever brokers' settings."""

    patience_ms: int = 30_000
    """How long a suspected fault has to last: a bundle that moves looks wrong for a moment."""
    start_patience_ms: int = 300_000
    """How long a broker's bundle state channel may take to start; on a busy machine, minutes."""
    idle_after_ms: int = 600_000
    """A bundle without an owner is no fault if it has carried nothing for this long."""
    shed_patience_ms: int = 900_000
    """How long an uneven cluster that sheds by itself may go without a move."""
    uneven_above: float = 0.5
    """The imbalance (largest ÷ mean - 1) that counts as uneven."""
    slow_times: float = 5.0
    """A broker is slow if it took at least this many times the median of the others to answer."""
    slow_from_s: float = 0.05
    """A broker that answered sooner than this is not slow."""
    slow_looks: int = 3
    """A broker is reported when it was slow in this many observations in a row: a garbage
    collection does not last so long. The fault is over after as many in which it was not slow,
    since a broker on a busy machine answers in time now and then."""


@dataclass(frozen=True, slots=True)
class WatchdogFinding:
    """One fault of the cluster that the watchdog found, with a remedy or advice."""

    kind: str
    """A short label, for metrics: one of `judge.KINDS`."""
    subject: str
    """The bundle, the broker, or `cluster`."""
    since_ms: int
    sentence: str
    remedy: str = ""
    """`lookup` or `unload`, which are safe and carried out on request; empty if there is no safe
    remedy."""
    broker: str = ""
    """The broker that is asked for the remedy."""
    advice: str = ""
    """What an operator can do."""
    cause: str = ""
    """What findings with the same reason have in common, mostly a broker; they are merged by it."""
    bundles: tuple[str, ...] = ()
    """The bundles that the finding is about; the remedy is carried out for each."""

    @property
    def key(self) -> str:
        """Identifies the fault's cause; the same in every observation while the fault lasts."""
        return f"{self.kind}:{self.cause or self.subject}"

    @property
    def subject_key(self) -> str:
        """Identifies the fault's subject; the same in every observation while the fault lasts."""
        return f"{self.kind}:{self.subject}"
