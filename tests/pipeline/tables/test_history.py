"""One writer at a time: what a writer was notified of is there, and an earlier one is refused."""

import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.load.fold import FoldState
from counterpoise.pipeline.tables import history
from counterpoise.pipeline.tables.compaction import compact
from counterpoise.pipeline.tables.data_files import write_file
from counterpoise.pipeline.tables.faults import HistoryFaultError, SupersededError
from counterpoise.pipeline.tables.history import TablesReader, TablesWriter, take_over
from counterpoise.pipeline.tables.journal import Journal, JournalWriter
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.ownership import BundleOwners
from counterpoise.pipeline.tables.reports import land, newest_poll, read_reports
from counterpoise.pipeline.tables.schema import REPORTS, TABLES, rows_to_arrow
from counterpoise.pipeline.tables.states import commit_states, current_states, write_parts
from tests.load.story import START, poll

EVERY_MS = 5000


def landed_polls(reader: TablesReader) -> list[int]:
    parts = read_reports(reader, -1, 2**60, ("poll_id", "seq"))
    rows = [(row["poll_id"], row["seq"]) for part in parts for row in part.to_pylist()]
    assert len(rows) == len(set(rows))
    return sorted({poll_id for poll_id, _ in rows})


class Writers(RuleBasedStateMachine):
    """Writers that take a history over from each other, and earlier ones that come back."""

    @initialize()
    def begin(self) -> None:
        self.home = TemporaryDirectory(prefix="counterpoise-writers-")
        self.location = open_location(self.home.name)
        self.writers: list[TablesWriter] = []
        self.polls: list[int] = []
        self.memory = self.folded = self.number = 0

    def teardown(self) -> None:
        self.home.cleanup()

    @rule()
    def come(self) -> None:
        self.writers.append(take_over(self.location))
        assert [each.epoch for each in self.writers] == list(range(1, len(self.writers) + 1))

    @precondition(lambda self: self.writers)
    @rule(which=st.integers(0, 3), what=st.sampled_from(["poll", "memory", "state", "compact"]))
    def write(self, which: int, what: str) -> None:
        """Of the newest writer it is there; any other is refused, and stays so."""
        writer = self.writers[-1 - which % len(self.writers)]
        if writer is self.writers[-1]:
            self._write(writer, what)
            writer.expect_held()
        elif what == "compact":
            return
        else:
            with pytest.raises(SupersededError, match=r"taken .* over"):
                self._write(writer, what)
            with pytest.raises(SupersededError):
                writer.expect_held()

    def _write(self, writer: TablesWriter, what: str) -> None:
        self.number += 1
        at = START + self.number * EVERY_MS
        if what == "poll":
            land(writer, poll(self.number, {"a:1": {"t/n/0x0_0x1": 1.0}}, every_ms=EVERY_MS))
            self.polls.append(at)
        elif what == "memory":
            JournalWriter(writer).record_memory(at, RoundMemory())
            self.memory = at
        elif what == "state":
            files = write_parts(self.location, FoldState.empty(), up_to=at, shards=2)
            commit_states(writer, files, at)
            self.folded = at
        else:
            compact(writer, REPORTS, up_to_poll=at, at_least=2)

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        reader = TablesReader(self.location)
        assert landed_polls(reader) == self.polls
        assert newest_poll(reader) == (self.polls[-1] if self.polls else 0)
        assert Journal(reader).is_complete(self.memory) or not self.memory
        kept = current_states(reader)
        assert (kept.up_to if kept else 0) == self.folded


TestWriters = Writers.TestCase
TestWriters.settings = settings(max_examples=6, stateful_step_count=12, deadline=None)


def test_every_table_refuses_an_earlier_writer(tmp_path: Path) -> None:
    """Before anything is in its log."""
    location = open_location(tmp_path)
    for table in TABLES:
        first = take_over(location)
        take_over(location)
        before = TablesReader(location).version(table)
        with pytest.raises(SupersededError):
            first.commit(table, [])
        assert TablesReader(location).version(table) == before


def test_a_writer_that_is_superseded_while_it_tidies_up_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = open_location(tmp_path)
    writer = take_over(location)
    followed: list[TablesWriter] = []

    def vacuum(*_: object, **__: object) -> list[str]:
        followed.append(take_over(location))
        return []

    monkeypatch.setattr(DeltaTable, "vacuum", vacuum)
    with pytest.raises(SupersededError):
        writer.vacuum(REPORTS)
    assert len(followed) == 1


def test_an_earlier_writer_removes_no_file_and_takes_nothing_back(tmp_path: Path) -> None:
    """It knows of none that was written since."""
    location = open_location(tmp_path)
    take_over(location).keep_versions(0)
    *earlier, newest = (take_over(location) for _ in range(3))
    land(newest, poll(1, {"a:1": {"t/n/0x0_0x1": 1.0}}, every_ms=EVERY_MS))
    with pytest.raises(SupersededError):
        earlier[0].vacuum(REPORTS)
    with pytest.raises(SupersededError):
        earlier[1].keep_versions(3)
    land(newest, poll(2, {"a:1": {"t/n/0x0_0x1": 1.0}}, every_ms=EVERY_MS))
    assert len(landed_polls(TablesReader(location))) == 2


