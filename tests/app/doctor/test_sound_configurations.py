"""Configurations without a problem, and what is only advice about one."""

import pytest

from counterpoise.app.doctor.diagnosis import Severity
from counterpoise.app.doctor.general import unknown_names
from counterpoise.app.doctor.setup import Setup
from counterpoise.app.settings.table import table
from counterpoise.names.properties import parse_properties
from tests.app.doctor.configurations import AVG_PAIR, IMPL, SHEDDER, TRANSFERS, look, problems


@pytest.mark.parametrize("text", [AVG_PAIR, TRANSFERS], ids=["AvgShedder", "TransferShedder"])
@pytest.mark.parametrize("brokers", [None, 8])
def test_a_sound_configuration_has_no_problem(text, brokers):
    assert problems(text, brokers) == set()


def test_pulsars_defaults_have_the_trap_that_changed_them():
    assert problems("") == {"placement-undoes-shedder"}
    assert "even-distribution-decides" in {each.rule for each in look("")}


def test_a_default_that_is_written_out_changes_nothing():
    """The broker.conf that Pulsar ships names every setting at its default."""
    lines = []
    for name, entry in table().items():
        default = entry.option.default
        text = ",".join(default) if isinstance(default, tuple) else str(default)
        lines.append(f"{name}={'' if default is None else text}")
    stock = "\n".join(lines)
    assert [each.rule for each in look(stock, 4)] == [each.rule for each in look("", 4)]


def test_a_blank_value_changes_nothing():
    setup = Setup(parse_properties("webServicePort=\nminUnloadMessage="))
    assert not setup.changed("webServicePort")
    assert not setup.changed("minUnloadMessage")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("loadBalancerBandwithInResourceWeight=0.5", "legacy-weight-spelling"),
        ("loadBalancerPlacementStrategy=weightedRandomSelection", "deprecated-name"),
        ("brokerPublisherThrottlingTickTimeMillis=1", "ignored-name"),
        ("managedLedgerDefaultAckQuorum=1", "one-copy-acknowledged"),
        ("loadBalancerAutoUnloadSplitBundlesEnabled=false", "split-stays"),
        ("preferLaterVersions=true", "later-versions-take-all"),
        ("someTool=1\nsomeTool=2", "repeated-name"),
        (f"{SHEDDER}=com.acme.OwnShedder", "unknown-shedder"),
        ("loadBalancerEnabled=false", "balancing-off"),
        (f"loadBalancerSheddingEnabled=false\n{SHEDDER}={IMPL}OverloadShedder", "shedding-off"),
    ],
)
def test_what_only_surprises_is_advice(text, rule):
    found = {each.rule: each.severity for each in look(text)}
    assert found[rule] is Severity.ADVICE


def test_problems_stand_before_advice():
    found = [each.severity is Severity.ADVICE for each in look("someTool=1\nsomeTool=2", 9)]
    assert True in found
    assert False in found
    assert found == sorted(found)


def test_names_of_others_are_only_listed():
    text = "managedLedgerDefaultEnsembleSize=2\nacme.tool=1\nbrokerServicePort=6650"
    assert unknown_names(Setup(parse_properties(text))) == ["acme.tool"]
    assert problems(text) == problems("")


def test_shedding_left_to_a_balancer_is_no_problem_and_hides_no_finding():
    """``balance --execute`` requires it, and works by the same thresholds and floors."""
    text = f"loadBalancerSheddingEnabled=false\n{SHEDDER}={IMPL}UniformLoadShedder\n"
    found = {each.rule: each for each in look(text + "minUnloadMessage=5000")}
    assert found["shedding-off"].severity is Severity.ADVICE
    assert "counterpoise balance" in found["shedding-off"].why
    assert "loadBalancerSheddingEnabled" not in found["shedding-off"].advice
    assert found["floor-silences-shedder"].severity is Severity.PROBLEM
