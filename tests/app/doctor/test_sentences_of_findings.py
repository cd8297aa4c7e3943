"""What a finding says: figures, the lines of the settings, and what to set instead."""

import pytest

from counterpoise.app.doctor.examine import examine
from counterpoise.app.doctor.setup import Setup
from counterpoise.names.properties import parse_properties
from tests.app.doctor.configurations import (
    AVG_PAIR,
    EXTENSIBLE,
    IMPL,
    PLACEMENT,
    SHEDDER,
    TRANSFERS,
    look,
)


@pytest.mark.parametrize(
    ("text", "brokers", "bundles", "rule", "said", "value"),
    [
        (
            "loadBalancerNamespaceBundleMaxBandwidthMbytes=4096",
            None,
            None,
            "bandwidth-overflow",
            "0 bytes/s in 32 bits: every busy bundle",
            "2047",
        ),
        (
            "loadBalancerNamespaceBundleMaxBandwidthMbytes=5000",
            None,
            None,
            "bandwidth-overflow",
            "become 947912704 bytes/s",
            "2047",
        ),
        ("", 6, None, "fewer-bundles-than-brokers", "2 of 6 brokers can get nothing", "32"),
        ("", 20, None, "fewer-bundles-than-brokers", "16 of 20 brokers can get nothing", "80"),
        ("", 3, 8, "few-bundles", "8 bundles over 3 brokers are 3 for one and 2 for another", "32"),
        ("", 9, 18, "few-bundles", "18 bundles over 9 brokers are 2 for one and 2 for", "36"),
        (
            "supportedNamespaceBundleSplitAlgorithms=topic_count_equally_divide",
            None,
            None,
            "algorithm-not-supported",
            "A split that names it is refused",
            "topic_count_equally_divide,range_equally_divide",
        ),
        (
            "loadBalancerBundleUnloadMinThroughputThreshold=50",
            None,
            None,
            "floor-silences-shedder",
            "must carry 1000 MiB/s before any of it is moved, one that is 40 points above",
            "0",
        ),
        (
            "loadBalancerBundleUnloadMinThroughputThreshold=50",
            None,
            None,
            "floor-silences-shedder",
            "40 points above it 111 MiB/s",
            "0",
        ),
        (
            "",
            9,
            None,
            "idle-broker-stays-idle",
            "the average is 71.1 % and no broker is 10",
            "true",
        ),
        ("", None, None, "idle-broker-stays-idle", "With 10 brokers, one of them", "true"),
        ("loadManagerClassName=Acme", None, None, "load-manager-falls-back", "simple", EXTENSIBLE),
        ("loadBalancerEnabled=perhaps", None, None, "bad-value", "with the default", "true"),
        (
            "statsUpdateFrequencyInSecs=61",
            None,
            None,
            "rounds-outrun-reports",
            "is counted on several rounds",
            "60",
        ),
        (
            "loadBalancerHostUsageCheckIntervalMinutes=5",
            None,
            None,
            "rounds-outrun-reports",
            "is counted on several rounds",
            "1",
        ),
        (
            "loadBalancerBandwidthInResourceWeight=0.3\nloadBalancerBandwithInResourceWeight=0.2",
            None,
            None,
            "legacy-weight-spelling",
            "while the right one says 1.0; 0.3 is in force.",
            "0.3",
        ),
        (
            "loadBalancerBandwidthInResourceWeight=1.0\nloadBalancerBandwithInResourceWeight=0.2",
            None,
            None,
            "legacy-weight-spelling",
            "0.2 is in force. An explicit 1.0 cannot win.",
            "0.2",
        ),
        (
            "loadBalancerMemoryResourceWeight=1",
            None,
            None,
            "memory-weight",
            "The modular manager does not look at heap",
            "0",
        ),
        (
            f"{TRANSFERS}loadBalancerMemoryResourceWeight=1",
            None,
            None,
            "memory-weight",
            "bundles are shed without end",
            "0",
        ),
        ("defaultNumberOfNamespaceBundles=200", None, None, "never-splits", "with 200", "800"),
    ],
)
def test_a_finding_says_the_figures(text, brokers, bundles, rule, said, value):
    [found] = [each for each in look(text, brokers, bundles) if each.rule == rule]
    assert said in found.why
    assert [*found.change.values()] == [value]


def test_an_explicit_weight_that_wins_is_not_said_to_lose():
    text = "loadBalancerBandwidthInResourceWeight=0.3\nloadBalancerBandwithInResourceWeight=0.2"
    [found] = [each for each in look(text) if each.rule == "legacy-weight-spelling"]
    assert "cannot win" not in found.why


def test_two_brokers_have_to_differ_by_the_floors_for_the_share_that_moves():
    text = f"{AVG_PAIR}minUnloadMessage=5000\nminUnloadMessageThroughput=2097152"
    [found] = [each for each in look(text) if each.rule == "floor-silences-shedder"]
    assert "differ by more than 25,000 msg/s or 10 MiB/s" in found.why
    assert found.change == {"minUnloadMessage": "10", "minUnloadMessageThroughput": "10240"}


ROUND_ROBIN = f"{PLACEMENT}={IMPL}RoundRobinBrokerSelector"


@pytest.mark.parametrize(("shedder", "by"), [("Overload", "usage"), ("UniformLoad", "load")])
def test_a_placement_undoes_what_was_shed_by_another_figure(shedder, by):
    found = look(f"{SHEDDER}={IMPL}{shedder}Shedder\n{ROUND_ROBIN}")
    [one] = [each for each in found if each.rule == "placement-undoes-shedder"]
    assert (
        f"A broker sheds by its {by}, and the one that takes the bundle takes its turn" in one.why
    )


def test_memory_outside_the_heap_counts_with_either_manager():
    for text in ("", TRANSFERS):
        found = look(f"{text}loadBalancerDirectMemoryResourceWeight=1")
        assert "memory counts as load" in {each.title for each in found}


def test_of_a_name_that_stands_twice_the_last_line_is_shown():
    text = "minUnloadMessage=1\n\nminUnloadMessage=2"
    [found] = [each for each in look(text) if each.rule == "repeated-name"]
    assert found.title == "minUnloadMessage stands on lines 1, 3"
    assert str(found.settings["minUnloadMessage"]) == "2 (line 3)"


def test_what_an_option_sets_has_no_line():
    properties = parse_properties("").overridden({"minUnloadMessage": "many"})
    [found] = [each for each in examine(Setup(properties)) if each.rule == "bad-value"]
    assert str(found.settings["minUnloadMessage"]) == "many"
    shown = found.to_json()["settings"]["minUnloadMessage"]
    assert shown == {"value": "many", "line": None, "default": False}


def test_lines_and_defaults_are_shown():
    [finding] = [
        each
        for each in look(f"\n\n{PLACEMENT}={IMPL}AvgShedder")
        if each.rule == "avg-shedder-pair"
    ]
    shown = {name: (each.line, each.is_default) for name, each in finding.settings.items()}
    assert shown == {SHEDDER: (None, True), PLACEMENT: (3, False)}
    default, written = (str(finding.settings[name]) for name in (SHEDDER, PLACEMENT))
    assert default.endswith("ThresholdShedder (default)")
    assert written == f"{IMPL}AvgShedder (line 3)"
    assert finding.links == [
        "https://github.com/apache/pulsar/issues/26031",
        "https://github.com/apache/pulsar/issues/23156",
    ]
