"""The demonstration without its cluster: the skew, the count, the record, the verdict."""

from pathlib import Path

import pytest

from counterpoise.app.demo.load import Tally
from counterpoise.app.demo.picture import draw
from counterpoise.app.demo.plan import (
    BUNDLES,
    BYTES_PER_S,
    HOT_SHARE,
    MESSAGE_BYTES,
    NAMESPACE,
    TOPICS_PER_BUNDLE,
    DemoOptions,
    skewed_loads,
    topics_by_bundle,
)
from counterpoise.app.demo.run import DemoResult, is_over
from counterpoise.app.demo.screen import PlainScreen, bar, decided, done
from counterpoise.app.demo.watch import DemoRecord, DemoWatcher, Load, Moment
from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.topic import TopicName

GOOD = Tally(sent=10, acknowledged=10, failed=0, received=10, duplicated=1, lost=0)


def moment(at_s: float, *throughputs: float) -> Moment:
    return Moment(at_s, {f"b{i}:80": Load(t, 0.5, 8) for i, t in enumerate(throughputs)})


def evened_out() -> DemoRecord:
    """Two brokers: uneven for ten seconds, even afterwards."""
    record = DemoRecord(began_s=0.0, first_round_s=9.0, decided_at_s=10.0, newest_round=16)
    record.moments = [
        moment(s, 30.0, 10.0) if s <= 10 else moment(s, 21.0, 19.0) for s in range(25)
    ]
    record.decisions = {"1": {"poll_id": 10}}
    record.outcomes = {"1": {"status": "moved"}}
    record.moved_at_s = {"1": 10.0}
    return record


def test_every_bundle_has_its_topics() -> None:
    ring = NamespaceBundles.of_count(NAMESPACE, BUNDLES)
    found = topics_by_bundle()
    assert len(found) == BUNDLES
    for bundle, topics in found.items():
        assert len(set(topics)) == TOPICS_PER_BUNDLE
        assert {ring.bundle_of(TopicName.parse(topic)) for topic in topics} == {bundle}


def test_most_of_the_load_goes_to_the_broker_with_most_topics() -> None:
    owners = {f"t{i}": "b1:80" if i < 5 else f"b{2 + i % 2}:80" for i in range(12)}
    hot, loads = skewed_loads(owners, seed=1)
    assert hot == "b1:80"
    bytes_per_s = {load.topic: load.messages_per_s * MESSAGE_BYTES for load in loads}
    assert sum(bytes_per_s.values()) == pytest.approx(BYTES_PER_S)
    on_hot = sum(bytes_per_s[topic] for topic, owner in owners.items() if owner == hot)
    assert on_hot == pytest.approx(BYTES_PER_S * HOT_SHARE)
    assert skewed_loads(owners, seed=1) == (hot, loads)


def test_the_imbalance_before_is_that_under_full_load_and_the_one_after_is_the_last() -> None:
    record = evened_out()
    assert record.before == pytest.approx(0.5)
    assert record.now == pytest.approx(0.05)
    assert record.moves == 1
    assert DemoRecord(0.0).before == DemoRecord(0.0).now == 0.0


def test_it_is_over_when_it_is_even_and_quiet_or_when_the_time_is_up() -> None:
    options = DemoOptions(limit_s=120, spark_s=60, quiet_s=8)
    record = evened_out()
    assert not is_over(record, 17.0, options)
    assert is_over(record, 18.0, options)
    record.newest_round = 10  # no round has looked at what the moves came to
    assert not is_over(record, 18.0, options)
    record.newest_round = 16
    record.moments = record.moments[:9]  # still uneven
    assert not is_over(record, 128.0, options)
    assert is_over(record, 129.0, options)
    record.first_round_s = None
    assert not is_over(record, 59.0, options)
    assert is_over(record, 60.0, options)


@pytest.mark.parametrize(
    ("tally", "moves", "after", "problem"),
    [
        (GOOD, 3, 0.2, ""),
        (GOOD, 0, 0.2, "moved nothing"),
        (GOOD, 3, 0.6, "did not fall by half"),
        (Tally(10, 10, 0, 9, 0, 1), 3, 0.2, "never received"),
        (Tally(0, 0, 0, 0, 0, 0), 3, 0.2, "no message"),
    ],
)
def test_the_verdict(tally: Tally, moves: int, after: float, problem: str) -> None:
    problems = DemoResult(tally, moves, before=1.0, after=after, picture=Path("x.png")).problems
    assert bool(problems) == bool(problem)
    assert problem in "; ".join(problems)


def test_the_watcher_reads_what_is_new_once(tmp_path: Path) -> None:
    watcher = DemoWatcher([], tmp_path)
    assert watcher.sample().log_lines == []
    log = tmp_path / "balancer.log"
    noise = "WARNING: Using incubator modules\n10:00:00 decided b: b1 -> b2\n"
    log.write_text(f"10:00:00 starting Spark\n{noise}counterpoise: no good\n10:00:01 cut o")
    assert watcher.sample().log_lines == ["10:00:00 starting Spark", "counterpoise: no good"]
    assert watcher.sample().log_lines == []
    with log.open("a") as more:
        more.write("ff\n")
    assert watcher.sample().log_lines == ["10:00:01 cut off"]


def test_brokers_have_short_names_on_the_screen() -> None:
    names = {"127.0.0.1:8080": "broker-1", "127.0.0.1:8081": "broker-2"}
    row = {
        "bundle": "public/demo/0x00000000_0x80000000",
        "source": "127.0.0.1:8080",
        "destination": "127.0.0.1:8081",
        "sentence": "127.0.0.1:8080 averages 64 %",
        "placement": "127.0.0.1:8081 is the least used",
    }
    sentence = decided(row, names)
    assert "127.0.0.1" not in sentence
    assert "0x00000000_0x80000000 from broker-1 to broker-2" in sentence
    outcome = {**row, "status": "moved", "owner": "127.0.0.1:8081", "error": ""}
    assert "owner broker-2, verified after 0.25 s" in done(
        {**outcome, "started_at_ms": 1000, "ended_at_ms": 1250}, names
    )
    assert bar(0.5, 4) == "██··"
    assert bar(7.0, 4) == "████"


def test_the_plain_screen_writes_lines(capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen()
    screen.say("hello")
    screen.show(evened_out(), GOOD)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "hello"
    assert "imbalance 0.05" in lines[1]
    assert "received 10" in lines[1]


def test_the_picture_is_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "load.png"
    draw(evened_out(), ["b0:80", "b1:80"], path)
    assert path.read_bytes().startswith(b"\x89PNG")
