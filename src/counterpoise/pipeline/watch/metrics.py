"""The Prometheus metrics of a watcher or a balancer: `counterpoise_balancer_…`."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, Round
from counterpoise.load.rows import BROKER, GAP, ReportRows
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.pipeline.notify.webhook import NoticeFate
from counterpoise.pipeline.watch.changes import Changes

PREFIX = "counterpoise_balancer"
SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60)


class Metrics:
    """The Prometheus metrics of a watcher or balancer, and whether it is healthy."""

    def __init__(self, clock_ms: MillisecondClock, poll_every_s: float) -> None:
        self._clock_ms = clock_ms
        self._late_after_ms = 3000 * poll_every_s + 10_000
        self._began_ms = clock_ms()
        self._last_ms = 0
        registry = self.registry = CollectorRegistry()
        self.labels: dict[str, tuple[str, ...]] = {}
        """The names of each metric's labels, by the metric's name."""

        def gauge(name: str, help_: str, labels: tuple[str, ...] = ()) -> Gauge:
            self.labels[f"{PREFIX}_{name}"] = labels
            return Gauge(f"{PREFIX}_{name}", help_, labels, registry=registry)

        def counter(name: str, help_: str, labels: tuple[str, ...] = ()) -> Counter:
            self.labels[f"{PREFIX}_{name}"] = labels
            return Counter(f"{PREFIX}_{name}", help_, labels, registry=registry)

        self.polls = counter("polls", "Looks at the cluster that were kept in the history.")
        self.last_poll = gauge("last_poll_timestamp_seconds", "When the last look was kept.")
        self.gaps = counter("gaps", "Brokers that did not report their load, added up over looks.")
        self.brokers = gauge("brokers", "Brokers that reported their load at the last look.")
        self.reachable = gauge(
            "cluster_reachable", "1 while the last look reached a broker, 0 when it reached none."
        )
        self.silent = gauge("silent_brokers", "Brokers that did not, at the last look.")
        self.bundles = gauge("bundles", "Bundles that some broker reports.")
        self.imbalance = gauge("imbalance", "Largest broker's bytes/s by their mean, less 1.")
        self.load = gauge("broker_bytes_per_second", "What a broker carries.", ("broker",))
        self.rounds = counter("rounds", "Rounds of decisions.", ("strategy",))
        self.decisions = counter("decisions", "Moves that were decided.", ("reason",))
        self.refused = gauge("rejections", "What the last round left alone, by rule.", ("rule",))
        self.outcomes = counter("moves", "Moves by how they ended.", ("status",))
        for status in MoveStatus:
            # Each status begins at 0, so that Prometheus sees its first move as an increase.
            self.outcomes.labels(status.value)
        self.move_seconds = Histogram(
            f"{PREFIX}_move_seconds",
            "From the unload to the new owner, of moves that were carried out.",
            buckets=SECONDS,
            registry=registry,
        )
        self.held = gauge("held", "1 while nothing may be moved: paused, or the cluster sheds.")
        self.notices = counter("notices", "Notices, by what became of them.", ("fate",))
        for fate in NoticeFate:
            self.notices.labels(fate.value)
        self.findings = gauge("watchdog_findings", "What the watchdog finds wrong.", ("kind",))

    def polled(self, rows: ReportRows, changes: Changes) -> None:
        """Count a stored poll, and set the gauges of loads to what it reported.

        ``changes`` has the loads, and what differs from the poll before.
        """
        self._last_ms = self._clock_ms()
        silent = int((rows["kind"] == GAP).sum())
        self.polls.inc()
        self.last_poll.set(self._last_ms / 1000)
        self.gaps.inc(silent)
        self.silent.set(silent)
        self.reachable.set(bool((rows["kind"] == BROKER).any()))
        self.brokers.set(len(changes.loads))
        self.bundles.set(changes.bundles)
        self.imbalance.set(changes.imbalance)
        self.load.clear()
        for broker, load in changes.loads.items():
            self.load.labels(broker).set(load)

    def decided(self, made: Round) -> None:
        """Count a round's moves and rejections, once the round has been stored in the history."""
        self.rounds.labels(made.strategy).inc()
        for move in made.moves:
            self.decisions.labels(move.decision.reason).inc()
        self.refused.clear()
        for each in made.rejections:
            self.refused.labels(each.rule).inc()

    def ended(self, outcome: MoveOutcome) -> None:
        """Count the outcome of a move, once it has been stored in the history."""
        self.outcomes.labels(outcome.status.value).inc()
        if outcome.carried_out:
            self.move_seconds.observe(outcome.seconds)

    def found(self, kinds: Mapping[str, int]) -> None:
        """Set the number of findings that the watchdog has now, for every kind."""
        for kind, count in kinds.items():
            self.findings.labels(kind).set(count)

    def notified(self, fate: NoticeFate) -> None:
        """Count a notice that was sent, failed or was dropped."""
        self.notices.labels(fate.value).inc()

    def health(self) -> str:
        """A sentence if no poll was stored yet, or none for too long; otherwise empty."""
        age_ms = self._clock_ms() - (self._last_ms or self._began_ms)
        if not self._last_ms:
            return f"no look at the cluster was kept in {age_ms / 1000:.0f} s since the start"
        if age_ms <= self._late_after_ms:
            return ""
        return f"the last look at the cluster was kept {age_ms / 1000:.0f} s ago"

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)
