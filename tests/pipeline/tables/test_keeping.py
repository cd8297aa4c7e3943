"""How a history is kept tidy beside a balancer: how often, what stays, and what is said of it."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.pipeline.tables import keeping as keeping_module
from counterpoise.pipeline.tables.faults import HistoryFaultError, superseded
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.keeping import Keeping, KeepingOptions
from counterpoise.pipeline.tables.schema import FOLD_STATE, JOURNAL, REPORTS, TABLES
from tests.pipeline.histories import writer_of
from tests.pipeline.tables.test_compaction import DAY_MS, landed


class AtOnce:
    """A pool without threads: what is submitted has run by then."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, run: Callable[[int], None], up_to: int) -> Future[None]:
        ended = Future[None]()
        ended.set_result(run(up_to))
        return ended


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TablesWriter:
    monkeypatch.setattr(keeping_module, "ThreadPoolExecutor", AtOnce)
    return writer_of(tmp_path)


def test_what_fails_is_said_once_for_each_reason_and_again_once_it_had_worked(
    writer: TablesWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = list[str]()
    keeping = Keeping(writer, KeepingOptions(look_every=1), logged.append)
    for trouble in ("disk full", "disk full", "no bucket", "", "no bucket"):

        def fails(_: str, trouble: str = trouble) -> None:
            if trouble:
                raise HistoryFaultError(trouble)

        monkeypatch.setattr(writer, "forget_versions", fails)
        keeping.folded(0)
    said = [each.rpartition(": ")[2] for each in logged]
    assert said == ["disk full", "no bucket", "no bucket"]


def test_files_that_no_version_needs_go_at_the_first_look_and_then_now_and_again(
    writer: TablesWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, at = 0, list[tuple[int, str]]()
    monkeypatch.setattr(writer, "vacuum", lambda table: at.append((looks, table)))
    keeping = Keeping(writer, KeepingOptions(look_every=2, vacuum_every=3), print)
    for batch in range(1, 15):
        looks = batch // 2
        keeping.folded(0)
    assert at == [(look, table) for look in (1, 4, 7) for table in TABLES]


def test_days_that_were_asked_for_stay_and_are_as_they_were_for_as_many_as_were_asked_for(
    writer: TablesWriter, tmp_path: Path
) -> None:
    polls = [landed(writer, number, DAY_MS) for number in range(3)]
    options = KeepingOptions(look_every=1, time_travel_days=3)
    Keeping(writer, options, print).folded(polls[-1])
    assert [file.first_poll for file in writer.files(REPORTS)] == polls, "0 are all"
    kept = DeltaTable(tmp_path / REPORTS).metadata().configuration
    assert kept["delta.logRetentionDuration"] == "interval 3 days"
    states = DeltaTable(tmp_path / FOLD_STATE).metadata().configuration
    assert states["delta.logRetentionDuration"] == "interval 1 hours"
    logged = list[str]()
    Keeping(writer, replace(options, retain_days=1), logged.append).folded(polls[-1])
    assert [file.first_poll for file in writer.files(REPORTS)] == polls[-1:]
    assert logged == []


def test_nothing_is_said_by_a_writer_that_another_has_followed(
    writer: TablesWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The balancer is refused itself, and says so."""

    def refused(_: str) -> None:
        raise superseded("there")

    monkeypatch.setattr(writer, "forget_versions", refused)
    logged = list[str]()
    Keeping(writer, KeepingOptions(look_every=1), logged.append).folded(0)
    assert logged == []


def test_one_look_is_under_way_at_a_time(
    writer: TablesWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [Future[None](), Future[None]()]
    begun = list[Future[None]]()

    def submit(*_: object) -> Future[None]:
        begun.append(looks[len(begun)])
        return begun[-1]

    monkeypatch.setattr(AtOnce, "submit", submit)
    keeping = Keeping(writer, KeepingOptions(look_every=1), print)
    keeping.folded(0)
    keeping.folded(0)
    assert begun == looks[:1]
    looks[0].set_result(None)
    keeping.folded(0)
    assert begun == looks


def test_the_newest_rounds_stay_in_files_of_their_own_and_polls_do_not(
    writer: TablesWriter,
) -> None:
    polls = [landed(writer, number, 5000, bundles=1) for number in range(8)]
    for poll_id in polls:
        JournalWriter(writer).record_memory(poll_id, RoundMemory())
    options = KeepingOptions(look_every=1, compact_from=2, rounds_at_hand=3)
    Keeping(writer, options, print).folded(polls[-1])
    assert [file.rows for file in writer.files(JOURNAL)] == [5, 1, 1, 1]
    assert len(writer.files(REPORTS)) == 1
