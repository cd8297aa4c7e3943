"""What a journal remembers: the moves of an hour, the memory after a round, the newest states."""

from pathlib import Path

import pytest

from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, RoundMemory
from counterpoise.load.fold import FoldState
from counterpoise.names.bundle import namespace_of
from counterpoise.pipeline.tables.compaction import compact
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.schema import FOLD_STATE, JOURNAL
from counterpoise.pipeline.tables.states import commit_states, current_states, write_parts
from tests.load.story import START
from tests.pipeline.histories import writer_of
from tests.pipeline.test_rounds import TWO
from tests.pipeline.test_rounds import ended as ended_as


@pytest.fixture
def writer(tmp_path: Path) -> TablesWriter:
    return writer_of(tmp_path)


def test_moves_of_an_hour_are_those_that_ended_in_it_and_took_place(writer: TablesWriter) -> None:
    journal = JournalWriter(writer)
    for number, (status, decided, ended) in enumerate(
        (
            (MoveStatus.MOVED, -599_000, 0),
            (MoveStatus.MOVED, -9000, -1),
            (MoveStatus.STALE, 100, 200),
            (MoveStatus.WITHHELD, 100, 300),
            (MoveStatus.MOVED, 100, 400),
        )
    ):
        at, until = START + decided, START + ended
        move = f"{at}-{number}"
        journal.record_outcome(MoveOutcome(move, at, "b", "x", "y", status, "y", at, until))
    ended_after = sorted(each.at_ms - START for each in journal.moved_since(START))
    assert ended_after == [0, 400]


def test_what_a_moved_bundle_carried_and_how_long_it_took_is_known_after_a_restart(
    writer: TablesWriter,
) -> None:
    """An hour's limits go by it."""
    journal = JournalWriter(writer)
    journal.record_round(TWO)
    for move in TWO.moves:
        journal.record_outcome(ended_as(move, MoveStatus.MOVED))
    with pytest.raises(ValueError, match=f"of poll {TWO.poll_id}, or of a later one, was decided"):
        journal.record_round(TWO)
    past = JournalWriter(writer).moved_since(TWO.poll_id)
    expected = {(move.part, namespace_of(move.bundle), 2.5) for move in TWO.moves}
    assert {(each.part, each.namespace, each.seconds) for each in past} == expected
    assert all(move.part for move in TWO.moves)


def test_the_memory_is_that_of_the_latest_round_before_a_poll_compacted_or_not(
    writer: TablesWriter,
) -> None:
    journal = JournalWriter(writer)
    for number in range(1, 4):
        moved = {f"bundle {number}": START + number}
        journal.record_memory(START + number, RoundMemory(recently_unloaded=moved))
    for _ in range(2):
        for number in range(1, 5):
            known = JournalWriter(writer).memory_before(START + number).recently_unloaded
            assert set(known) == ({f"bundle {number - 1}"} if number > 1 else set())
        compact(writer, JOURNAL, up_to_poll=START + 3, at_least=2)
    assert len(writer.files(JOURNAL)) == 1, "or this test says nothing"


def test_states_count_once_and_those_before_them_leave_the_disk(
    writer: TablesWriter, tmp_path: Path
) -> None:
    for up_to in (START, START + 1, START + 1, START):
        files = write_parts(writer.location, FoldState.empty(), up_to=up_to, shards=2)
        before = current_states(writer)
        commit_states(writer, files, up_to)
        found = current_states(writer)
        assert found is not None
        if before is None or before.up_to < up_to:
            assert [file.name for file in found.files] == [file.name for file in files]
            on_disk = {path.name for path in (tmp_path / FOLD_STATE).glob("day=*/*.parquet")}
            assert on_disk >= {Path(file.name).name for file in files}
            if before is not None:
                assert on_disk.isdisjoint(Path(file.name).name for file in before.files)
        else:
            assert found == before, "what is folded already is left as it is"
