"""The traps people really fell into, and configurations without any."""

import json

import pytest

from counterpoise.app.doctor.diagnosis import Severity
from counterpoise.app.doctor.examine import examine
from counterpoise.app.doctor.general import unknown_names
from counterpoise.app.doctor.setup import Setup
from counterpoise.app.main import main
from counterpoise.app.settings.table import table
from counterpoise.names.properties import parse_properties

IMPL = "org.apache.pulsar.broker.loadbalance.impl."
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
TRANSFER = "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"
SHEDDER = "loadBalancerLoadSheddingStrategy"
PLACEMENT = "loadBalancerLoadPlacementStrategy"

AVG_PAIR = f"""\
{SHEDDER}={IMPL}AvgShedder
{PLACEMENT}={IMPL}AvgShedder
loadBalancerDistributeBundlesEvenlyEnabled=false
defaultNumberOfNamespaceBundles=64
"""
TRANSFERS = f"""\
loadManagerClassName={EXTENSIBLE}
{SHEDDER}={TRANSFER}
defaultNumberOfNamespaceBundles=64
"""


def look(text, brokers=None, bundles=None):
    return examine(Setup(parse_properties(text), brokers, bundles))


def problems(text, brokers=None, bundles=None):
    found = look(text, brokers, bundles)
    return {each.rule for each in found if each.severity is Severity.PROBLEM}


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


TRAPS = [
    ("loadManagerClassName=com.acme.Nothing", "load-manager-falls-back"),
    ("loadManagerClassName=", "load-manager-falls-back"),
    (f"{TRANSFERS}{SHEDDER}={IMPL}ThresholdShedder", "extensible-ignores-shedder"),
    (f"{TRANSFERS}{PLACEMENT}={IMPL}LeastLongTermMessageRate", "extensible-ignores-placement"),
    (f"{SHEDDER}={TRANSFER}", "shedder-of-other-manager"),
    (f"{SHEDDER}={IMPL}DeviationShedder", "unknown-shedder"),
    (f"{SHEDDER}=ThresholdShedder", "unknown-shedder"),
    (f"{PLACEMENT}={IMPL}LeastLoaded", "unknown-placement"),
    (f"{SHEDDER}={IMPL}AvgShedder", "avg-shedder-pair"),
    (f"{PLACEMENT}={IMPL}AvgShedder", "avg-shedder-pair"),
    (
        f"{SHEDDER}={IMPL}OverloadShedder\n{PLACEMENT}={IMPL}RoundRobinBrokerSelector",
        "placement-undoes-shedder",
    ),
    (f"{AVG_PAIR}loadBalancerDistributeBundlesEvenlyEnabled=true", "even-distribution-decides"),
    ("loadBalancerBundleUnloadMinThroughputThreshold=50", "floor-silences-shedder"),
    (f"{AVG_PAIR}minUnloadMessage=5000", "floor-silences-shedder"),
    (f"{AVG_PAIR}maxUnloadPercentage=0", "moves-nothing"),
    (f"{AVG_PAIR}maxUnloadPercentage=0.8", "moves-more-than-half"),
    (
        f"{SHEDDER}={IMPL}UniformLoadShedder\nloadBalancerMsgRateDifferenceShedderThreshold=0\n"
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold=0",
        "uniform-thresholds-off",
    ),
    (f"{SHEDDER}={IMPL}UniformLoadShedder\nmaxUnloadBundleNumPerShedding=0", "moves-nothing"),
    (
        f"{SHEDDER}={IMPL}OverloadShedder\nloadBalancerBrokerOverloadedThresholdPercentage=101",
        "overload-shedder-waits",
    ),
    ("loadBalancerHistoryResourcePercentage=1", "history-never-changes"),
    ("loadBalancerHistoryResourcePercentage=0.99", "history-lags"),
    ("loadBalancerDirectMemoryResourceWeight=1", "memory-weight"),
    ("loadBalancerMemoryResourceWeight=1", "memory-weight"),
    (
        "loadBalancerBandwidthInResourceWeight=1.0\nloadBalancerBandwithInResourceWeight=0.2",
        "legacy-weight-spelling",
    ),
    (
        "loadBalancerCPUResourceWeight=0\nloadBalancerBandwidthInResourceWeight=0\n"
        "loadBalancerBandwidthOutResourceWeight=0",
        "no-resource-counts",
    ),
    ("loadBalancerNamespaceBundleMaxBandwidthMbytes=2048", "bandwidth-overflow"),
    (
        "supportedNamespaceBundleSplitAlgorithms=topic_count_equally_divide",
        "algorithm-not-supported",
    ),
    (
        "defaultNamespaceBundleSplitAlgorithm=specified_positions_divide",
        "automatic-split-needs-positions",
    ),
    (
        f"{TRANSFERS}defaultNamespaceBundleSplitAlgorithm=flow_or_qps_equally_divide",
        "extensible-refuses-flow",
    ),
    ("flowOrQpsDifferenceThresholdPercentage=20", "flow-works-only-as-default"),
    ("defaultNumberOfNamespaceBundles=128", "never-splits"),
    (f"loadBalancerEnabled=false\n{SHEDDER}={IMPL}OverloadShedder", "balancing-off"),
    ("loadBalancerSheddingGracePeriodMinutes=0", "no-grace"),
    ("loadBalancerHostUsageCheckIntervalMinutes=5", "rounds-outrun-reports"),
    (f"{TRANSFERS}loadBalancerBrokerLoadDataTTLInSeconds=60", "reports-expire-too-soon"),
    (f"{AVG_PAIR}loadBalancerAvgShedderLowThreshold=50", "avg-thresholds-crossed"),
    (f"{AVG_PAIR}loadBalancerAvgShedderLowThreshold=0", "avg-threshold-none"),
    (f"{AVG_PAIR}loadBalancerAvgShedderHitCountHighThreshold=9", "avg-hits-crossed"),
    (f"{TRANSFERS}loadBalancerBrokerLoadTargetStd=0.5", "target-deviation-unreachable"),
    (f"{TRANSFERS}loadBalancerMaxNumberOfBrokerSheddingPerCycle=0", "moves-nothing"),
    ("systemTopicsWritableByClients=true", "system-topics-writable"),
    ("minUnloadMessage=many", "bad-value"),
    ("maxUnloadPercentage=-1", "bad-value"),
    ("loadBalancerSheddingEnable=true", "misspelled-name"),
    ("minUnloadMessage=1\nminUnloadMessage=2", "repeated-name"),
]


