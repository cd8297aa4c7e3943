"""`counterpoise history import` against a Prometheus, and its histories against a collector's."""

import asyncio
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from counterpoise.app.conf import read_conf
from counterpoise.app.main import main
from counterpoise.app.strategies import as_pulsar
from counterpoise.load.rows import BROKER, BUNDLE, GAP, POLL
from counterpoise.load.topic_loads import BundleTopicLoads, TopicLoad
from counterpoise.names.hashing import topic_at
from counterpoise.pipeline.backtest.recorded import RecordedTrace, Recording, trace_of
from counterpoise.pipeline.backtest.simulate import AS_RECORDED, BacktestCandidate, simulate
from counterpoise.pipeline.bundle_lookup import name_in
from counterpoise.pipeline.prometheus.report_rows import NO_FIGURES
from counterpoise.pipeline.prometheus.time_grid import DAY_MS
from counterpoise.pipeline.tables.reports import newest_poll
from tests.pipeline.histories import reader_of
from tests.pipeline.prometheus.fake_prometheus import FakePrometheus, Fault
from tests.pipeline.prometheus.importing import (
    BUNDLE_OF,
    FIRST_MS,
    LEADERS,
    OTHER,
    STEP_MS,
    boundaries_of,
    export,
    imported,
    iso,
    moments,
    rates,
    recorded,
    rows_of,
    steady,
)
from tests.pipeline.prometheus.played import Series, at_steps, series_of


