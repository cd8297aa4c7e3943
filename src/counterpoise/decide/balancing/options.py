"""When the balancer decides, and what it does not move, under Pulsar's names."""

from dataclasses import dataclass

from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class BalanceOptions:
    """When rounds are made, and which bundles stay (`ModularLoadManagerImpl.doLoadShedding`)."""

    enabled: bool = option(True, "loadBalancerEnabled")
    """Whether anything is balanced at all."""
    shedding_enabled: bool = option(True, "loadBalancerSheddingEnabled", dynamic=True)
    """Whether bundles are moved; if not, load is only watched and averaged."""
    interval_minutes: int = option(
        1, "loadBalancerSheddingIntervalMinutes", "minutes", low=1, dynamic=True
    )
    """How often a round is made: the interval at which the strategy is asked for moves."""
    grace_minutes: int = option(
        30, "loadBalancerSheddingGracePeriodMinutes", "minutes", low=0, dynamic=True
    )
    """How long a bundle that was moved is not moved again."""
    report_interval_ms: int = option(
        5000, "loadBalancerReportUpdateMinIntervalMillis", "ms", low=10, dynamic=True
    )
    """How often brokers measure; a round uses nothing that was measured before the last moves."""
    report_max_minutes: int = option(
        15, "loadBalancerReportUpdateMaxIntervalMinutes", "minutes", low=1, dynamic=True
    )
    """The greatest age of load data that a broker published; for a leader's backtest alone."""
    report_threshold_percent: int = option(
        10, "loadBalancerReportUpdateThresholdPercentage", "%", low=0, dynamic=True
    )
    """By how much a broker's figures must change to be published; for a leader's backtest alone."""
    stats_s: int = option(60, "statsUpdateFrequencyInSecs", "s", low=1)
    """How often Apache Pulsar's brokers measure rates. Until then reports repeat the old ones. A
    round after a move waits for new ones, but not more than twice as long."""
    interval_ms: int | None = None
    """Milliseconds between rounds, for clusters that live for minutes; None: `interval_minutes`."""
    grace_ms: int | None = None
    """The grace period in milliseconds, if it is not whole minutes; None: `grace_minutes`."""
    thrash_span_ms: int = 0
    """How long a bundle may not return to a broker that it left (`thrash.py`); 0: not limited, as
    in Pulsar."""

    costly_span_ms: int = 0
    """How long a bundle is left alone if its last moves disturbed clients (`costly.py`); 0: it is
    not left alone."""

    @property
    def decide_every_ms(self) -> int:
        """Milliseconds between two rounds."""
        return self.interval_minutes * 60_000 if self.interval_ms is None else self.interval_ms

    @property
    def report_delay_ms(self) -> int:
        """Milliseconds after a move from which on every report was measured after it."""
        return 2 * self.report_interval_ms

    @property
    def measured_again_ms(self) -> int:
        """For how many milliseconds after a move an unchanged report is taken for an old one."""
        return 2000 * self.stats_s

    @property
    def unreported_ms(self) -> int:
        """Milliseconds for which a round waits for a bundle that no broker reports any more.

        That is the time until a dead broker's bundles are reported again: its last report is up to
        one measurement old, Pulsar notices its death after half a minute, and the next owner
        reports the bundle one measurement later.
        """
        return 3000 * self.stats_s

    @property
    def leave_alone_ms(self) -> int:
        """The grace period: milliseconds for which a moved bundle is not moved again."""
        return self.grace_minutes * 60_000 if self.grace_ms is None else self.grace_ms
