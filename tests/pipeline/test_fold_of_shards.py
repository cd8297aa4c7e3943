"""The fold of a history without Spark: tasks write files, the writer commits them, and no other."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.pipeline.stream.fold import FoldBatch, ReportFold, fold_shard
from counterpoise.pipeline.tables.data_files import DataFile
from counterpoise.pipeline.tables.faults import SupersededError
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.tables.schema import FOLD_STATE, REPORTS
from counterpoise.pipeline.tables.states import current_states, read_state
from tests.load.story import START, joined, poll
from tests.load.test_fold import assert_same
from tests.pipeline.fake_cluster import bundle_name
from tests.pipeline.histories import compacted, reader_of, writer_of

EVERY = 5000
ROWS_OF_A_POLL = 6


@dataclass
class LocalTasks:
    """Tasks run one after the other in this process; each batch is kept."""

    fails_after: int = 0
    """How many tasks of the next batch write their files before one fails; 0: none fails."""
    meanwhile: Callable[[], object] = lambda: None
    """Called when the tasks are done, before their driver commits."""
    ran: list[FoldBatch] = field(default_factory=list)

    def run(self, batch: FoldBatch) -> Sequence[DataFile]:
        self.ran.append(batch)
        fails_after, self.fails_after = self.fails_after, 0
        files = []
        for shard in range(batch.shards):
            # Speculated: both attempts write a file, and the second is the one that counts.
            fold_shard(batch, shard)
            files.append(fold_shard(batch, shard))
            if len(files) == fails_after:
                raise ConnectionError("an executor was lost")
        self.meanwhile()
        return files


def at(number: int) -> int:
    return START + EVERY * number


def loads(number: int) -> dict[str, float]:
    return {bundle_name(index): 1.0 + (number * number * 7 + index) % 997 for index in range(4)}


def lands(writer: TablesWriter, numbers: range) -> None:
    for number in numbers:
        land(writer, poll(number, {"b1:80": loads(number)}))


def folded(at_path: Path) -> FoldState:
    """What is committed."""
    reader = reader_of(at_path)
    states = current_states(reader)
    assert states is not None
    assert len(reader.files(FOLD_STATE)) == states.shards, "one file for each shard, no other"
    return merged([read_state(reader.location, file) for file in states.files])


def expected(count: int) -> FoldState:
    polls = [poll(number, {"b1:80": loads(number)}) for number in range(count)]
    return merged([fold(FoldState.empty(), Batch.of(joined(polls)))])


def test_averages_over_more_than_a_hundred_samples_survive_every_state(tmp_path: Path) -> None:
    """By a scalar twin of Java's formula: limits of 10 and 1000."""
    writer, count = writer_of(tmp_path), 130
    running = ReportFold(writer, LocalTasks(), shards=2)
    for first in range(0, count, 26):
        lands(writer, range(first, first + 26))
        assert running.next() is not None
    state = folded(tmp_path)
    for index in range(4):
        [row] = np.flatnonzero(state.averages["bundle"] == bundle_name(index))
        for term, limit in (("short", 10), ("long", 1000)):
            value = 0.0
            for number in range(count):
                n = min(number + 1, limit)
                value = ((n - 1) * value + loads(number)[bundle_name(index)]) / n
            assert state.averages[f"{term}_samples"][row] == min(count, limit)
            assert state.averages[f"{term}_msg_throughput_in"][row] == value


_STEPS = st.one_of(
    st.tuples(st.just("land"), st.integers(1, 3)),
    st.tuples(st.just("fold"), st.integers(1, 20)),
    st.tuples(st.just("lose an executor"), st.integers(1, 3)),
    st.tuples(st.just("start again"), st.integers(1, 3)),
    st.tuples(st.just("start elsewhere"), st.integers(1, 3)),
    st.tuples(st.just("compact"), st.integers(0, 9)),
)


# To shrink a failure takes minutes, and says little more than it does.
@settings(max_examples=15, deadline=None, phases=set(Phase) - {Phase.shrink})
@given(steps=st.lists(_STEPS, min_size=2, max_size=8))
# A file of two polls, of which the first is folded: rare among so few examples.
@example(steps=[("land", 1), ("fold", 1), ("compact", 9)])
def test_however_batches_are_cut_lost_and_divided_each_poll_is_folded_once(
    steps: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as home:
        path = Path(home) / "history"
        writer, tasks, landed, shards = writer_of(path), LocalTasks(), 0, 2
        lands(writer, range(landed, landed := 1))
        running = ReportFold(writer, tasks, shards=shards)
        for step, number in steps:
            if step == "land":
                lands(writer, range(landed, landed := landed + number))
            elif step.startswith("start"):
                if step == "start elsewhere":
                    path = path.rename(f"{path}-moved")
                writer, shards = writer_of(path), number
                running = ReportFold(writer, tasks, shards=shards)
            elif step == "compact":
                compacted(writer, at(number))
            elif step == "lose an executor":
                tasks.fails_after = min(number, shards)
                with contextlib.suppress(ConnectionError):
                    running.next()
                tasks.fails_after = 0
            else:
                again = ReportFold(writer, tasks, shards=shards, most_rows=number)
                again.next()
                running = ReportFold(writer, tasks, shards=shards)
        while running.next():
            pass
        assert_same(folded(path), expected(landed))


def test_a_batch_is_limited_by_rows_however_many_polls_have_landed(tmp_path: Path) -> None:
    writer, tasks = writer_of(tmp_path), LocalTasks()
    lands(writer, range(10))
    running = ReportFold(writer, tasks, shards=2, most_rows=4 * ROWS_OF_A_POLL)
    while running.next():
        pass
    assert [batch.part.rows for batch in tasks.ran] == [24, 24, 12]
    assert_same(folded(tmp_path), expected(10))


def test_polls_wait_for_each_other_until_a_batch_is_worth_it(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    running = ReportFold(writer, LocalTasks(), shards=2, every_ms=2 * EVERY)
    lands(writer, range(1))
    assert running.next() is not None
    lands(writer, range(1, 2))
    assert running.next() is None
    lands(writer, range(2, 3))
    states = running.next()
    assert states is not None
    assert states.up_to == at(2)


def test_a_balancer_that_stood_still_while_another_took_over_commits_nothing(
    tmp_path: Path,
) -> None:
    """Its tasks are done, and their files written: it is refused at the commit, and ever after."""
    first, tasks = writer_of(tmp_path), LocalTasks()
    lands(first, range(2))
    stopped = ReportFold(first, tasks, shards=2)

    def others() -> None:
        second = writer_of(tmp_path)
        lands(second, range(2, 3))
        assert ReportFold(second, LocalTasks(), shards=2).next() is not None

    tasks.meanwhile = others
    for _ in range(2):
        with pytest.raises(SupersededError, match="has taken"):
            stopped.next()
        tasks.meanwhile = lambda: None
    with pytest.raises(SupersededError):
        land(first, poll(3, {"b1:80": loads(3)}))
    with pytest.raises(SupersededError):
        first.files(REPORTS)
    assert_same(folded(tmp_path), expected(3))