@pytest.mark.parametrize(("text", "rule"), TRAPS, ids=[rule for _, rule in TRAPS])
def test_a_trap_is_a_problem(text, rule):
    assert rule in problems(text)


@pytest.mark.parametrize(
    ("text", "last_sound", "first_bad", "rule"),
    [
        ("loadBalancerNamespaceBundleMaxBandwidthMbytes={}", 2047, 2048, "bandwidth-overflow"),
        ("defaultNumberOfNamespaceBundles={}", 127, 128, "never-splits"),
        ("loadBalancerSheddingGracePeriodMinutes={}", 1, 0, "no-grace"),
        ("loadBalancerHostUsageCheckIntervalMinutes={}", 1, 2, "rounds-outrun-reports"),
        ("statsUpdateFrequencyInSecs={}", 60, 61, "rounds-outrun-reports"),
        (
            "loadBalancerReportUpdateMinIntervalMillis={}",
            60_000,
            60_001,
            "rounds-outrun-reports",
        ),
        (
            f"{TRANSFERS}loadBalancerBrokerLoadDataTTLInSeconds={{}}",
            901,
            900,
            "reports-expire-too-soon",
        ),
        (f"{AVG_PAIR}loadBalancerAvgShedderLowThreshold={{}}", 40, 41, "avg-thresholds-crossed"),
        (f"{AVG_PAIR}loadBalancerAvgShedderHitCountHighThreshold={{}}", 8, 9, "avg-hits-crossed"),
        (f"{AVG_PAIR}loadBalancerAvgShedderLowThreshold={{}}", 1, 0, "avg-threshold-none"),
        (
            f"{TRANSFERS}loadBalancerBrokerLoadTargetStd={{}}",
            0.49,
            0.5,
            "target-deviation-unreachable",
        ),
        (
            f"{TRANSFERS}loadBalancerMaxNumberOfBrokerSheddingPerCycle={{}}",
            1,
            0,
            "moves-nothing",
        ),
        ("loadBalancerDirectMemoryResourceWeight={}", 0, 0.1, "memory-weight"),
        (f"{AVG_PAIR}maxUnloadPercentage={{}}", 0.5, 0.51, "moves-more-than-half"),
        (
            f"{SHEDDER}={IMPL}OverloadShedder\n"
            "loadBalancerBrokerOverloadedThresholdPercentage={}",
            100,
            101,
            "overload-shedder-waits",
        ),
        (
            "loadBalancerBundleUnloadMinThroughputThreshold={}",
            10,
            10.1,
            "floor-silences-shedder",
        ),
        (f"{AVG_PAIR}minUnloadMessage={{}}", 1000, 1001, "floor-silences-shedder"),
        (
            f"{AVG_PAIR}minUnloadMessageThroughput={{}}",
            1_048_576,
            1_048_577,
            "floor-silences-shedder",
        ),
        ("managedLedgerDefaultWriteQuorum={}", 2, 3, "quorums-contradict"),
    ],
)
def test_a_trap_begins_at_its_limit(text, last_sound, first_bad, rule):
    assert rule not in problems(text.format(last_sound))
    assert rule in problems(text.format(first_bad))


