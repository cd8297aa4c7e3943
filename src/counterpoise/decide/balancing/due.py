"""Decides when a round is due: after its interval, and once the reports show the last moves."""

from collections.abc import Collection, Mapping

import numpy as np

from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.snapshot import newest_poll
from counterpoise.load.fold import FoldState
from counterpoise.load.rows import RATES

UNREPORTED_MOST = 0.1
"""The fraction of the load that may be missing from the brokers' reports when a round is made."""


def waits_for(state: FoldState, memory: RoundMemory, options: BalanceOptions) -> str:
    """What delays a round, apart from its interval, as a sentence; empty if nothing does.

    For example settings that are off, or reports that are missing or older than the last moves.
    """
    for name, is_on in (
        ("loadBalancerEnabled", options.enabled),
        ("loadBalancerSheddingEnabled", options.shedding_enabled),
    ):
        if not is_on:
            return f"no round is made: {name} is off"
    poll_id = newest_poll(state)
    if not poll_id:
        return "the next round waits for a load report"
    if not may_decide(poll_id, memory, options):
        return (
            "the next round waits for reports that were measured after the last moves "
            "(loadBalancerReportUpdateMinIntervalMillis)"
        )
    if same := unmeasured(poll_id, traffic(state), memory, options):
        return (
            f"the next round waits for new measurements of {', '.join(same)} since the last moves "
            "(statsUpdateFrequencyInSecs)"
        )
    if is_incomplete(state, options):
        return (
            f"the next round waits for bundles that carried more than {UNREPORTED_MOST:.0%} of the "
            "load and that no broker reports since: a broker that has just got them measures them "
            f"within {options.stats_s} s (statsUpdateFrequencyInSecs)"
        )
    return ""


def is_time(now_ms: int, memory: RoundMemory, options: BalanceOptions) -> bool:
    """Whether the interval since the last round is over and reports already show the last moves."""
    waited = now_ms - memory.decided_at_ms
    return (
        may_decide(now_ms, memory, options)
        and waited > 0
        and (memory.decided_at_ms == 0 or waited >= options.decide_every_ms)
    )


def may_decide(now_ms: int, memory: RoundMemory, options: BalanceOptions) -> bool:
    """Whether rounds are enabled, and every report was measured after the last moves."""
    moved_ms = memory.last_move_ms
    reported_again = not moved_ms or now_ms >= moved_ms + options.report_delay_ms
    return options.enabled and options.shedding_enabled and reported_again


def is_incomplete(state: FoldState, options: BalanceOptions) -> bool:
    """Whether reports lack bundles that carried much of the load a moment ago.

    A broker that has just started, or has just taken bundles over, reports them when it measures
    rates the next time: until then it seems to carry nothing, and would be given more.
    """
    averages = state.averages
    load = averages["short_msg_throughput_in"] + averages["short_msg_throughput_out"]
    since_ms = newest_poll(state) - options.unreported_ms
    lately = np.flatnonzero(averages["seen_at_ms"] >= since_ms)
    reported = set(state.served["bundle"].tolist())
    names = averages["bundle"]
    lacking = [row for row in lately.tolist() if names[row] not in reported]
    return bool(load[lacking].sum() > UNREPORTED_MOST * load[lately].sum())


def traffic(state: FoldState) -> dict[str, float]:
    """Messages/s plus bytes/s by broker: when this number changes, a new report has arrived."""
    brokers = state.brokers
    figures = np.sum([brokers[name] for name in RATES], axis=0)
    return dict(zip(brokers["broker"].tolist(), figures.tolist(), strict=True))


def carried(state: FoldState, bundles: Collection[str]) -> dict[str, float]:
    """Messages/s plus bytes/s of each of these bundles, by their short averages."""
    averages = state.averages
    rows = np.flatnonzero(np.isin(averages["bundle"], np.array([*bundles], dtype=object)))
    figures = np.sum([averages[f"short_{name}"][rows] for name in RATES], axis=0)
    return dict(zip(averages["bundle"][rows].tolist(), figures.tolist(), strict=True))


def unmeasured(
    now_ms: int, now: Mapping[str, float], memory: RoundMemory, options: BalanceOptions
) -> list[str]:
    """The brokers that gained or lost a bundle and have not reported a new measurement since.

    Pulsar's brokers measure rates once a minute and repeat the old rates until then. Deciding on
    old rates would move the same load twice. ``now`` is the current result of `traffic`.
    """
    if now_ms >= memory.last_move_ms + options.measured_again_ms:
        return []
    return sorted(name for name, before in memory.traffic_before.items() if now.get(name) == before)