def test_a_former_writer_that_commits_meanwhile_is_taken_over_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = take_over(open_location(tmp_path))
    commit, raced = history.commit, list[str]()

    def land_meanwhile(handle: Any, table: str, *others: Any) -> None:
        if table == REPORTS and not raced:
            raced.append(table)
            land(former, poll(1, {"a:1": {"t/n/0x0_0x1": 1.0}}, every_ms=EVERY_MS))
        commit(handle, table, *others)

    monkeypatch.setattr(history, "commit", land_meanwhile)
    later = take_over(former.location)
    assert (raced, later.epoch) == ([REPORTS], former.epoch + 1)
    assert landed_polls(later) == [START + EVERY_MS]
    with pytest.raises(SupersededError):
        former.commit(REPORTS, [])


def test_a_take_over_that_was_cut_off_between_two_tables_is_followed_by_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former, commit = take_over(open_location(tmp_path)), history.commit
    for last in TABLES:

        def cut_off(handle: Any, table: str, *others: Any, last: str = last) -> None:
            commit(handle, table, *others)
            if table == last:
                raise KeyboardInterrupt

        monkeypatch.setattr(history, "commit", cut_off)
        with pytest.raises(KeyboardInterrupt):
            take_over(former.location)
        monkeypatch.undo()
        later = take_over(former.location)
        for table in TABLES:
            later.commit(table, [])
            with pytest.raises(SupersededError):
                former.commit(table, [])
        former = later


def test_a_writer_whose_commit_failed_commits_nothing_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the store took it is not known; what it has is read by the next writer."""
    writer = take_over(open_location(tmp_path))

    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(history, "commit", fails)
    with pytest.raises(HistoryFaultError, match="the disk is full"):
        land(writer, poll(1, {"a:1": {}}))
    monkeypatch.undo()
    with pytest.raises(HistoryFaultError, match="the disk is full"):
        JournalWriter(writer).record_memory(START, RoundMemory())
    assert landed_polls(TablesReader(writer.location)) == []
    land(take_over(writer.location), poll(2, {"a:1": {}}))


def test_a_file_that_no_commit_names_is_no_row(tmp_path: Path) -> None:
    writer = take_over(open_location(tmp_path))
    rows = rows_to_arrow(poll(1, {"a:1": {"t/n/0x0_0x1": 1.0}}))
    write_file(writer.location, REPORTS, rows)
    assert landed_polls(TablesReader(writer.location)) == []
    writer.keep_versions(0)
    assert writer.vacuum(REPORTS) == 1


def test_changes_of_owners_of_a_poll_that_never_landed_are_found_again(tmp_path: Path) -> None:
    location = open_location(tmp_path)
    logged = [poll(n, {"a:1": {"t/n/0x0_0x1": 1.0}}) for n in (1, 2)]
    cut_off = take_over(location)
    BundleOwners.of(cut_off).land(cut_off, [logged[0].columns])
    again = take_over(location)
    owners = BundleOwners.of(again)
    owners.land(again, [logged[1].columns])
    land(again, logged[1])
    [file] = again.files("ownership_changes")
    assert file.first_poll == int(logged[1]["poll_id"][0])


def test_of_two_brokers_that_report_a_bundle_the_later_report_counts_else_the_new_owners() -> None:
    def seen(**at_ms: int) -> dict[str, Any]:
        count = len(at_ms)
        return {
            "poll_id": np.full(count, 9),
            "kind": np.full(count, "bundle"),
            "bundle": np.full(count, "t/n/0x0_0x1"),
            "broker": np.array([*at_ms]),
            "report_at_ms": np.array([*at_ms.values()]),
        }

    owners = BundleOwners()
    owners.changes(seen(a=1))
    assert len(owners.changes(seen(a=5, b=4))) == 0, "it was asked before the bundle came back"
    for reports in ({"a": 6, "b": 6}, {"a": 8, "b": 7}, {"b": 9, "a": 9}):
        [change] = owners.changes(seen(**reports)).to_pylist()
        assert change["destination"] != change["source"]
        assert {change["destination"], change["source"]} == {"a", "b"}


def test_a_commit_whose_answer_was_lost_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of a store writes again then, and is refused by its own commit."""
    writer = take_over(open_location(tmp_path))
    real = history.commit

    def lost(*args: Any) -> None:
        real(*args)
        raise CommitFailedError("Failed to commit transaction: Concurrent transaction failed.")

    monkeypatch.setattr(history, "commit", lost)
    land(writer, poll(1, {"a:1": {}}))
    monkeypatch.undo()
    land(writer, poll(2, {"a:1": {}}))
    assert len(landed_polls(TablesReader(writer.location))) == 2


LANDING = """
import sys
from counterpoise.pipeline.tables.history import take_over
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import land, newest_poll
from tests.load.story import START, poll
writer = take_over(open_location(sys.argv[1]))
number = max(0, newest_poll(writer) - START) // 5000
while True:
    number += 1
    land(writer, poll(number, {"a:1": {"t/n/0x0_0x1": 1.0}}))
    print(START + number * 5000, flush=True)
"""


@pytest.mark.timeout(180)
def test_a_kill_in_the_middle_of_a_commit_loses_nothing_acknowledged(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    rng = random.Random(7)
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", LANDING, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            acknowledged += [int(process.stdout.readline()) for _ in range(3)]
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0.001, 0.03))
            process.kill()
            acknowledged += [int(line) for line in process.stdout.read().split()]
        there = landed_polls(take_over(open_location(tmp_path)))
        assert set(acknowledged) <= set(there)
        assert there == sorted(there)
