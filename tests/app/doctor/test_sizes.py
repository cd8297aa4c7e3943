"""Findings that depend on the size of the cluster, of its floors or of its quorums."""

import pytest

from counterpoise.app.doctor.diagnosis import Severity
from tests.app.doctor.configurations import AVG_PAIR, IMPL, PLACEMENT, TRANSFERS, look, problems


@pytest.mark.parametrize(
    ("brokers", "bundles", "rule", "severity"),
    [
        (6, None, "fewer-bundles-than-brokers", Severity.PROBLEM),
        (20, 16, "fewer-bundles-than-brokers", Severity.PROBLEM),
        (4, None, "few-bundles", Severity.ADVICE),
        (3, 8, "few-bundles", Severity.ADVICE),
    ],
)
def test_bundles_are_held_against_brokers(brokers, bundles, rule, severity):
    found = {each.rule: each for each in look("", brokers, bundles)}
    assert found[rule].severity is severity
    assert found[rule].settings["brokers"].value == str(brokers)


@pytest.mark.parametrize(("brokers", "bundles"), [(1, 1), (4, 16), (None, 1), (2, 64)])
def test_enough_bundles_are_not_mentioned(brokers, bundles):
    assert not {"fewer-bundles-than-brokers", "few-bundles"} & {
        each.rule for each in look("", brokers, bundles)
    }


def test_a_floor_is_a_problem_for_a_small_cluster():
    assert "floor-silences-shedder" in problems(AVG_PAIR, brokers=5)
    assert "floor-silences-shedder" not in problems(AVG_PAIR, brokers=6)
    assert "floor-silences-shedder" not in problems(AVG_PAIR, brokers=30)
    assert "floor-silences-shedder" not in problems(
        f"{AVG_PAIR}minUnloadMessage=0\nminUnloadMessageThroughput=0", brokers=3
    )


@pytest.mark.parametrize(("brokers", "sure"), [(5, False), (8, False), (9, True), (50, True)])
def test_an_idle_broker_is_lost_in_a_large_cluster(brokers, sure):
    assert ("idle-broker-stays-idle" in problems("", brokers)) is sure
    assert "idle-broker-stays-idle" not in problems("lowerBoundarySheddingEnabled=true", brokers)


def test_a_single_broker_is_not_one_that_stays_idle():
    assert "idle-broker-stays-idle" not in problems(
        "loadBalancerBrokerThresholdShedderPercentage=90", brokers=1
    )


def test_the_extensible_manager_places_by_remembered_usage_whatever_is_configured():
    kept = "loadBalancerHistoryResourcePercentage=1.0\n"
    assert "history-never-changes" in problems(TRANSFERS + kept)
    by_rate = f"{PLACEMENT}={IMPL}LeastLongTermMessageRate\n"
    assert "history-never-changes" in problems(TRANSFERS + by_rate + kept)
    assert "history-never-changes" not in problems(AVG_PAIR + kept)


def test_quorums_that_no_ledger_can_have_are_a_problem():
    assert "quorums-contradict" in problems("managedLedgerDefaultAckQuorum=3")
    assert "quorums-contradict" not in problems("managedLedgerDefaultEnsembleSize=3")