@pytest.mark.parametrize(
    ("text", "brokers", "bundles", "rule", "said", "value"),
    [
        (
            "loadBalancerNamespaceBundleMaxBandwidthMbytes=4096",
            *(None, None, "bandwidth-overflow", "0 bytes/s in 32 bits: every busy bundle", "2047"),
        ),
        (
            "loadBalancerNamespaceBundleMaxBandwidthMbytes=5000",
            *(None, None, "bandwidth-overflow", "become 947912704 bytes/s", "2047"),
        ),
        ("", 6, None, "fewer-bundles-than-brokers", "2 of 6 brokers can get nothing", "32"),
        ("", 20, None, "fewer-bundles-than-brokers", "16 of 20 brokers can get nothing", "80"),
        ("", 3, 8, "few-bundles", "8 bundles over 3 brokers are 3 for one and 2 for another", "32"),
        ("", 9, 18, "few-bundles", "18 bundles over 9 brokers are 2 for one and 2 for", "36"),
        (
            "supportedNamespaceBundleSplitAlgorithms=topic_count_equally_divide",
            *(None, None, "algorithm-not-supported", "A split that names it is refused"),
            "topic_count_equally_divide,range_equally_divide",
        ),
        (
            "loadBalancerBundleUnloadMinThroughputThreshold=50",
            *(None, None, "floor-silences-shedder"),
            *("must carry 1000 MiB/s before any of it is moved, one that is 40 points above", "0"),
        ),
        (
            "loadBalancerBundleUnloadMinThroughputThreshold=50",
            *(None, None, "floor-silences-shedder", "40 points above it 111 MiB/s", "0"),
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
            *(None, None, "rounds-outrun-reports", "is counted on several rounds", "60"),
        ),
        (
            "loadBalancerHostUsageCheckIntervalMinutes=5",
            *(None, None, "rounds-outrun-reports", "is counted on several rounds", "1"),
        ),
        (
            "loadBalancerBandwidthInResourceWeight=0.3\nloadBalancerBandwithInResourceWeight=0.2",
            *(
                None,
                None,
                "legacy-weight-spelling",
                "while the right one says 1.0; 0.3 is in force.",
            ),
            "0.3",
        ),
        (
            "loadBalancerBandwidthInResourceWeight=1.0\nloadBalancerBandwithInResourceWeight=0.2",
            *(None, None, "legacy-weight-spelling", "0.2 is in force. An explicit 1.0 cannot win."),
            "0.2",
        ),
        (
            "loadBalancerMemoryResourceWeight=1",
            *(None, None, "memory-weight", "The modular manager does not look at heap", "0"),
        ),
        (
            f"{TRANSFERS}loadBalancerMemoryResourceWeight=1",
            *(None, None, "memory-weight", "bundles are shed without end", "0"),
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


NO_SPLITS = "loadBalancerAutoBundleSplitEnabled=false\n"
POSITIONS = "defaultNamespaceBundleSplitAlgorithm=specified_positions_divide\n"
BY_FLOW = "defaultNamespaceBundleSplitAlgorithm=flow_or_qps_equally_divide\n"
UNIFORM = f"{SHEDDER}={IMPL}UniformLoadShedder\n"
ONLY_MEMORY = (
    "loadBalancerCPUResourceWeight=0\nloadBalancerBandwidthInResourceWeight=0\n"
    "loadBalancerBandwidthOutResourceWeight=0\nloadBalancerMemoryResourceWeight=1\n"
)


@pytest.mark.parametrize(
    ("with_it", "without_it", "rule"),
    [
        (POSITIONS, POSITIONS + NO_SPLITS, "automatic-split-needs-positions"),
        (TRANSFERS + BY_FLOW, TRANSFERS + BY_FLOW + NO_SPLITS, "extensible-refuses-flow"),
        (
            "defaultNumberOfNamespaceBundles=128",
            f"defaultNumberOfNamespaceBundles=128\n{NO_SPLITS}",
            "never-splits",
        ),
        (
            "loadBalancerAutoUnloadSplitBundlesEnabled=false",
            f"{TRANSFERS}loadBalancerAutoUnloadSplitBundlesEnabled=false",
            "split-stays",
        ),
        ("", TRANSFERS, "one-broker-never-splits"),
        ("", "loadBalancerBundleUnloadMinThroughputThreshold=0", "floor-silences-shedder"),
        (AVG_PAIR, f"{AVG_PAIR}minUnloadMessage=0", "floor-silences-shedder"),
        (
            f"{UNIFORM}loadBalancerMsgRateDifferenceShedderThreshold=0\n"
            "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold=0",
            f"{UNIFORM}loadBalancerMsgRateDifferenceShedderThreshold=0",
            "uniform-thresholds-off",
        ),
        (
            "loadBalancerHistoryResourcePercentage=1",
            "loadManagerClassName=Acme\nloadBalancerHistoryResourcePercentage=1",
            "history-never-changes",
        ),
        (
            "loadBalancerPlacementStrategy=weightedRandomSelection",
            "loadBalancerMemoryResourceWeight=1",
            "deprecated-name",
        ),
        ("managedLedgerDefaultAckQuorum=1", "", "one-copy-acknowledged"),
        (
            f"{TRANSFERS}{SHEDDER}={IMPL}AvgShedder",
            f"loadManagerClassName={EXTENSIBLE}",
            "extensible-ignores-shedder",
        ),
        ("", UNIFORM, "placement-undoes-shedder"),
        ("", TRANSFERS, "even-distribution-decides"),
        ("", "loadManagerClassName=", "even-distribution-decides"),
        ("", f"{PLACEMENT}={IMPL}AvgShedder", "even-distribution-decides"),
        (
            "loadBalancerSheddingEnabled=false",
            "loadBalancerSheddingEnabled=false\nloadBalancerEnabled=false",
            "shedding-off",
        ),
        (ONLY_MEMORY, TRANSFERS + ONLY_MEMORY, "no-resource-counts"),
    ],
)
def test_a_trap_needs_all_that_makes_it_one(with_it, without_it, rule):
    assert rule in {each.rule for each in look(with_it, brokers=1)}
    assert rule not in {each.rule for each in look(without_it, brokers=1)}


def test_problems_stand_before_advice():
    found = [each.severity is Severity.ADVICE for each in look("someTool=1\nsomeTool=2", 9)]
    assert True in found
    assert False in found
    assert found == sorted(found)


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


def test_every_finding_says_which_values_why_and_what_to_do():
    for text, _ in TRAPS:
        for finding in look(text, brokers=10):
            assert finding.settings
            assert finding.why.endswith((".", "!"))
            assert finding.change or finding.advice or finding.rule == "one-broker-never-splits"
            assert set(finding.change) <= set(table())
            for name, value in finding.change.items():
                table()[name].option.parse(value)


@pytest.mark.parametrize("rule", sorted({rule for _, rule in TRAPS} - {"repeated-name"}))
def test_the_change_takes_the_problem_away(rule):
    """Do what the doctor says, again and again: it runs out of problems."""
    text = next(text for text, each in TRAPS if each == rule)
    for _ in range(6):
        wrong = [each for each in look(text) if each.severity is Severity.PROBLEM]
        if not wrong:
            return
        dropped = {
            each.advice.split()[1].rstrip(",") for each in wrong if each.advice.startswith("delete")
        }
        values = dict(parse_properties(text).values)
        for each in wrong:
            values |= each.change
        text = "".join(f"{name}={value}\n" for name, value in values.items() if name not in dropped)
    pytest.fail(f"still: {[each.title for each in wrong]}")


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


def test_the_extensible_manager_places_by_remembered_usage_whatever_is_configured():
    kept = "loadBalancerHistoryResourcePercentage=1.0\n"
    assert "history-never-changes" in problems(TRANSFERS + kept)
    by_rate = f"{PLACEMENT}={IMPL}LeastLongTermMessageRate\n"
    assert "history-never-changes" in problems(TRANSFERS + by_rate + kept)
    assert "history-never-changes" not in problems(AVG_PAIR + kept)


def test_names_of_others_are_only_listed():
    text = "managedLedgerDefaultEnsembleSize=2\nacme.tool=1\nbrokerServicePort=6650"
    assert unknown_names(Setup(parse_properties(text))) == ["acme.tool"]
    assert problems(text) == problems("")


@pytest.fixture
def conf(tmp_path):
    def write(text):
        path = tmp_path / "broker.conf"
        path.write_text(text)
        return str(path)

    return write


def test_the_exit_status_says_whether_there_are_problems(conf, capsys):
    assert main(["doctor", "--conf", conf(AVG_PAIR)]) == 0
    assert "no problems" in capsys.readouterr().out
    assert main(["doctor", conf("minUnloadMessage=x")]) == 1
    assert "PROBLEM: minUnloadMessage: 'x' is not a whole number" in capsys.readouterr().out


def test_the_command_answers_json(conf, capsys):
    status = main(["doctor", "--conf", conf("acme=1"), "--brokers", "6", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert status == 1
    assert answer["unknown"] == ["acme"]
    assert answer["problems"] == sum(e["severity"] == "problem" for e in answer["findings"])
    assert {"rule", "settings", "why", "change", "issues"} <= answer["findings"][0].keys()


def test_settings_win_over_the_file(conf, capsys):
    path = conf("minUnloadMessage=x")
    main(["doctor", path, "--set", "minUnloadMessage=5"])
    assert "bad-value" not in capsys.readouterr().out


def test_every_setting_is_listed(capsys):
    assert main(["doctor", "--settings"]) == 0
    shown = capsys.readouterr().out
    for name, entry in table().items():
        assert f"{name}\n  {entry.why}\n" in shown
    assert "default 85; percent; a whole number from 0 to 2147483647; dynamic; read by" in shown


def test_shedding_left_to_a_balancer_is_no_problem_and_hides_no_finding():
    """``balance --execute`` requires it, and works by the same thresholds and floors."""
    text = f"loadBalancerSheddingEnabled=false\n{SHEDDER}={IMPL}UniformLoadShedder\n"
    found = {each.rule: each for each in look(text + "minUnloadMessage=5000")}
    assert found["shedding-off"].severity is Severity.ADVICE
    assert "counterpoise balance" in found["shedding-off"].why
    assert "loadBalancerSheddingEnabled" not in found["shedding-off"].advice
    assert found["floor-silences-shedder"].severity is Severity.PROBLEM


def test_quorums_that_no_ledger_can_have_are_a_problem():
    assert "quorums-contradict" in problems("managedLedgerDefaultAckQuorum=3")
    assert "quorums-contradict" not in problems("managedLedgerDefaultEnsembleSize=3")
