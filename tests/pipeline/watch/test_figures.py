"""What a watcher says of polls as they change, and the figures that Prometheus gets of them."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.pipeline.notify.webhook import NoticeFate
from counterpoise.pipeline.watch.changes import Changes
from counterpoise.pipeline.watch.metrics import PREFIX, Metrics
from tests.load.story import Loads, poll
from tests.pipeline.fake_cluster import bundle_name
from tests.pipeline.test_rounds import MADE, TWO, ended

BUNDLES = [bundle_name(number) for number in range(6)]
BROKERS = ("b1:80", "b2:80", "b3:80")


def figure(metrics: Metrics, name: str, **labels: str) -> float | None:
    """A figure as a scrape has it; None where it has none."""
    listed = ",".join(f'{label}="{value}"' for label, value in labels.items())
    key = re.escape(f"{PREFIX}_{name}" + (f"{{{listed}}}" if listed else ""))
    found = re.search(rf"^{key} (\S+)$", metrics.text().decode(), re.MULTILINE)
    return float(found[1]) if found else None


@st.composite
def stories(draw: st.DrawFn) -> list[dict[str, Loads | None]]:
    """Polls of a cluster whose brokers come, go and fall silent while bundles change owners."""
    made = []
    for _ in range(draw(st.integers(1, 6))):
        listed = draw(st.sets(st.sampled_from(BROKERS), min_size=1))
        owners = {each: draw(st.sampled_from([*sorted(listed), ""])) for each in BUNDLES}
        silent = draw(st.sets(st.sampled_from(sorted(listed))))
        polled: dict[str, Loads | None] = {}
        for broker in sorted(listed):
            loads = {b: 10.0 * (1 + BUNDLES.index(b)) for b, o in owners.items() if o == broker}
            polled[broker] = None if broker in silent else loads
        made.append(polled)
    return made


@settings(max_examples=60)
@given(stories())
def test_what_is_known_of_a_cluster_is_the_last_that_each_of_its_brokers_said(
    story: list[dict[str, Loads | None]],
) -> None:
    """A silent broker keeps its load and its bundles, one that is not listed any more no load."""
    changes, metrics = Changes(lambda _: None), Metrics(lambda: 5_000, 5.0)
    owners: dict[str, str] = {}
    loads: dict[str, float] = {}
    gaps = 0
    for number, polled in enumerate(story):
        rows = poll(number, polled)
        changes.log_poll(rows)
        metrics.polled(rows, changes)
        said = {broker: each for broker, each in polled.items() if each is not None}
        gaps += len(polled) - len(said)
        if said:
            owners = {b: o for b, o in owners.items() if o not in said}
            owners |= {bundle: broker for broker, each in said.items() for bundle in each}
            now = {broker: 3 * sum(each.values()) for broker, each in said.items()}
            loads = {b: load for b, load in loads.items() if b in polled} | now
        assert changes.loads == loads
        assert figure(metrics, "bundles") == len(owners)
        assert figure(metrics, "silent_brokers") == len(polled) - len(said)
        assert figure(metrics, "gaps_total") == gaps
        assert figure(metrics, "brokers") == len(loads)
        assert figure(metrics, "cluster_reachable") == bool(said)
        assert figure(metrics, "polls_total") == number + 1
        assert figure(metrics, "last_poll_timestamp_seconds") == 5
        for broker in BROKERS:
            shown = figure(metrics, "broker_bytes_per_second", broker=broker)
            assert shown == loads.get(broker)
        if sum(loads.values()):
            uneven = max(loads.values()) / (sum(loads.values()) / len(loads)) - 1
            assert figure(metrics, "imbalance") == pytest.approx(uneven)


def said_of(*polls: dict[str, Loads | None]) -> list[str]:
    said: list[str] = []
    changes = Changes(said.append)
    for number, polled in enumerate(polls):
        changes.log_poll(poll(number, polled))
    return said


def test_an_imbalance_is_compared_with_the_one_that_was_said_last() -> None:
    """It grows by less than a tenth at most polls, and by more since it was said."""
    said = said_of(
        *(
            {"b1:80": {BUNDLES[0]: load}, "b2:80": {BUNDLES[1]: 100.0}}
            for load in (100, 115, 130, 160, 175)
        )
    )
    assert [each.partition(":")[0] for each in said] == [
        "imbalance 0.00",
        "imbalance 0.13 (it was 0.00)",
        "imbalance 0.23 (it was 0.13)",
    ]


@pytest.mark.parametrize(
    ("new", "more"), [(1, ""), (3, ""), (4, " and 1 more"), (5, " and 2 more")]
)
def test_three_bundles_are_named_and_the_rest_counted(new: int, more: str) -> None:
    loads = dict.fromkeys(BUNDLES[: 1 + new], 5.0)
    said = said_of({"b1:80": {BUNDLES[0]: 5.0}}, {"b1:80": loads})
    assert said[1].endswith(f": {', '.join(BUNDLES[1 : 1 + min(new, 3)])}{more}")


def test_a_look_is_late_after_three_of_them_and_ten_seconds() -> None:
    now = [1_000_000]
    metrics = Metrics(lambda: now[0], poll_every_s=5.0)
    metrics.polled(poll(0, {"b1:80": {}}), Changes(lambda _: None))
    now[0] += 25_000
    assert metrics.health() == ""
    now[0] += 1
    assert metrics.health() != ""


def test_rounds_decisions_and_moves_are_counted_each_by_its_own_label() -> None:
    metrics = Metrics(lambda: 5_000, 5.0)
    assert {figure(metrics, "moves_total", status=each.value) for each in MoveStatus} == {0.0}
    assert {figure(metrics, "notices_total", fate=each.value) for each in NoticeFate} == {0.0}
    reason = TWO.moves[0].decision.reason
    rules = Counter(each.rule for each in MADE.rejections)
    metrics.decided(MADE)
    metrics.decided(replace(TWO, rejections=MADE.rejections))
    assert figure(metrics, "rounds_total", strategy=TWO.strategy) == 2
    assert figure(metrics, "decisions_total", reason=reason) == sum(
        move.decision.reason == reason for made in (MADE, TWO) for move in made.moves
    )
    assert rules
    for rule, times in rules.items():
        assert figure(metrics, "rejections", rule=rule) == times, "of the last round alone"
    metrics.decided(replace(TWO, rejections=()))
    assert all(figure(metrics, "rejections", rule=rule) is None for rule in rules)
    first, second = TWO.moves
    for _ in range(2):
        metrics.ended(ended(first, MoveStatus.MOVED))
    metrics.ended(ended(second, MoveStatus.WITHHELD, "paused"))
    assert figure(metrics, "moves_total", status="moved") == 2
    assert figure(metrics, "moves_total", status="withheld") == 1
    assert figure(metrics, "move_seconds_count") == 2
    assert figure(metrics, "move_seconds_sum") == 5.0
