"""The alerts and the dashboard of a balancer, held against the figures that it really has.

The faults are planted in the balancer's own `Metrics`, minute by minute; what it exposes is what
`promtool` judges the rules by.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.notify.webhook import NoticeFate
from counterpoise.pipeline.watch.changes import Changes
from counterpoise.pipeline.watch.metrics import Metrics
from tests.load.story import poll
from tests.pipeline.test_rounds import TWO

PLACE = Path(__file__).parents[3] / "docs" / "operations" / "monitoring"
RULES, TESTS = PLACE / "counterpoise.rules.yml", PLACE / "counterpoise.rules.test.yml"
DASHBOARD = PLACE / "balancer-dashboard.json"
MINUTES = 180
A, B = "p/n/0x0_0x1", "p/n/0x1_0x2"
WELL = {"b1:80": {A: 100.0}, "b2:80": {B: 100.0}}
LABELS = {"instance": "b:9109", "job": "counterpoise"}

needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool on the PATH")


class Balancing:
    """The figures of a balancer, minute by minute: one that is well, or has one of these faults."""

    def __init__(self) -> None:
        self.minute = 0
        self.metrics = Metrics(lambda: self.minute * 60_000, poll_every_s=5.0)
        self.changes = Changes(lambda _: None)

    def look(self, rows: ReportRows | None = None) -> None:
        seen = poll(self.minute, WELL) if rows is None else rows
        self.changes.log_poll(seen)
        self.metrics.polled(seen, self.changes)

    def ended(self, status: MoveStatus, took_s: float = 1.0) -> None:
        move = TWO.moves[0]
        done = replace(move.done(round(took_s * 1000)), status=status, started_at_ms=0)
        self.metrics.ended(done)

    def minute_that_is_well(self) -> None:
        self.look()
        self.metrics.held.set(0)
        self.metrics.found({"no-owner": 0})
        if self.minute % 5 == 0:
            self.metrics.decided(TWO)
            self.ended(MoveStatus.MOVED)
        if self.minute % 40 == 0:
            self.ended(MoveStatus.FAILED)

    def without_looks(self) -> None:
        """The store of the history is away."""

    def unreachable(self) -> None:
        self.look(poll(self.minute, {}, trouble="nothing answers"))

    def silent(self) -> None:
        self.minute_that_is_well()
        self.look(poll(self.minute, {**WELL, "b2:80": None}))

    def uneven(self) -> None:
        self.minute_that_is_well()
        self.look(poll(self.minute, {"b1:80": {A: 1000.0}, "b2:80": {B: 100.0}}))

    def failing(self) -> None:
        self.minute_that_is_well()
        self.ended(MoveStatus.FAILED)

    def slow(self) -> None:
        self.minute_that_is_well()
        self.ended(MoveStatus.MOVED, took_s=30.0)

    def moving_much(self) -> None:
        self.minute_that_is_well()
        for _ in range(3):
            self.ended(MoveStatus.MOVED)

    def held(self) -> None:
        self.minute_that_is_well()
        self.metrics.held.set(1)

    def found(self) -> None:
        self.minute_that_is_well()
        self.metrics.found({"no-owner": 1})

    def without_rounds(self) -> None:
        self.look()

    def losing_notices(self) -> None:
        self.minute_that_is_well()
        self.metrics.notified(NoticeFate.FAILED)

    def samples(self) -> Mapping[str, float]:
        """What is scraped, by series."""
        found = {}
        for family in text_string_to_metric_families(self.metrics.text().decode()):
            for sample in family.samples:
                labels = {**sample.labels, **LABELS}
                inner = ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
                found[f"{sample.name}{{{inner}}}"] = sample.value
        return found


FAULTS: Mapping[str, str] = {
    "CounterpoiseBalancerAbsent": "",
    "CounterpoiseBalancerNotLooking": "without_looks",
    "CounterpoiseClusterUnreachable": "unreachable",
    "CounterpoiseBrokerSilent": "silent",
    "CounterpoiseUneven": "uneven",
    "CounterpoiseMovesFail": "failing",
    "CounterpoiseMovesSlow": "slow",
    "CounterpoiseTooManyMoves": "moving_much",
    "CounterpoiseHeld": "held",
    "CounterpoiseFinding": "found",
    "CounterpoiseNoRounds": "without_rounds",
    "CounterpoiseNoticesLost": "losing_notices",
}


def scraped(fault: str) -> Mapping[str, list[float | None]]:
    """Each series over time: well for half of it; then with a fault of `Balancing`, or gone."""
    balancing = Balancing()
    series: dict[str, list[float | None]] = {}
    for minute in range(MINUTES):
        balancing.minute = minute
        is_well = minute < MINUTES // 2
        if is_well:
            balancing.minute_that_is_well()
        elif fault:
            getattr(balancing, fault)()
        there = balancing.samples() if is_well or fault else {}
        for name, value in there.items():
            series.setdefault(name, [None] * minute).append(value)
        for values in series.values():
            values.extend([None] * (minute + 1 - len(values)))
    return series


def case(alert: str, fault: str) -> dict[str, object]:
    """A test of promtool's: no alert at all while all is well, and then this one."""
    values = {
        name: " ".join("_" if each is None else repr(each) for each in line)
        for name, line in scraped(fault).items()
    }
    well = {"eval_time": f"{MINUTES // 2 - 1}m", "exp_samples": []}
    fires = {
        "eval_time": f"{MINUTES - 1}m",
        "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}],
    }
    firing = 'group by (alertname) (ALERTS{alertstate="firing"})'
    this = f'group by (alertname) (ALERTS{{alertstate="firing", alertname="{alert}"}})'
    return {
        "name": alert,
        "interval": "1m",
        "input_series": [{"series": name, "values": line} for name, line in values.items()],
        "promql_expr_test": [{"expr": firing, **well}, {"expr": this, **fires}],
    }