@pytest.mark.parametrize("manager", ["modular", "extensible"])
async def test_a_backtest_of_an_import_is_one_of_the_collectors_history(
    manager: str, tmp_path: Path
) -> None:
    """The cluster was recorded by a collector every five seconds; its metrics by the minute."""
    reports = recorded(manager)
    polls = reports.column("poll_id").to_numpy()
    prometheus = FakePrometheus(at_steps(series_of(reports), STEP_MS))
    bundles = boundaries_of(reports, tmp_path / "bundles.json")
    first, last = ((int(at) - FIRST_MS) // STEP_MS for at in (polls.min(), polls.max()))
    status = await imported(
        prometheus, tmp_path / "h", "--bundles", str(bundles), first=first, last=last + 1
    )
    assert status == 0
    ours = Recording(str(tmp_path / "h")).open()
    theirs = trace_of(reports, manager)
    assert (ours.brokers, ours.bundles) == (theirs.brokers, theirs.bundles)
    assert len(ours.moves.at_ms) == len(theirs.moves.at_ms), "no move is missed or made up"
    results = [imbalances(manager, trace) for trace in (theirs, ours)]
    assert results[1] == pytest.approx(results[0], rel=0.05)
    rankings = [np.argsort(list(each.values())).tolist() for each in results]
    assert rankings[0] == rankings[1]


def imbalances(manager: str, trace: RecordedTrace) -> dict[str, float]:
    conf = read_conf(str(LEADERS / f"{manager}.conf"))
    candidates = {
        "leader": BacktestCandidate("leader", as_pulsar(conf)),
        "recorded": AS_RECORDED,
        "still": BacktestCandidate("no moves", None),
    }
    return {
        name: simulate(each, trace, 0, trace.steps, move_s=1.0, seed=0).imbalance
        for name, each in candidates.items()
    }


async def test_each_moment_is_a_poll_and_what_is_missing_is_said(tmp_path: Path) -> None:
    topic, other = name_in(BUNDLE_OF), name_in(OTHER)
    series = [
        *steady("b1:8080", topic, 0, 1, 2, 3, 4, 7, 8),
        *steady("b2:8080", other, 0, 1, 4, 7, 8),
    ]
    assert await imported(FakePrometheus(series), tmp_path / "h", last=8) == 0
    rows = rows_of(tmp_path / "h")
    polls = {row["poll_id"]: row["note"] for row in rows if row["kind"] == POLL}
    assert polls == {
        at: NO_FIGURES if step in (5, 6) else "" for step, at in enumerate(moments(*range(9)))
    }
    gaps = [(row["broker"], row["poll_id"]) for row in rows if row["kind"] == GAP]
    assert gaps == [("b2:8080", at) for at in moments(2, 3)]
    bundles = [row for row in rows if row["kind"] == BUNDLE and row["bundle"] == BUNDLE_OF]
    assert [row["poll_id"] for row in bundles] == moments(0, 1, 2, 3, 4, 7, 8)
    assert [row["msg_rate_in"] for row in bundles] == [
        100.0 + at % 977 for at in moments(0, 1, 2, 3, 4, 7, 8)
    ]
    assert {row["topics"] for row in bundles} == {1}
    said = json.loads((tmp_path / "h" / "imported.json").read_text())
    assert said["step_ms"] == STEP_MS
    assert (said["facts"]["empty_moments"], said["facts"]["gaps"]) == (2, 2)


async def test_a_broker_without_figures_for_ten_minutes_is_gone(tmp_path: Path) -> None:
    topic, other = name_in(BUNDLE_OF), name_in(OTHER)
    series = [*steady("b1:8080", topic, *range(20)), *steady("b2:8080", other, 0, 1)]
    assert await imported(FakePrometheus(series), tmp_path / "h", last=19) == 0
    gaps = [row["poll_id"] for row in rows_of(tmp_path / "h", GAP)]
    assert gaps == moments(*range(2, 12))


async def test_a_piece_of_the_next_day_has_series_of_its_own(tmp_path: Path) -> None:
    """At midnight a piece ends; one topic is gone by then, and another came."""
    midnight = -(-FIRST_MS // DAY_MS) * DAY_MS
    first = (midnight - FIRST_MS) // STEP_MS - 3
    before, after = range(first, first + 3), range(first + 3, first + 6)
    series = [
        *steady("b1:8080", name_in(BUNDLE_OF), *before),
        *steady("b2:8080", name_in(OTHER), *after),
    ]
    status = await imported(FakePrometheus(series), tmp_path / "h", first=first, last=first + 5)
    assert status == 0
    bundles = [(row["poll_id"], row["bundle"]) for row in rows_of(tmp_path / "h", BUNDLE)]
    assert bundles == [
        *((at, BUNDLE_OF) for at in moments(*before)),
        *((at, OTHER) for at in moments(*after)),
    ]


async def test_figures_that_stay_the_same_are_one_sample(tmp_path: Path) -> None:
    """But for those without any traffic, as a collector takes them."""
    values = dict(zip(moments(*range(8)), [1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 0.0, 0.0], strict=True))
    series = rates("b1:8080", name_in(BUNDLE_OF), values)
    assert await imported(FakePrometheus(series), tmp_path / "h", last=7) == 0
    brokers = rows_of(tmp_path / "h", BROKER)
    assert [row["fresh"] for row in brokers] == [True, False, False, True, False, True, True, True]
    assert [row["age_ms"] for row in brokers] == [0, STEP_MS, 2 * STEP_MS, 0, STEP_MS, 0, 0, 0]
    assert len(rows_of(tmp_path / "h", BUNDLE)) == 5


async def test_numbers_of_clients_hold_until_the_next_and_sums_by_namespace_count_for_nothing(
    tmp_path: Path,
) -> None:
    topic = name_in(BUNDLE_OF)
    labels = {"cluster": "c", "instance": "b1:8080"}
    counts = dict(zip(moments(0, 10), (3.0, 5.0), strict=True))
    series = [
        *steady("b1:8080", topic, *range(15)),
        Series("pulsar_producers_count", {**labels, "topic": topic}, counts),
        *(
            Series(name, {**labels, "namespace": "tenant/ns"}, dict.fromkeys(moments(0, 10), 99.0))
            for name in ("pulsar_producers_count", "pulsar_rate_in")
        ),
    ]
    assert await imported(FakePrometheus(series), tmp_path / "h", last=14) == 0
    bundles = rows_of(tmp_path / "h", BUNDLE)
    assert [row["producers"] for row in bundles] == [3] * 10 + [5] * 5
    assert [row["msg_rate_in"] for row in bundles] == [
        100.0 + at % 977 for at in moments(*range(15))
    ]


async def test_values_that_are_no_figures_are_left_out(tmp_path: Path) -> None:
    wrong = [float("nan"), float("inf"), float("-inf"), -5.0]
    values = dict(zip(moments(*range(6)), [1.0, *wrong, 2.0], strict=True))
    series = [
        *rates("b1:8080", name_in(BUNDLE_OF), values),
        *steady("b1:8080", name_in(OTHER), *range(6)),
    ]
    assert await imported(FakePrometheus(series), tmp_path / "h", last=5) == 0
    bundles = [row for row in rows_of(tmp_path / "h", BUNDLE) if row["bundle"] == BUNDLE_OF]
    assert [row["poll_id"] for row in bundles] == moments(0, 5)


async def test_a_bundle_in_the_series_of_two_brokers_is_the_newer_ones(tmp_path: Path) -> None:
    topic = name_in(BUNDLE_OF)
    series = [
        *steady("b1:8080", topic, *range(21)),
        *steady("b2:8080", topic, *range(20, 40)),
        *steady("b1:8080", name_in(OTHER), *range(40)),
    ]
    assert await imported(FakePrometheus(series), tmp_path / "h", last=39) == 0
    bundles = [row for row in rows_of(tmp_path / "h", BUNDLE) if row["bundle"] == BUNDLE_OF]
    assert [row["broker"] for row in bundles] == ["b1:8080"] * 20 + ["b2:8080"] * 20
    moves = Recording(str(tmp_path / "h")).open().moves
    assert len(moves.at_ms) == 1


async def test_an_import_has_the_mean_loads_of_a_bundles_topics_once(tmp_path: Path) -> None:
    one, two = (topic_at("persistent://tenant/ns/t", at) for at in (1, 2))
    alone = topic_at("persistent://tenant/ns/t", 0x50000000)
    steps = moments(*range(4))
    series = [
        *rates("b1:8080", one, dict(zip(steps, [1.0, 2.0, 3.0, 4.0], strict=True))),
        *rates("b1:8080", two, dict(zip(steps[2:], [8.0, 4.0], strict=True))),
        *rates("b1:8080", alone, dict.fromkeys(steps, 7.0)),
    ]
    assert await imported(FakePrometheus(series), tmp_path / "h", last=3) == 0
    rows = [row for row in rows_of(tmp_path / "h", BUNDLE) if row["topic_loads"]]
    assert [(row["bundle"], row["poll_id"]) for row in rows] == [
        (BUNDLE_OF, steps[0]),
        (OTHER, steps[0]),
    ]
    loads = BundleTopicLoads.from_json(rows[0]["topic_loads"])
    assert loads == BundleTopicLoads(
        {one: TopicLoad(*[2.5] * 4), two: TopicLoad(*[3.0] * 4)}, 0, TopicLoad()
    )
    assert list(BundleTopicLoads.from_json(rows[1]["topic_loads"]).busiest) == [alone]


@pytest.mark.parametrize(
    ("topic", "labels"),
    [
        ("persistent://tenant/ns/orders", {"partition": "3"}),
        ("persistent://tenant/ns/orders-partition-3", {"partition": "-1"}),
        ("persistent://tenant/ns/orders-partition-3", {"exported_namespace": "tenant/ns"}),
    ],
)
async def test_a_partition_is_hashed_by_its_own_name(
    topic: str, labels: dict[str, str], tmp_path: Path
) -> None:
    series = rates("b1:8080", topic, dict.fromkeys(moments(0, 1), 5.0), **labels)
    status = await imported(
        FakePrometheus(series), tmp_path / "h", "--default-bundles", "16", last=1
    )
    assert status == 0
    (bundle,) = {row["bundle"] for row in rows_of(tmp_path / "h", BUNDLE)}
    assert bundle == "tenant/ns/0xd0000000_0xe0000000"


async def test_an_import_that_stopped_goes_on_and_does_nothing_twice(tmp_path: Path) -> None:
    series = steady("b1:8080", name_in(BUNDLE_OF), *range(40))
    files = [
        export(series, tmp_path / f"{part}.json", range(part * 10, part * 10 + 10))
        for part in range(4)
    ]
    words = ["history", "import", str(tmp_path / "h")]
    given = [word for file in files for word in ("--file", str(file))]
    for last in (9, 25, 39, 39):
        status = await asyncio.to_thread(
            main, [*words, *given, "--to", iso(FIRST_MS + last * STEP_MS)]
        )
        assert status == 0
        assert newest_poll(reader_of(tmp_path / "h")) == FIRST_MS + last * STEP_MS
    assert [row["poll_id"] for row in rows_of(tmp_path / "h", BROKER)] == moments(*range(40))
    said = json.loads((tmp_path / "h" / "imported.json").read_text())
    assert said["facts"]["moments"] == 40


async def test_files_give_what_the_server_gave(tmp_path: Path) -> None:
    series = [
        *steady("b1:8080", name_in(BUNDLE_OF), *range(10)),
        *steady("b2:8080", name_in(OTHER), *range(3, 10)),
    ]
    assert await imported(FakePrometheus(series), tmp_path / "served") == 0
    files = [
        export(series, tmp_path / "one.json.gz", range(6)),
        export(series, tmp_path / "two.json", range(6, 10)),
    ]
    given = [word for file in files for word in ("--file", str(file))]
    status = await asyncio.to_thread(main, ["history", "import", str(tmp_path / "h"), *given])
    assert status == 0
    assert rows_of(tmp_path / "h") == rows_of(tmp_path / "served")


@pytest.mark.parametrize(
    "fault",
    [
        Fault(
            422,
            "query processing would load too many samples into memory",
            points_more_than=4,
            times=99,
        ),
        Fault(503, "query timed out in expression evaluation", points_more_than=4, times=99),
        Fault(503, "Service Unavailable", times=2),
        Fault(cut=200, times=2),
        Fault(hang=True, points_more_than=4, times=2),
        Fault(422, "too many samples", points_more_than=4, outline=True, times=99),
        Fault(503, "Service Unavailable", outline=True, times=2),
    ],
    ids=["too-many-samples", "query-timed-out", "unavailable", "cut", "hangs", "outline", "down"],
)
async def test_what_passes_is_waited_for_and_too_much_is_halved(
    fault: Fault, tmp_path: Path
) -> None:
    series = steady("b1:8080", name_in(BUNDLE_OF), *range(20))
    prometheus = FakePrometheus(series, faults=[fault])
    status = await imported(
        prometheus,
        tmp_path / "h",
        "--prometheus-timeout",
        "2s",
        last=3 if not fault.points_more_than else 19,
    )
    assert status == 0
    count = 4 if not fault.points_more_than else 20
    assert [row["poll_id"] for row in rows_of(tmp_path / "h", BROKER)] == moments(*range(count))
    loads = [row["poll_id"] for row in rows_of(tmp_path / "h", BUNDLE) if row["topic_loads"]]
    assert loads == moments(0)


async def test_an_import_that_is_killed_goes_on_and_the_history_is_the_same(tmp_path: Path) -> None:
    """With the signal that nothing can catch, once its first pieces are there; then once more."""
    series = [
        *steady("b1:8080", name_in(BUNDLE_OF), *range(60)),
        *steady("b2:8080", name_in(OTHER), *range(60)),
    ]
    files = [
        export(series, tmp_path / f"{part}.json", range(part * 2, part * 2 + 2))
        for part in range(30)
    ]
    given = [word for file in files for word in ("--file", str(file))]
    assert await asyncio.to_thread(main, ["history", "import", str(tmp_path / "w"), *given]) == 0
    history = tmp_path / "h"
    landed = 0
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.pipeline.prometheus.slow_import",
            str(history),
            *given,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        while landed == newest_poll(reader_of(history)):
            assert await process.stdout.readline(), "it ended before it was killed"
            process.stdin.write(b"\n")
        landed = newest_poll(reader_of(history))
        process.kill()
        await process.communicate()
    assert 0 < newest_poll(reader_of(history)) < FIRST_MS + 59 * STEP_MS
    assert await asyncio.to_thread(main, ["history", "import", str(history), *given]) == 0
    assert polls_of(history) == polls_of(tmp_path / "w")


def polls_of(history: Path) -> list[tuple[int, str, str, float]]:
    """What was seen, but whether a report differs from one that a killed process had read."""
    return [
        (row["poll_id"], row["kind"], row["broker"] + row["bundle"], row["msg_rate_in"])
        for row in rows_of(history)
    ]


async def test_what_prometheus_warns_of_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it is imported, of whichever series; and among the notes at the end."""
    series = steady("b1:8080", name_in(BUNDLE_OF), *range(10))
    assert await imported(FakePrometheus(series, warnings=("half of it",)), tmp_path / "h") == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count("warns: half of it") == 2