def promtool(*words: str) -> None:
    done = subprocess.run(
        ["promtool", *words], capture_output=True, text=True, check=False, cwd=PLACE
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_each_alert_has_a_unit_test_and_a_planted_fault() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert len(alerts) >= 8
    assert sorted(alerts) == sorted(FAULTS)
    assert sorted(alerts) == sorted(re.findall(r"- name: (\w+)", TESTS.read_text()))


@pytest.mark.parametrize("file", [RULES, TESTS, DASHBOARD], ids=lambda file: file.name)
def test_each_figure_that_is_named_is_one_of_a_balancer(file: Path) -> None:
    balancing = Balancing()
    balancing.minute_that_is_well()
    balancing.look(poll(1, {**WELL, "b2:80": None}))
    there: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(balancing.metrics.text().decode()):
        for sample in family.samples:
            there.setdefault(sample.name, set()).update(sample.labels)
    text = file.read_text().replace('\\"', '"')
    named = re.findall(r"(counterpoise_balancer_\w+)(\{[^}]*\})?", text)
    assert named
    for name, labels in named:
        known = there.get(name, set(balancing.metrics.labels.get(name.removesuffix("_total"), ())))
        assert name in there or name.removesuffix("_total") in balancing.metrics.labels, name
        wanted = set(re.findall(r"(\w+)=", labels)) - {"instance", "job"}
        assert wanted <= known, f"{name} has no label {wanted - known}"


def test_the_dashboard_asks_for_something_in_each_panel() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert all(target["expr"] for panel in panels for target in panel["targets"])
    assert len({panel["id"] for panel in panels}) == len(panels)


@needs_promtool
def test_the_unit_tests_of_the_alerts_pass() -> None:
    promtool("check", "rules", RULES.name)
    promtool("test", "rules", TESTS.name)


@needs_promtool
def test_each_alert_fires_for_a_fault_that_was_planted_in_the_figures(tmp_path: Path) -> None:
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [case(alert, fault) for alert, fault in FAULTS.items()],
    }
    # JSON is YAML.
    (tmp_path / "planted.test.yml").write_text(json.dumps(document))
    promtool("test", "rules", str(tmp_path / "planted.test.yml"))
